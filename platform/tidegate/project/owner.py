"""Whose tables are (X3): every table that tidegate makes says in a property whose it is: of which project, and where.

Two working copies of a project are the same owner in the same environment. A project is known by the `project:` of its
environment's file, else by the name of its folder (docs/decisions/owners.md).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tidegate.errors import TidegateError

#: Table properties: the owner, and how the table came to it, if it was not made by it.
OWNER, ADOPTED = "tidegate.owner", "tidegate.adopted"


@dataclass(frozen=True)
class Owner:
    """A project in an environment."""

    project: str
    environment: str

    def __str__(self) -> str:
        return f'project "{self.project}" in environment "{self.environment}"'

    def to_text(self) -> str:
        """As a table's property."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of_text(cls, text: str | None) -> Owner | None:
        """Of a property; None: a table of a release that knew no owners is nobody's yet. What is no text of ours is an
        owner, too, whom nobody is."""
        if text is None:
            return None
        try:
            return cls.of(json.loads(text))
        except (ValueError, TypeError):
            return cls(text, "?")

    @classmethod
    def of(cls, facts: dict[str, str] | None) -> Owner | None:
        """Of what `asdict` gives; None: nobody."""
        return None if facts is None else cls(**facts)


def adoption(before: str | None, was: Owner | None, at: str) -> str:
    """The property ADOPTED after one more. `before`: what it said until now; `was`: the owner until now; `at`: when."""
    history = [] if before is None else json.loads(before)
    return json.dumps([*history, {"from": None if was is None else asdict(was), "at": at}])


def require_owner(table: str, owner: Owner, found: Owner | None) -> None:
    """Raise TG531 if a table or sink belongs to somebody else (`found`) than `owner`; None is nobody."""
    if found is not None and found != owner:
        name = table.split("`")[-2] if table.endswith("`") else table
        raise TidegateError(
            "TG531",
            f'"{name}" belongs to {found}; this is {owner}, and can only read it',
            hint="write it from that project and environment; or take it over with tidegate adopt "
            f"{name.partition('$')[0]}; if both are one project, give it one name with project: "
            f"{found.project} in resources/{owner.environment}.yaml",
        )
