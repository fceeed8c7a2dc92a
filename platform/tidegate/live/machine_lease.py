"""The right to run live mode for a group, on one machine: a lock, which ends with its process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.runtime.lease import holder, lease


@contextmanager
def machine_lease(folder: Path, group: str) -> Iterator[None]:
    """See `standby.GroupLease`. `folder`: of the locks of a project."""
    name = f"{group}$live"
    with ExitStack() as taken:
        try:
            taken.enter_context(lease(folder, name))
        except TidegateError as error:
            raise taken_by(group, holder(folder, name)) if error.code == "TG508" else error from None
        yield


def taken_by(group: str, who: str) -> TidegateError:
    """TG508 for a group that another process works for."""
    return TidegateError(
        "TG508",
        f'another process runs live mode for "{group}": {who}',
        hint="stop it, or start this one with --standby, which waits for its end",
    )
