"""A process to be killed: `python -m tests.runtime.killable PROJECT` runs it and prints a line per commit.

With `GROUP` behind it, it first takes the right to run live mode for that group in the catalog, and says when another
process has got it. A file of its own: it is run as one.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

import tidegate


def take_lease(project: tidegate.Session, group: str, stack: ExitStack) -> None:
    from tidegate.iceberg.lease_tables import LeaseTables
    from tidegate.live.catalog_lease import CatalogLeases

    storage = project.project.storage
    lost = CatalogLeases(LeaseTables(storage), storage.owner, lambda lost: print("lost", lost, flush=True))
    stack.enter_context(lost.lease(group))


if __name__ == "__main__":
    session = tidegate.connect(project=sys.argv[1])
    with ExitStack() as held:
        for group in sys.argv[2:]:
            take_lease(session, group, held)
        print("ready", flush=True)
        session.run(on_event=lambda event: print(type(event).__name__, flush=True))
        print("done", flush=True)
