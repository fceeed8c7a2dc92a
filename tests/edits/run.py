"""`make edits`: projects that are edited while they are live, each from one seed, with a real broker and kills.

python -m tests.edits.run --seeds 20      # continues where it was stopped
python -m tests.edits.run --seed 3        # one of them
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra.kafka.broker import LocalBroker, free_port
from tests.edits.play import EditedProject
from tests.edits.script import script_of
from tests.mutants.tree import digest, files

#: Where a run takes down what it has done, and what that depends on.
PROGRESS = Path(".tidegate/edits/progress.json")
_PLAYED = ("platform/", "tests/edits/", "tests/chaos/", "tests/simulate/scripts/", "tests/oracles/")


def main(given: list[str] | None = None) -> int:
    """0: nothing differs; 1: something does."""
    parser = argparse.ArgumentParser(
        prog="make edits", description="Projects that are edited while they are live"
    )
    parser.add_argument("--seeds", type=int, default=20, help="how many (20)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="only this one, whatever was done before")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the projects in this folder")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help=f"what was done ({PROGRESS})")
    parser.add_argument("--json", action="store_true", help="print what happened as JSON")
    asked = parser.parse_args(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = [asked.seed] if asked.seed is not None else list(range(asked.first, asked.first + asked.seeds))
    done = {} if asked.seed is not None else _known(asked.progress)
    with _broker() as bootstrap:
        for seed in wanted:
            if str(seed) in done:
                continue
            done[str(seed)] = _play(seed, bootstrap, asked.keep)
            if asked.seed is None:
                _note(asked.progress, done)
    played = [done[str(seed)] for seed in wanted]
    print(json.dumps(played, indent=1) if asked.json else "\n".join(map(_told, played)))
    return 1 if any(one["wrong"] for one in played) else 0


def _play(seed: int, bootstrap: str, keep: Path | None) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix=f"tidegate-edits-{seed}-", dir=keep))
    try:
        played = asdict(EditedProject(script_of(seed), folder, bootstrap, _say).run())
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    _say(_told(played))
    return played


def _told(played: dict[str, Any]) -> str:
    kills = ", ".join(f"{name} {n}" for name, n in sorted(played["kills"].items())) or "none"
    lines = [
        f"seed {played['script']['seed']}: {played['rows']:,} rows, {played['versions']} edits of columns, "
        f"{played['applies']} times apply, {played['rollbacks']} rollbacks, killed: {kills}; "
        f"rows of views {played['shown']}; {played['seconds']} s"
    ]
    return "\n".join([*lines, *(f"  WRONG: {one}" for one in played["wrong"])])


@contextmanager
def _broker() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="tidegate-edits-kafka-"))
    broker, port = LocalBroker(folder), free_port()
    try:
        broker.start(port, with_parent=True, notify=_say)
        yield f"127.0.0.1:{port}"
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _version() -> str:
    return digest([name for name in files() if name.startswith(_PLAYED)])


def _known(path: Path) -> dict[str, Any]:
    """What was done on this tree."""
    if not path.is_file():
        return {}
    known = json.loads(path.read_text("utf-8"))
    return known["done"] if known["version"] == _version() else {}


def _note(path: Path, done: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"version": _version(), "done": done}), "utf-8")
    os.replace(new, path)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
