"""The advice itself: what was measured, the choices and their price, and a clause to paste."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidegate.advise.curve import Choice, Curve, choices, percent, recommended
from tidegate.advise.measure import Measurement, measure, waits
from tidegate.advise.operator import QUANTILES
from tidegate.sql.options.connectors import ReplayOptions
from tidegate.watermark import Delay, TimeKind

if TYPE_CHECKING:
    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import Relation

#: What is asked for where nobody says.
TARGET = 0.99


@dataclass(frozen=True)
class PartitionAdvice:
    """One partition: rows measured, rows that the log has as late, and quantiles (by `QUANTILES`, ticks; None: beyond
    what is counted) of out-of-orderness (S1) and of arrival - event time. `ahead`: rows that arrived before their event
    time. `learned_late`: share of rows that SOURCE_WATERMARK() would have had late, None where it was not tried."""

    partition: str
    rows: int
    late: int
    out_of_orderness: tuple[int | None, ...]
    lag: tuple[int | None, ...]
    ahead: int
    learned_late: float | None


@dataclass(frozen=True)
class Together:
    """Rows late at one delay with a watermark for each partition, and with one for all of them."""

    delay: int
    own: int
    together: int


@dataclass(frozen=True)
class Advice:
    """All times are ticks of the time column (`kind`); `text` of a delay is what one would write.

    `rows`: measured, of `log_rows` judged rows in the log. `exact`: the numbers are those that running a clause over
    the same rows in the same batches gives, not estimates. `declared`: the strategy as written; `declared_delay`: its
    ticks, None if it is no constant or was changed. `recorded_late`: of the measured rows, those the log has as late.
    `curve`: completeness against delay. `unsaved`: rows that are late under any delay. `delays_over_time`: of some
    partitions, (offset, epoch, delay) of SOURCE_WATERMARK(). `notes`: what the numbers do not say.
    """

    source: str
    kind: TimeKind
    column: str
    declared: str
    declared_delay: int | None
    rows: int
    log_rows: int
    fraction: float
    exact: bool
    recorded_late: int
    curve: Curve
    unsaved: int
    target: float
    reached: bool
    recommended: int
    clause: str
    choices: tuple[Choice, ...]
    out_of_orderness: tuple[int | None, ...]
    lag: tuple[int | None, ...] | None
    ahead: int
    together: tuple[Together, ...]
    learned_late: float | None
    delays_over_time: Mapping[str, list[tuple[int, int, int]]]
    partitions: tuple[PartitionAdvice, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def knee(self) -> int:
        """Ticks."""
        return self.curve.knee

    def text(self, ticks: int | None) -> str:
        """A delay as people write it: `90 minutes`."""
        return "beyond" if ticks is None else self.kind.format_duration(ticks)

    def seconds(self, ticks: int) -> float:
        """Ticks in seconds; of an integer column, whose unit nobody states, the integer."""
        if self.kind is TimeKind.EPOCH:
            return float(ticks)
        return ticks * 86_400.0 if self.kind is TimeKind.DATE else ticks / 1_000_000

    @property
    def choice(self) -> Choice:
        """The recommended one."""
        return next(c for c in self.choices if c.delay == self.recommended)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "source": self.source,
            "column": self.column,
            "kind": self.kind.value,
            "declared": self.declared,
            "declared_delay": self.declared_delay,
            "rows": self.rows,
            "log_rows": self.log_rows,
            "fraction": self.fraction,
            "exact": self.exact,
            "recorded_late": self.recorded_late,
            "target": self.target,
            "reached": self.reached,
            "recommended": {
                "clause": self.clause,
                "delay": self.recommended,
                "text": self.text(self.recommended),
                "completeness": self.choice.share,
                "late": self.choice.late,
                "waits": self.choice.waits,
            },
            "knee": {
                "delay": self.knee,
                "text": self.text(self.knee),
                "completeness": self.curve.at(self.knee),
            },
            "unsaved": self.unsaved,
            "choices": [self._choice(c) for c in self.choices],
            "curve": [[d, n] for d, n in zip(self.curve.delays, self.curve.counts, strict=True)],
            "out_of_orderness": self._quantiles(self.out_of_orderness),
            "processing_minus_event_time": None if self.lag is None else self._quantiles(self.lag),
            "ahead_of_the_clock": self.ahead,
            "one_watermark_for_all": [
                {"delay": t.delay, "text": self.text(t.delay), "late": t.own, "late_together": t.together}
                for t in self.together
            ],
            "source_watermark": {
                "late": self.learned_late,
                "delays": {p: [list(t) for t in points] for p, points in self.delays_over_time.items()},
            },
            "partitions": [self._partition(p) for p in self.partitions],
            "notes": list(self.notes),
        }

    def _choice(self, choice: Choice) -> dict[str, Any]:
        return {
            "why": choice.why,
            "delay": choice.delay,
            "text": self.text(choice.delay),
            "on_time": choice.on_time,
            "late": choice.late,
            "completeness": choice.share,
            "waits": choice.waits,
        }

    def _partition(self, partition: PartitionAdvice) -> dict[str, Any]:
        return {
            "partition": partition.partition,
            "rows": partition.rows,
            "late": partition.late,
            "out_of_orderness": self._quantiles(partition.out_of_orderness),
            "processing_minus_event_time": None if self.lag is None else self._quantiles(partition.lag),
            "ahead_of_the_clock": partition.ahead,
            "source_watermark_late": partition.learned_late,
        }

    def _quantiles(self, values: tuple[int | None, ...]) -> dict[str, Any]:
        return {
            f"p{100 * q:g}": None if v is None else {"ticks": v, "text": self.text(v)}
            for q, v in zip(QUANTILES, values, strict=True)
        }


def advise(session: Session, name: str, target: float = TARGET, fraction: float = 1.0) -> Advice:
    """Measure the source or table `name` and recommend the shortest constant delay that has `target` (0 to 1) of its
    rows on time. `fraction`: measure a sample of that size.

    Raises what `measure` raises, TG509 for a view, TG711 for a target that is none.
    """
    from tidegate.errors import TidegateError
    from tidegate.store.status import read_status

    relation = session.relation(name)
    if not 0 < target <= 1:
        raise TidegateError(
            "TG711",
            f"the completeness {percent(target)} is not possible",
            hint="give a share above 0 % and at most 100 %",
        )
    found = measure(session, relation, fraction)
    status = read_status(session.project, [relation.name], ask_brokers=False).relations[0]
    return interpret(relation, found, target, status.on_time + status.late)


def interpret(relation: Relation, found: Measurement, target: float, log_rows: int) -> Advice:
    """The advice that follows from what was measured. `log_rows`: judged rows that the log has ever had."""
    from tidegate.advise.grid import quantile

    mark = relation.watermark
    assert mark is not None
    kind, declared = mark.kind, found.history.declared
    curve = Curve.of(found.needing(found.behind), found.rows)
    best = recommended(curve, target)
    replayed = isinstance(relation.connector, ReplayOptions)
    timed = kind in (TimeKind.TIMESTAMP, TimeKind.TIMESTAMPTZ) and not replayed
    listed = choices(curve, declared, target)
    if timed:
        listed = [replace(c, waits=waits(found.history, c.delay)) for c in listed]
    merged = Curve.of(found.needing(found.together), found.rows)
    shown = sorted({0, best, curve.knee, *([declared] if declared is not None and declared >= 0 else [])})
    partitions = tuple(_partition_advice(name, entry) for name, entry in found.partitions.items())
    learned = sum(e["learned_rows"] for e in found.partitions.values())
    late = sum(e["learned_late"] for e in found.partitions.values())
    has_lag = kind is not TimeKind.EPOCH and not replayed
    return Advice(
        source=relation.name,
        kind=kind,
        column=mark.column,
        declared=mark.expression,
        declared_delay=declared,
        rows=found.rows,
        log_rows=log_rows,
        fraction=found.fraction,
        exact=found.history.exact and found.fraction == 1,
        recorded_late=sum(p.late for p in partitions),
        curve=curve,
        unsaved=found.rows - curve.counts[-1],
        target=target,
        reached=curve.needed(target) is not None,
        recommended=best,
        clause=f"WATERMARK FOR {_name(mark.column)} AS {Delay(best).describe(_name(mark.column), kind)}",
        choices=tuple(listed),
        out_of_orderness=tuple(quantile(found.behind, found.points, q) for q in QUANTILES),
        lag=tuple(quantile(found.lag, found.points, q) for q in QUANTILES) if has_lag else None,
        ahead=found.ahead if has_lag else 0,
        together=tuple(
            Together(d, found.rows - curve.on_time(d), found.rows - merged.on_time(d)) for d in shown
        ),
        learned_late=late / learned if learned else None,
        delays_over_time={
            p: [(o, e, d) for o, e, d in entry["trace"]]
            for p, entry in found.partitions.items()
            if entry["trace"]
        },
        partitions=partitions,
        notes=tuple(_notes(found, relation, curve, target, replayed, log_rows)),
    )


def _partition_advice(name: str, entry: Mapping[str, Any]) -> PartitionAdvice:
    return PartitionAdvice(
        name,
        entry["rows"],
        entry["late"],
        tuple(entry["behind"]),
        tuple(entry["lag"]),
        entry["ahead"],
        entry["learned_late"] / entry["learned_rows"] if entry["learned_rows"] else None,
    )


def _notes(
    found: Measurement, relation: Relation, curve: Curve, target: float, replayed: bool, log_rows: int
) -> list[str]:
    """What the numbers do not say by themselves."""
    notes = []
    if found.fraction < 1:
        notes.append(f"estimated from {found.rows:,} rows in blocks that a hash chose, of {log_rows:,}")
    elif found.rows < log_rows:
        notes.append(f"{log_rows - found.rows:,} rows are beyond their retention, and were not measured")
    if found.history.resets:
        notes.append("RESET WATERMARK set the watermark back: how it moved after that is an estimate")
    elif not found.history.exact:
        notes.append(
            "idle_advance moved the watermark under a strategy that is not a constant delay: the "
            "numbers are an estimate"
        )
    mark = relation.watermark
    assert mark is not None
    if mark.by_batch:
        notes.append("watermark_granularity = 'batch': the numbers hold for the batches of the log")
    if curve.needed(target) is None:
        notes.append(
            f"no delay keeps {percent(target)} of the rows on time: "
            f"{found.rows - curve.counts[-1]:,} rows are late with any delay"
        )
    if replayed:
        notes.append(
            "a replayed row arrives when it is played: figures that compare with the clock are not shown"
        )
    elif mark.kind is TimeKind.EPOCH:
        notes.append(
            "an integer column has an unknown unit: figures that compare with the clock are not shown"
        )
    return notes


def _name(column: str) -> str:
    """As SQL: quoted where it has to be."""
    return (
        column
        if column.isidentifier() and column == column.lower()
        else '"' + column.replace('"', '""') + '"'
    )
