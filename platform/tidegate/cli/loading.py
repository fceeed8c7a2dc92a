"""Which commands there are, and where: each is imported when it is called, or when all of them are listed.

A command that another process answers takes less time than the import of all others would.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

#: In the order of `tidegate --help`.
_FOLDERS = {
    "init": "project",
    "check": "project",
    "explain": "project",
    "plan": "questions",
    "apply": "runs",
    "run": "runs",
    "live": "runs",
    "reload": "runs",
    "sql": "runs",
    "warm": "runs",
    "show": "questions",
    "status": "questions",
    "why": "questions",
    "late": "questions",
    "advise": "questions",
    "amend": "runs",
    "rebuild": "runs",
    "rollback": "runs",
    "promote": "runs",
    "audit": "questions",
    "backup": "project",
    "verify": "questions",
    "quality": "questions",
    "cleanup": "runs",
    "upkeep": "runs",
    "erase": "runs",
    "adopt": "runs",
    "docs": "project",
    "doctor": "project",
    "ui": "project",
    "test": "project",
    "alerts": "questions",
    "catalog": "runs",
}
#: Those whose function has another name than the command.
_FUNCTIONS = {"test": "run_tests"}


class _Commands(MutableMapping[str, Any]):
    """By name; each is made when it is looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_FOLDERS)

    def __len__(self) -> int:
        return len(_FOLDERS)


class CommandsByName(TyperGroup):
    """All commands of `tidegate`."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()


def _command(name: str) -> Any:
    """A command, or a group of commands. Raises KeyError."""
    module = import_module(f"tidegate.cli.commands.{_FOLDERS[name]}.{name}")
    found = getattr(module, _FUNCTIONS.get(name, name))
    if isinstance(found, typer.Typer):
        # A group stays one if it has one command only.
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, no_args_is_help=False)(found)
    return typer.main.get_command(alone)
