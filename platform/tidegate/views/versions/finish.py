"""The way of a new version of a view to its swap, beside ticks of the current one (E5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tidegate.errors import TidegateError
from tidegate.views.versions.build import VersionBuild

#: How often a swap gives way to a tick of the current version, and how often before this one has to stand.
_TRIES, _GIVES_WAY = 20, 3


def finish(
    build: VersionBuild,
    notify: Callable[[str], None] = lambda text: None,
    facts: Mapping[str, str] | None = None,
    allowed: Callable[[], None] = lambda: None,
) -> None:
    """Compute what is missing of a version, and swap it in. Where the current version is ahead again and again, since
    live mode ticks faster, it stands for as long as two more tries take. `facts`: more table properties. `allowed`:
    asked before the swap, raises what forbids it. Raises TG502 if the current version is always ahead."""
    for tries in range(1, _TRIES + 1):
        started = time.monotonic()
        while build.advance():
            notify(f"{100 * build.mark.done(build.frontier()):.0f} % of the rows are read")
        allowed()
        if build.swapped(facts):
            return
        if build.is_behind and _GIVES_WAY <= tries < _TRIES:
            build.let_current_stand(2 * (time.monotonic() - started))
    raise TidegateError(
        "TG502",
        f'"{build.name}" was not swapped: {build.waits_for()}',
        hint="run again: it continues where it is, and is swapped in when it has reached the current version",
    )
