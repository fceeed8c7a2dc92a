"""A worker process without Spark, for tests of the supervisor: `python worker.py BEHAVIOUR`. It is told of groups on
its standard input, and writes lines of theirs, as that of `tidegate live` does."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

BEHAVIOUR = sys.argv[1]


def say(group: str, **line: object) -> None:
    print(json.dumps({"of": group, **line}), flush=True)


def notify(group: str, event: str, **facts: object) -> None:
    say(group, event={"event": event, "group": group, **facts})


def opened(group: str, members: list[str], interval: float, hung: dict[str, int]) -> None:
    """Its one tick takes as long as its interval, it says."""
    print("words that are no line", file=sys.stderr, flush=True)
    say(group, begins=True)
    notify(group, "worker_started", names=members, pid=os.getpid())
    if BEHAVIOUR == "noise":
        for text in (
            b"\xff\xfe words",
            b"[" * 100_000,
            b'{"of": []}',
            b'{"of": "a", "event": "words"}',
            b'{"of": "a", "exit": "x"}',
        ):
            sys.stdout.buffer.write(text + b"\n")
            sys.stderr.buffer.write(text[:100] + b"\n")
        sys.stdout.flush()
        sys.stderr.flush()
    if BEHAVIOUR == "poison" and group == "a":
        os.kill(os.getpid(), signal.SIGKILL)
    if BEHAVIOUR == "hangs" and group == "a":
        return
    if BEHAVIOUR == "stuck" and group == "a" and not hung:
        facts = {"kind": "source", "seconds": 301.0, "code": "TG519", "message": "hangs"}
        notify(group, "work_hangs", name="a", **facts)
        return
    tick = {"tick": 1, "rows": 7, "backlog": False, "commit_seconds": 0.1, "failing": []}
    notify(group, "tick_finished", seconds=interval, **tick)
    say(group, rests=True)
    if BEHAVIOUR == "definition":
        notify(group, "worker_failed", code="TG506", message="changed", hint="DROP it", curable=False)
        say(group, exit=2)
    elif BEHAVIOUR == "idle":
        say(group, exit=0)


def main() -> None:
    for line in sys.stdin:
        told = json.loads(line)
        if "open" in told:
            opened(told["open"], told["members"], told["interval"], told["hung"])
        elif "definitions" in told:
            print(f"definitions of {len(told['definitions'])} files", file=sys.stderr, flush=True)
        elif BEHAVIOUR == "deaf":
            pass
        else:
            notify(told["stop"], "worker_stopping", why="asked to", ticks=1)
            say(told["stop"], exit=0)
    if BEHAVIOUR in ("deaf", "lingers"):
        time.sleep(600)


if __name__ == "__main__":
    main()
