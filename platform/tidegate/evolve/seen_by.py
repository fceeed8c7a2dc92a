"""What readers and sinks see of a planned change (E5, E6), in words."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.sql.catalog.objects import Sink


def readers_see(name: str, kind: str, effect: str, version: int) -> str | None:
    """`version`: the current one of a view."""
    if effect == "new version":
        return (
            "readers see the old rows until the new version has reached them, then the new ones, all at once; the "
            f'old ones stay readable as "{name}$v{version}"'
        )
    if effect == "in place" and kind == "view":
        return "readers see the current version continue"
    return {
        "new": "readers find it after its first commit",
        "in place": "readers see the change all at once, with its commit; stored rows stay as they were judged",
        "refused": "readers see what is stored, as before",
    }.get(effect)


def sinks_see(effect: str, sinks: Mapping[str, tuple[str, ...]]) -> str | None:
    """`sinks`: those that deliver it, with what becomes of them."""
    names = ", ".join(sinks)
    if not sinks or effect == "unchanged":
        return None
    if effect == "new version":
        begins = ("it has delivered nothing yet, and begins with the new version",)
        return "; ".join(f"{name}: {'; '.join(what or begins)}" for name, what in sinks.items())
    if effect == "refused":
        return f"no new rows for {names}"
    return f"{names}: what was delivered stands, and the next rows follow" if effect == "in place" else None


def first_delivery(sink: Sink) -> str:
    """Of a sink that has delivered nothing."""
    rows = "all rows, from the start" if sink.connector.snapshot else "the rows that come from now on"
    return f'it delivers {rows}, of "{sink.upstream}"'
