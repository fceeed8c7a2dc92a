"""How the prompt shows the result of a statement, also of one that another process has carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidegate.cli.statements import show_result

if TYPE_CHECKING:
    from tidegate.console.port import Console, Layout
    from tidegate.runtime.result import Result

#: Rows of a result that are drawn.
SHOWN = 1000


def show_in_shell(console: Console, result: Result, layout: str) -> None:
    """Draw a result, or its first rows."""
    if result.fixed and result.columns == [("plan", "string")]:
        # A drawing of its own: nothing of it is to be cut.
        console.document({}, "\n".join(line for (line,) in result.fixed))
        return
    show_result(console, result, limit=SHOWN, layout=cast("Layout", layout))
