"""`jobs/amendments.yaml`: when late rows are taken into closed windows (B2), and of which views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tidegate.errors import TidegateError, did_you_mean
from tidegate.project.jobs.jobs import AMENDMENTS, Schedule
from tidegate.project.reading.strict import StrictModel, validate
from tidegate.project.reading.yamlfile import YamlFile, read_yaml

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog


class Amendment(Schedule):
    """Amends views at fixed times: exactly the closed windows that late rows hit, and the views downstream."""

    select: list[str] | Literal["*"] = "*"
    """Names of views, or `*` for all that can be amended."""


class AmendmentsFile(StrictModel):
    """`jobs/amendments.yaml`."""

    amendments: list[Amendment] = Field(default_factory=list)
    """When which views are amended."""


@dataclass(frozen=True)
class Amendments:
    """The file, or what holds without one."""

    content: AmendmentsFile = field(default_factory=AmendmentsFile)
    file: YamlFile | None = None

    def check(self, catalog: Catalog, taken: Mapping[str, str]) -> None:
        """Raise TG609 for a view that is not there, or can never be amended, and for a name that is taken: `taken`,
        where each schedule is, by name."""
        if self.file is None:
            return
        views = {v.name: v for v in catalog.views}
        seen = dict(taken)
        for i, amendment in enumerate(self.content.amendments):
            if amendment.name in seen:
                raise TidegateError(
                    "TG609",
                    f'schedule "{amendment.name}" is also defined in {seen[amendment.name]}',
                    hint="give it another name",
                    location=self.file.locate(("amendments", i, "name")),
                )
            seen[amendment.name] = self.file.name
            for j, name in enumerate(amendment.select if amendment.select != "*" else []):
                location = self.file.locate(("amendments", i, "select", j))
                if name not in views:
                    hint = did_you_mean(name, views) or f"known: {', '.join(sorted(views)) or 'none'}"
                    raise TidegateError("TG609", f'there is no view "{name}"', hint=hint, location=location)
                if views[name].over is not None:
                    raise TidegateError(
                        "TG609",
                        f'"{name}" can\'t be amended: its OVER windows carry rows from tick to tick',
                        hint="docs/amendments.md lists the views that can be amended",
                        location=location,
                    )


def load_amendments(root: Path, environ: Mapping[str, str] | None = None) -> Amendments:
    """Read `jobs/amendments.yaml` of a project, if there is one. Raises TG603–TG606 with places."""
    path = root / "jobs" / AMENDMENTS
    if not path.is_file():
        return Amendments()
    file = read_yaml(path, f"jobs/{AMENDMENTS}", environ)
    return Amendments(validate(AmendmentsFile, file), file)
