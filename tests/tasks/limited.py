"""A run whose Python workers have only so much memory, in a process of its own: `python -m tests.tasks.limited ROOT`
prints, for each source, the sizes of the batches that were planned, and its rows by what became of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tidegate
from tidegate.errors import TidegateError
from tidegate.ingest.stream import PlanInbox


def main(root: Path) -> None:
    sizes: list[int] = []
    write = PlanInbox.write

    def written(self: PlanInbox, plan: Any) -> None:
        sizes.append(len(plan.units))
        write(self, plan)

    PlanInbox.write = written  # type: ignore[method-assign]  # it is told, and goes on as ever
    session = tidegate.connect(project=root, env="local")
    found = {}
    for name in ("lines", "columns"):
        sizes.clear()
        error = None
        try:
            session.run([name])
        except TidegateError as raised:
            error = raised.code
        rows = session.table(f"{name}$raw").groupBy("outcome", "reason").count().collect()
        found[name] = {"error": error, "rows": [list(row) for row in rows], "sizes": [*sizes]}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
