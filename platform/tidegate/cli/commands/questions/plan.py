"""`tidegate plan`: what a run would make of changed definitions, told without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, NamesArgument, SelectOption, chosen
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.evolve.planning import PlannedChange

_COLUMNS = ("name", "kind", "effect", "what", "reads", "readers and sinks", "read by", "command")


@guarded
def plan(
    call: Invocation,
    names: NamesArgument = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table in Markdown, for pull requests.")
    ] = False,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
) -> int:
    """Show the differences between the files and what is stored: what a run changes in place, what needs a rebuild,
    what is refused, what was removed from the files, what it reads, and what readers and sinks see of it. Nothing is
    changed.

    The exit code is 0 if there is nothing to do, 2 if there are changes or removed definitions, and 1 if something is
    refused or a file has an error.

    Example: tidegate plan --json
    """
    from tidegate.evolve.planning import exit_code, planned
    from tidegate.evolve.removed import removed

    try:
        project = call.project()
        catalog = project.catalog()
        wanted = chosen(catalog, names, select, exclude) if select or exclude else names or None
        for name in names or ():
            if name not in catalog:
                catalog.get(name)
        found = planned(project, catalog, wanted)
        found += removed(project, catalog) if wanted is None else []
    except TidegateError as error:
        # 2 says that there are changes.
        call.console.error(error)
        return 1
    code = exit_code(found)
    data = {"exit_code": code, "objects": [one.to_dict() for one in found]}
    call.console.document(data, _in_markdown(found) if markdown else _drawn(found))
    return code


def _drawn(found: list[PlannedChange]) -> str:
    """For people: what is to be done, one object after the other."""
    changed = [one for one in found if one.effect != "unchanged"]
    lines = [line for one in changed for line in _lines(one)]
    rest = len(found) - len(changed)
    return "\n".join([*lines, f"{rest} unchanged" if changed else f"nothing to do: {rest} unchanged"])


def _lines(one: PlannedChange) -> list[str]:
    lines = [f"{one.name} ({one.kind}): {one.effect}", *(f"  {what}" for what in one.what)]
    lines += [f"  reads {_cost(one)}"] if one.rows is not None else []
    lines += [f"  {seen}" for seen in (one.readers_see, one.sinks_see) if seen]
    lines += [f"  read by {', '.join(one.readers)}"] if one.readers else []
    return lines + ([f"  → {one.command}"] if one.command else [])


def _cost(one: PlannedChange) -> str:
    from tidegate.wording import counted

    size = "" if one.bytes is None or not one.rows else f" ({one.bytes / 1e6:,.1f} MB)"
    pace = "" if one.seconds is None else f", about {one.seconds:,.1f} s at the pace of its largest tick"
    return "" if one.rows is None else f"{counted(one.rows, 'stored row')}{size}{pace}"


def _in_markdown(found: list[PlannedChange]) -> str:
    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("\n", " ")

    rows = [
        (
            one.name,
            one.kind,
            one.effect,
            "; ".join(one.what),
            _cost(one),
            "; ".join(filter(None, (one.readers_see, one.sinks_see))),
            ", ".join(one.readers),
            one.command or "",
        )
        for one in found
    ]
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(cell(value) for value in line)} |" for line in lines)
