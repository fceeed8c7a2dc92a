"""Seeds are played until one fails: `python -m tests.simulate.until FIRST COUNT` (for `make mutants`).

Each seed is printed as it begins, and in the end which promise was broken, as JSON, or null."""

from __future__ import annotations

import json
import sys

from tests.inprocess.session import without_a_jvm
from tests.simulate.patience import limited
from tests.simulate.play import play
from tests.simulate.scripts.script import script_of


def main(first: int, count: int) -> None:
    """Play so many seeds from the first on."""
    wrong = None
    with without_a_jvm():
        for seed in range(first, first + count):
            print(f"seed {seed}", flush=True)
            with limited():
                wrong = play(script_of(seed)).wrong
            if wrong is not None:
                break
    print(f"wrong {json.dumps(wrong)}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
