"""`quality/*.yaml`: what a team expects of its sources, tables and views, one file for each of them.

Names and parameters of expectations are those of Great Expectations, from a list that was generated from it
(`infra/expectation_list.py`): `check` does not need it installed, and does not take the seconds of its import.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tidegate.errors import Location, TidegateError, did_you_mean
from tidegate.project.reading.strict import Seconds, StrictModel, refuse, validate
from tidegate.project.reading.yamlfile import YamlFile, read_yaml
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.statements.expectation_sql import PARAMETERS

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog

FOLDER = "quality"
SEVERITIES = ("critical", "warning", "info")
#: What every expectation takes beside its own parameters.
_OWN = ("severity", "description")
#: Parameters that name one column, or several.
_COLUMN, _COLUMNS = ("column", "column_A", "column_B"), ("column_list",)
#: Columns that rows have beside those of the definition: a view's window, and where a row of a log stood.
VIEW_COLUMNS = ("_window_start", "_window_end")
LOG_COLUMNS = ("_source_partition", "_offset", "_arrival")

Place = tuple[str | int, ...]


def _share(value: object) -> object:
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            value = float(value.strip()[:-1]) / 100
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise refuse("this must be a share", hint="write for example 5 %, or 0.05")
    return float(value)


Share = Annotated[float, BeforeValidator(_share)]
"""A share of rows, 0 to 1, written as `5 %` or `0.05`."""


class Reconciliation(StrictModel):
    """What is set for the reconciliation suite that every view has."""

    late_rate: Share = 0.1
    """Largest share of a day's rows that may be late, of days with at least `least_rows`."""

    late_rate_growth: Share = 0.02
    """How much the share of late rows may have grown over the last `trend_days` days, if it grows steadily."""

    trend_days: Annotated[int, Field(ge=7, le=366)] = 30
    """How many of the newest days make the trend."""

    least_rows: Annotated[int, Field(ge=1)] = 100
    """Days with fewer rows are not judged by their late rate."""

    longest_gap: Seconds | None = None
    """Longest time without any window between two windows. None: quiet times are no fault; a window that the log has
    rows for and the view has not always is one."""

    lookback: Seconds | None = None
    """Only windows that ended within this time before the view's frontier are reconciled. None: all of them."""


class QualityFile(StrictModel):
    """One file of `quality/`."""

    asset: str
    """Name of the source, table or view."""

    reconciliation: Reconciliation | None = None
    """For a view: limits of its reconciliation suite."""

    expectations: list[dict[str, Any]] = Field(default_factory=list)
    """Expectations by name, each with its parameters, `severity` and `description`."""


@dataclass(frozen=True)
class Expectation:
    """One expectation of a suite. `arguments`: as Great Expectations calls them, columns in the case of the definition;
    `row_condition` is Spark SQL."""

    type: str
    arguments: Mapping[str, Any]
    severity: Literal["critical", "warning", "info"] = "critical"
    description: str | None = None

    @property
    def text(self) -> str:
        """The description, or name and arguments."""
        if self.description:
            return self.description
        given = ", ".join(f"{key} {value}" for key, value in self.arguments.items())
        return f"{self.type.replace('_', ' ')}: {given}" if given else self.type.replace("_", " ")


@dataclass(frozen=True)
class Quality:
    """All files of `quality/`. `of` and `suite` after `check`."""

    files: tuple[tuple[YamlFile, QualityFile], ...] = ()
    _suites: dict[str, tuple[Expectation, ...]] = field(default_factory=dict, repr=False)

    def check(self, catalog: Catalog) -> None:
        """Raise TG617 for an asset, expectation, parameter or column that is not there, with its place."""
        seen: dict[str, str] = {}
        for file, content in self.files:
            item = _asset(catalog, file, content)
            if item.name in seen:
                raise _wrong(
                    f'"{item.name}" already has a file: {seen[item.name]}',
                    "put these expectations into that file",
                    file.locate(("asset",)),
                )
            seen[item.name] = file.name
            if content.reconciliation is not None and not isinstance(item, View):
                raise _wrong(
                    f'"{item.name}" is not a view: only views are reconciled',
                    (
                        "the rows of a log are always checked; expectations: is possible for a log and for a "
                        "view"
                    ),
                    file.locate(("reconciliation",), key=True),
                )
            self._suites[item.name] = tuple(_suite(file, content, item))

    def reconciliation(self, name: str) -> Reconciliation:
        """The limits of a view's reconciliation suite."""
        for _, content in self.files:
            if content.asset.casefold() == name.casefold() and content.reconciliation is not None:
                return content.reconciliation
        return Reconciliation()

    def suite(self, name: str) -> tuple[Expectation, ...]:
        """The team's own expectations of an asset."""
        return self._suites.get(name, ())

    @property
    def names(self) -> list[str]:
        """The assets that have expectations of their own."""
        return [name for name, suite in self._suites.items() if suite]


def identity(suite: tuple[Expectation, ...]) -> str:
    """Changes with what a suite asks for, not with its descriptions."""
    facts = [(e.type, dict(e.arguments), e.severity) for e in suite]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def load_quality(root: Path, catalog: Catalog, environ: Mapping[str, str] | None = None) -> Quality:
    """Read and check `quality/*.yaml` of a project. Raises TG603–TG606 and TG617, with places."""
    files = []
    for path in sorted((root / FOLDER).glob("*.yaml")):
        file = read_yaml(path, f"{FOLDER}/{path.name}", environ)
        files.append((file, validate(QualityFile, file)))
    quality = Quality(tuple(files))
    quality.check(catalog)
    return quality


def require_great_expectations() -> None:
    """Raise TG618 if it is not installed. It is looked for, not imported: that takes seconds."""
    if find_spec("great_expectations") is None:
        raise TidegateError(
            "TG618",
            "Great Expectations is not installed",
            hint=f"pip install great-expectations=={_known()['great_expectations']}",
        )


@cache
def _known() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return known


def known_expectations() -> dict[str, dict[str, Any]]:
    """Every expectation that runs on Spark: what it is `about`, what it `requires`, its `parameters`."""
    expectations: dict[str, dict[str, Any]] = _known()["expectations"]
    return expectations


def columns_of(item: Relation | View) -> list[str]:
    """The columns that expectations of an asset can be about."""
    return [c.name for c in item.columns] + list(VIEW_COLUMNS if isinstance(item, View) else LOG_COLUMNS)


def _asset(catalog: Catalog, file: YamlFile, content: QualityFile) -> Relation | View:
    objects: tuple[Relation | View, ...] = (*catalog.relations, *catalog.views)
    found = {o.name.casefold(): o for o in objects}
    item = found.get(content.asset.casefold())
    if item is None:
        names = [o.name for o in found.values()]
        hint = did_you_mean(content.asset, names) or f"known: {', '.join(sorted(names)) or 'none'}"
        raise _wrong(f'there is no source, table or view "{content.asset}"', hint, file.locate(("asset",)))
    return item


def _suite(file: YamlFile, content: QualityFile, item: Relation | View) -> Iterator[Expectation]:
    known = known_expectations()
    for number, entry in enumerate(content.expectations):
        place: Place = ("expectations", number)
        if len(entry) != 1:
            raise _wrong(
                f"write one expectation here, not {len(entry)} keys",
                "write for example - expect_column_values_to_not_be_null: {column: NAME}",
                file.locate(place),
            )
        [(name, given)] = entry.items()
        if name not in known:
            hint = did_you_mean(name, known) or did_you_mean(f"expect_{name}", known)
            raise _wrong(
                f'expectation "{name}" does not exist on Spark',
                hint or "docs/quality.md lists them",
                file.locate((*place, name), key=True),
            )
        if given is not None and not isinstance(given, dict):
            raise _wrong(
                f"{name}: parameters must be given here",
                "write for example {column: NAME}",
                file.locate((*place, name)),
            )
        yield _expectation(file, (*place, name), name, given or {}, item)


def _expectation(
    file: YamlFile, place: Place, name: str, given: dict[str, Any], item: Relation | View
) -> Expectation:
    facts = known_expectations()[name]
    parameters = facts["parameters"]
    for key, value in given.items():
        if key not in parameters and key not in _OWN:
            takes = [*parameters, *_OWN]
            raise _wrong(
                f"{name} has no parameter {key}",
                did_you_mean(key, takes) or f"its parameters are {', '.join(takes)}",
                file.locate((*place, key), key=True),
            )
        problem = _problem(parameters.get(key, {"is": ["text"]}), value)
        if key == "severity" and value not in SEVERITIES:
            problem = f"must be one of {', '.join(SEVERITIES)}"
        if problem:
            raise _wrong(f"{name}: {key} {problem}", None, file.locate((*place, key)))
        if key in PARAMETERS and isinstance(value, str):
            _require_harmless(f"{name}: {key}", key, value, file.locate((*place, key)))
    missing = [key for key in facts["requires"] if key not in given]
    if missing:
        raise _wrong(f"{name} needs {', '.join(missing)}", None, file.locate(place, key=True))
    arguments = {key: value for key, value in given.items() if key not in _OWN}
    for key in _COLUMN:
        if key in arguments:
            arguments[key] = _column(arguments[key], item, file.locate((*place, key)))
    for key in _COLUMNS:
        if key in arguments:
            arguments[key] = [
                _column(one, item, file.locate((*place, key, i))) for i, one in enumerate(arguments[key])
            ]
    return Expectation(name, arguments, given.get("severity", "critical"), given.get("description"))


def _require_harmless(what: str, key: str, sql: str, location: Location | None) -> None:
    try:
        PARAMETERS[key](sql)
    except TidegateError as problem:
        raise TidegateError(
            problem.code, f"{what}: {problem.message}", hint=problem.hint, location=location
        ) from None


def _column(name: Any, item: Relation | View, location: Location | None) -> str:
    columns = columns_of(item)
    exact = {c.casefold(): c for c in columns}.get(str(name).casefold())
    if exact is None:
        hint = did_you_mean(str(name), columns) or f"its columns are {', '.join(columns)}"
        raise _wrong(f'"{item.name}" has no column "{name}"', hint, location)
    return exact


def _problem(allowed: dict[str, Any], value: object) -> str | None:
    """What is wrong with a parameter's value; None: nothing."""
    if "one_of" in allowed:
        return None if value in allowed["one_of"] else f"must be one of {', '.join(allowed['one_of'])}"
    words = allowed["is"]
    if not words or any(_fits(word, value) for word in words):
        return None
    return f"is a {' or '.join(words)}"


def _fits(word: str, value: object) -> bool:
    if isinstance(value, bool):
        return word == "boolean"
    if word == "time":
        return isinstance(value, date) or (isinstance(value, str) and _is_time(value))
    kinds: dict[str, type | tuple[type, ...]] = {
        "number": (int, float),
        "integer": int,
        "text": str,
        "list": list,
        "mapping": dict,
    }
    return word in kinds and isinstance(value, kinds[word])


def _is_time(text: str) -> bool:
    from tidegate.watermark import TimeKind

    try:
        TimeKind.TIMESTAMPTZ.parse(text)
    except ValueError:
        return False
    return True


def _wrong(message: str, hint: str | None, location: Location | None) -> TidegateError:
    return TidegateError("TG617", message, hint=hint, location=location)
