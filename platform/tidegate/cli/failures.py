"""What a command says that could not do all of what it was asked for: each failure once, what was done, and what was
not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

if TYPE_CHECKING:
    from tidegate.console.port import Console
    from tidegate.runtime.result import Failure, Skipped
    from tidegate.runtime.steps import Steps

FailFastOption = Annotated[
    bool,
    typer.Option(
        "--fail-fast",
        help=(
            "Stop at the first failure. Without it, everything that does not depend on the failure continues."
        ),
    ),
]


def steps_for(names: Sequence[str] | None, fail_fast: bool = False) -> Steps:
    """For a command about `names` (None: everything): a failure of one leaves the others alone, unless `fail_fast`.
    Where there are no others it is raised, and shown as any error."""
    from tidegate.runtime.steps import Steps

    return Steps(fail_fast or (names is not None and len(names) == 1))


class Speaker(Protocol):
    """A call of a command, as far as what it says goes: of this process, or of another one that has asked it."""

    @property
    def console(self) -> Console:
        """Where it is said."""

    @property
    def json(self) -> bool:
        """Whether to a program."""

    @property
    def debug(self) -> bool:
        """Whether tracebacks are wanted."""


def conclude(
    call: Speaker, failed: Sequence[Failure], skipped: Sequence[Skipped] = (), done: int | None = None
) -> int:
    """Show the summary, if something failed; the exit code. `done`: how many there were that went well."""
    if not failed:
        return 0
    for one in failed:
        if call.debug and "traceback" in one.error:
            sys.stderr.write(one.error["traceback"])
    if not call.json:
        call.console.error(summary(failed, skipped, done))
    return 1


def told(steps: Steps) -> dict[str, Any]:
    """What was not done, for `--json`; nothing where everything was."""
    found: dict[str, Sequence[Failure | Skipped]] = {"failed": steps.failures, "skipped": steps.skipped}
    return {key: [asdict(one) for one in ones] for key, ones in found.items() if ones}


def summary(failed: Sequence[Failure], skipped: Sequence[Skipped] = (), done: int | None = None) -> str:
    """A line for what there is of each, then one for each that was not done."""
    counts = [f"{len(failed):,} failed"]
    counts += [f"{len(skipped):,} skipped"] if skipped else []
    counts += [f"{done:,} done"] if done is not None else []
    lines = [f"not everything succeeded: {', '.join(counts)}"]
    for one in failed:
        lines.append(one.text())
        if one.error.get("hint"):
            first, *more = one.error["hint"].split("\n")
            lines += [f"            hint: {first}", *(f"            {line}" for line in more)]
    lines += [one.text() for one in skipped]
    lines.append("what was committed is kept; the same command continues from there")
    return "\n".join(lines)
