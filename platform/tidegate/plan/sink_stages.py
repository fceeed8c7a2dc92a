"""The last stage of a sink's plan: what it delivers, where to, and what a crash can do to it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.plan.differences import Difference
from tidegate.plan.marks import ColumnWatermark
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.sql.options.option_types import SinkOptions
from tidegate.sql.options.sink_connectors import FilesystemSinkOptions, IcebergSinkOptions

#: The header of a Kafka sink's messages that says which row of which delivery each is.
KAFKA_ID_HEADER = "tidegate-id"
#: And the one that says of which revision of its window it is, if the sink upserts amendments (B2).
KAFKA_REVISION_HEADER = "tidegate-revision"


@dataclass(frozen=True)
class SinkStage:
    """Delivers what is final, in the order in which it became so (R2)."""

    name: str
    delivers: tuple[tuple[str, str], ...]
    to: tuple[tuple[str, str], ...]
    position: str
    watermarks: tuple[ColumnWatermark, ...]
    differences: tuple[Difference, ...] = ()
    node: str = "deliver"

    def facts(self) -> list[tuple[str, str]]:
        """(label, text) lines."""
        return [*self.delivers, *self.to, ("position", self.position)]


def sink_stage(sink: Sink, upstream: Relation | View, watermarks: tuple[ColumnWatermark, ...]) -> SinkStage:
    """`watermarks`: of the columns that it delivers."""
    return SinkStage(sink.name, _delivers(sink, upstream), _to(sink), _position(sink.connector), watermarks)


def _delivers(sink: Sink, upstream: Relation | View) -> tuple[tuple[str, str], ...]:
    if isinstance(upstream, Relation):
        rows = f"on-time rows of {upstream.name}, in the order of its log, each once; append-only"
        lines = [("delivers", rows)]
    else:
        of = "its query" if sink.view is not None else upstream.name
        rows = f"final rows of {of}, in the order of closing, each once"
        if sink.connector.upserts:
            lines = [("delivers", f"{rows} (C2)"), ("amended", _again(sink.connector))]
        else:
            lines = [("delivers", f"{rows}; append-only (C2)")]
        if (way := _of_new_version(sink.connector)) is not None:
            lines.append(("new version", way))
        if not upstream.emit_on_window_close:
            lines.append(("not", f"rows of open windows, which {of} also has: they can change"))
    start = (
        "the beginning" if sink.connector.snapshot else "the position of its upstream when the sink starts"
    )
    return (*lines, ("from", start))


def _again(options: SinkOptions) -> str:
    """What becomes of windows that are amended after they were delivered (B2)."""
    if isinstance(options, KafkaSinkOptions):
        return "rows of amended windows are sent again with the same key; a removed row is sent with a null value (B2)"
    return "rows of amended windows are replaced, in the commit that records the amendment (B2)"


def _of_new_version(options: SinkOptions) -> str | None:
    """What it delivers of a new version of the view; None if it asks."""
    if options.upserts:
        return "what differs from the version before, and what is gone (E6)"
    if options.on_change == "from_frontier":
        return "the rest of the version before, then what ends after its frontier (E6)"
    if options.on_change is None:
        return None
    if isinstance(options, IcebergSinkOptions):
        return "its rows take the place of those of the version before, in one commit (E6)"
    return "the rest of the version before, then all rows of the new one (E6)"


def _to(sink: Sink) -> tuple[tuple[str, str], ...]:
    form = ""
    if sink.format is not None:
        options = ", ".join(f"{k} = '{v}'" for k, v in sink.format.options.items())
        form = f", FORMAT PLAIN ENCODE {sink.format.encode.upper()}" + (f" ({options})" if options else "")
    lines = [("to", f"connector {sink.connector.connector}{form}")]
    for name, option in type(sink.connector).model_fields.items():
        value = getattr(sink.connector, name)
        if name in ("connector", "snapshot", "amendments", "on_change", "properties") or value in (None, ()):
            continue
        text = ", ".join(value) if isinstance(value, tuple) else str(value)
        lines.append((option.alias or name, text))
    if isinstance(sink.connector, KafkaSinkOptions):
        lines += _kafka(sink.connector)
    return tuple(lines)


def _kafka(options: KafkaSinkOptions) -> list[tuple[str, str]]:
    """As they are written: what the environment has for `${NAME}` is shown nowhere."""
    properties = [("properties", f"{name} = {value}") for name, value in options.properties.items()]
    order = (
        "messages of a key in the order of closing"
        if options.key
        else "messages have no key, and no fixed order"
    )
    return [
        *properties,
        ("order", order),
        ("header", f"{KAFKA_ID_HEADER}: the same each time that a row is sent"),
        *([("header", f"{KAFKA_REVISION_HEADER}: of its window")] if options.upserts else []),
    ]


def _position(options: SinkOptions) -> str:
    if isinstance(options, FilesystemSinkOptions):
        return "beside the files; an interrupted delivery is finished by the next run, without repeats (R2)"
    if isinstance(options, IcebergSinkOptions):
        return "in the summary of the snapshot that has the rows: one commit (R2)"
    if isinstance(options, KafkaSinkOptions):
        return (
            "in the warehouse, before and after each delivery; after an interrupted one, the next run reads the ids "
            "that arrived, and sends the rest (R2)"
        )
    return "moves after the rows are shown: a run killed in between shows them again"
