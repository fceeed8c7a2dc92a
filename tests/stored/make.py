"""Keep a release's tables: `python -m tests.stored.make RELEASE`, run with that release's package on PYTHONPATH.

`RELEASE` names a module beside this one with what `first_release.py` has. What is kept: `releases/RELEASE.tar.xz`, the
project with its warehouse and the broker's folder after `first`; `releases/RELEASE.json.xz`, what the release answered
then, and after `then`. A later release gets a name and a module of its own and leaves earlier ones as they are:

    git worktree add --detach ../release v1.2.0
    PYTHONPATH=../release/platform:. .venv/bin/python -m tests.stored.make release_1_2
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import time
from pathlib import Path

import tidegate
from tests.stored.answers import answers
from tests.stored.place import keep_answers, pack, place
from tests.support.kafka import Broker


def make(release: str) -> None:
    module = importlib.import_module(f"tests.stored.{release}")
    with place(release) as folder:
        broker = Broker(folder / "broker")
        broker.start()
        os.environ[module.BROKER] = broker.bootstrap
        root = folder / "project"
        module.define(root)
        session = tidegate.connect(project=root)
        began = time.monotonic()
        module.first(session, broker)
        print(f"first: {time.monotonic() - began:.1f} s")
        before = answers(session, broker, module.OUT)
        print(f"answers: {time.monotonic() - began:.1f} s")
        broker.stop()
        kept = Path(shutil.copytree(folder, f"{folder}-kept", dirs_exist_ok=True))
        _without_scratch(kept)
        file = pack(kept, release)
        shutil.rmtree(kept)
        broker.start()
        module.then(session, broker)
        after = answers(session, broker, module.OUT, module.AUDITED, clocks=False)
        session.close(stop_spark=True)
        broker.stop()
    keep_answers({"first": before, "then": after}, release)
    wrong = [
        name
        for found in (before, after)
        for name, said in found.items()
        if "audit" in name and not said["ok"]
    ]
    print(f"{file}: {file.stat().st_size:,} bytes; audits that fail: {wrong}")


def _without_scratch(folder: Path) -> None:
    """Logs, locks, checkpoints, and the broker's process are nobody's tables."""
    for name in ("logs", "locks"):
        shutil.rmtree(folder / "project" / ".tidegate" / name, ignore_errors=True)
    for name in ("broker.json", "broker.log", "broker.properties", "lock"):
        (folder / "broker" / name).unlink(missing_ok=True)
    # Kafka makes empty indexes of its segments anew; they are 10 MB each as long as it runs.
    for path in folder.rglob("*"):
        if path.suffix in (".index", ".timeindex") and not path.stat().st_size:
            path.unlink()


if __name__ == "__main__":
    make(sys.argv[1])
