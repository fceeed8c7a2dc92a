"""A process to be killed: `python -m tests.runtime.killable PROJECT` runs it and prints a line per commit.

A file of its own: it is run as one.
"""

from __future__ import annotations

import sys

import tidegate

if __name__ == "__main__":
    session = tidegate.connect(project=sys.argv[1])
    print("ready", flush=True)
    session.run(on_event=lambda event: print(type(event).__name__, flush=True))
    print("done", flush=True)
