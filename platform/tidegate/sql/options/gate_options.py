"""Options of WITH (…) that are about the gate, not about a connector: tables take them too (W9, S4)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tidegate.errors import did_you_mean
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.intervals import Length, read_length
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.syntax import OptionSyntax
from tidegate.sql.options.options import once
from tidegate.watermark import SourceWatermark, TimeKind
from tidegate.watermark.timekind import DAY_MICROS

_OFF = ("off", "none")
#: W9, of live brokers.
_LIVE_SKEW = Length(days=1)

Duration = Length | int
"""A length of time; an integer is in the unit of an integer column."""


def _duration(value: Any) -> Any:
    """`'50 ms'`, `'1 day 12 hours'`; a bare integer is in the column's own unit."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"\s*\d+\s*", value):
        return int(value)
    length = read_length(value)
    if length is None or length.months or length.days < 0 or length.micros < 0:
        raise ValueError("expected a length of time such as 50 ms or 7 days")
    return length


def _optional_duration(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in _OFF else _duration(value)


def _steps(value: Any) -> Any:
    """`'250: 7 days, 500: 30 seconds'`: up to which row which margin."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() in _OFF:
        return ()
    steps = []
    for part in value.split(","):
        row, colon, margin = part.partition(":")
        if not colon or not row.strip().isdigit():
            raise ValueError("expected steps such as 250: 7 days, 500: 30 seconds")
        steps.append((int(row), _duration(margin)))
    return tuple(steps)


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


class GateOptions(BaseModel):
    """How rows are judged, beside the strategy; the alias of a field is its name in SQL.

    `watermark.…`: the numbers of SOURCE_WATERMARK() (S1-S4), with the rule's own as defaults; other strategies ignore
    them, so that an ALTER (W13) may go there and back. `max_future_skew`: how far ahead of the batch's clock a row may
    be and still raise the watermark (W9); off by default, a day for live brokers. `watermark_granularity`: 'batch'
    compares with the watermark as it stood before the batch.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, arbitrary_types_allowed=True
    )
    window: Annotated[int, Field(gt=0)] = Field(5000, alias="watermark.window")
    quantile: Annotated[float, Field(gt=0, le=1)] = Field(0.95, alias="watermark.quantile")
    interval: Annotated[int, Field(gt=0)] = Field(250, alias="watermark.interval")
    min_delay: Annotated[Duration, BeforeValidator(_duration)] = Field(
        Length(micros=50_000), alias="watermark.min_delay"
    )
    max_delay: Annotated[Duration, BeforeValidator(_duration)] = Field(
        Length(days=7), alias="watermark.max_delay"
    )
    warm_up: Annotated[tuple[tuple[int, Duration], ...], BeforeValidator(_steps)] = Field(
        (
            (250, Length(days=7)),
            (500, Length(micros=30_000_000)),
            (750, Length(micros=10_000_000)),
            (1000, Length(micros=1_000_000)),
        ),
        alias="watermark.warm_up",
    )
    max_future_skew: Annotated[Duration | None, BeforeValidator(_optional_duration)] = None
    watermark_granularity: Annotated[Literal["row", "batch"], BeforeValidator(_lower)] = "row"

    def given(self) -> dict[str, Any]:
        """Those that were written, by their names in SQL."""
        fields = type(self).model_fields
        return {fields[name].alias or name: getattr(self, name) for name in sorted(self.model_fields_set)}

    def __str__(self) -> str:
        return f"GateOptions({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"

    def source_watermark(self, kind: TimeKind) -> SourceWatermark:
        """SOURCE_WATERMARK() over a column of this kind. Raises ValueError with what is wrong, or what is missing for
        an integer column, whose unit nobody states."""
        return SourceWatermark(
            self.window,
            self.quantile,
            self.interval,
            _ticks(self.min_delay, kind, "watermark.min_delay"),
            _ticks(self.max_delay, kind, "watermark.max_delay"),
            tuple((row, _ticks(margin, kind, "watermark.warm_up")) for row, margin in self.warm_up),
        )

    def skew(self, kind: TimeKind) -> int | None:
        """`max_future_skew` in the kind's unit; None is off. Raises ValueError for an integer column: the clock can't
        be told in a unit that nobody states."""
        if self.max_future_skew is None:
            return None
        if kind is TimeKind.EPOCH:
            raise ValueError(
                "max_future_skew compares with the clock, but the unit of an integer column is not known"
            )
        return _ticks(self.max_future_skew, kind, "max_future_skew")


_FIELDS = {field.alias or name: name for name, field in GateOptions.model_fields.items()}


def split_options(
    options: tuple[OptionSyntax, ...] | None,
) -> tuple[tuple[OptionSyntax, ...], tuple[OptionSyntax, ...]]:
    """The options of the gate, and those of the connector."""
    gate = tuple(o for o in options or () if o.name.text.lower() in _FIELDS)
    return gate, tuple(o for o in options or () if o not in gate)


def read_gate_options(text: Text, options: tuple[OptionSyntax, ...]) -> GateOptions:
    """The gate's options, checked. Raises TG404, TG405."""
    given = once(text, options)
    try:
        return GateOptions.model_validate({_FIELDS[name]: option.value for name, option in given.items()})
    except ValidationError as problem:
        first = problem.errors()[0]
        name = next(s for s, f in _FIELDS.items() if first["loc"][:1] in ((f,), (s,)))
        raise error("TG404", f"{name}: {_reason(first)}", text.at(given[name].value_span)) from None


def refuse_without_watermark(text: Text, options: tuple[OptionSyntax, ...], what: str) -> None:
    """TG402 for the gate's options where nothing is judged."""
    if options:
        first = options[0].name
        hint = "add WATERMARK FOR column AS expression, or leave the option out"
        raise error(
            "TG402",
            f"the option {first.text} applies to a watermark, but {what} declares no watermark",
            text.at(first.span),
            hint,
        )


def refuse_other_options(text: Text, options: tuple[OptionSyntax, ...]) -> None:
    """TG402 for a table's options that are none of the gate's."""
    first = options[0].name
    known = [*_FIELDS, "connector"]
    hint = (
        did_you_mean(first.text.lower(), known)
        or f"available options: {', '.join(_FIELDS)}, and those of a connector"
    )
    raise error(
        "TG402", f'a table without a connector has no option "{first.text}"', text.at(first.span), hint
    )


def future_skew(
    text: Text,
    given: tuple[OptionSyntax, ...],
    options: GateOptions,
    kind: TimeKind,
    column: str,
    live: bool = False,
) -> int | None:
    """`max_future_skew` in the column's unit, None if it is off. `live`: of a broker's rows, where it is a day unless
    something else is written (W9), or nobody states the column's unit. Raises TG404."""
    if live and kind is not TimeKind.EPOCH and "max_future_skew" not in options.model_fields_set:
        options = options.model_copy(update={"max_future_skew": _LIVE_SKEW})
    try:
        return options.skew(kind)
    except ValueError as problem:
        where = next(text.at(o.value_span) for o in given if o.name.text.lower() == "max_future_skew")
        hint = "write the unit: max_future_skew = '1 day'"
        if kind is TimeKind.EPOCH:
            hint = f"declare the watermark on a column such as event_time TIMESTAMPTZ AS timestamp_millis({column})"
        raise error("TG404", str(problem), where, hint) from None


def _reason(problem: Any) -> str:
    if problem["type"] == "literal_error":
        return f"expected {problem['ctx']['expected']}"
    if problem["loc"][:1] in (("quantile",), ("watermark.quantile",)):
        return "expected a number above 0 and at most 1"
    if problem["type"] in ("int_parsing", "greater_than"):
        return "expected a whole number above zero"
    return str(problem["msg"]).removeprefix("Value error, ")


def _ticks(value: Duration, kind: TimeKind, option: str) -> int:
    """In the kind's unit; a part of a day is a day where days are counted."""
    if kind is TimeKind.EPOCH:
        if isinstance(value, Length):
            raise ValueError(
                f"{option} must be an integer: the column has integers, and the unit is that of the column"
            )
        return value
    if not isinstance(value, Length):
        raise ValueError(f"{option} needs a unit: '{value} seconds'")
    micros = value.days * DAY_MICROS + value.micros
    return -(-micros // DAY_MICROS) if kind is TimeKind.DATE else micros
