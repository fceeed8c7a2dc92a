"""Asset checks: rule A1 on logs and views (they need Spark), and the lag of watermarks (it needs none).

`raw_adds_up`           every source and table: raw = on time + late + rejected, per partition, and in the source itself
`windowed_equals_raw`   every view: what is final equals its query over all rows up to the frontier; for windows over
                        one source every row of it is accounted for, too
`reconciliation`, `late_rate`, `expectations`   with Great Expectations: `dagster/quality.py`
`watermark_lag`         every source and table with a watermark: within the thresholds of jobs/*.yaml
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from dagster import AssetCheckResult, AssetCheckSeverity, AssetCheckSpec, AssetKey

from tidegate.dagster.markdown import as_text
from tidegate.dagster.metadata import partition_table, table
from tidegate.errors import TidegateError
from tidegate.findings.lag import Lag
from tidegate.masking import masked
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.audit.source import SourceAudit
    from tidegate.audit.view import ViewAudit
    from tidegate.session.session import Session

Audit = TypeVar("Audit", "SourceAudit", "ViewAudit")

RAW_ADDS_UP = "raw_adds_up"
WINDOWED_EQUALS_RAW = "windowed_equals_raw"
WATERMARK_LAG = "watermark_lag"

#: Rows of a table in a check's metadata; the sums above it are over everything.
SHOWN = 50


def raw_adds_up_spec(key: AssetKey) -> AssetCheckSpec:
    """For a source or table."""
    return AssetCheckSpec(
        RAW_ADDS_UP,
        asset=key,
        description="Every row is in the log exactly once: raw = on time + late + rejected for each "
        "partition (W5), no offset is missing or duplicated, and the log has as many rows as "
        "the source itself, where they can be counted.",
    )


def windowed_equals_raw_spec(key: AssetKey) -> AssetCheckSpec:
    """For a view."""
    return AssetCheckSpec(
        WINDOWED_EQUALS_RAW,
        asset=key,
        description="Stream equals batch: up to the frontier, the stored rows are those that the view's "
        "query finds in all rows of its inputs. For windows over one source also raw = "
        "counted + filtered + late + rejected in each of them (A1). Open windows, and rows that "
        "an input may still change, are not compared.",
    )


def watermark_lag_spec(key: AssetKey) -> AssetCheckSpec:
    """For a source or table with a watermark."""
    return AssetCheckSpec(
        WATERMARK_LAG,
        asset=key,
        description="The watermark is within the thresholds of jobs/*.yaml; otherwise, which partitions hold it back. "
        "Reads Iceberg metadata only.",
    )


def raw_adds_up(session: Session, name: str, key: AssetKey) -> AssetCheckResult:
    """Audit a log."""
    from tidegate.audit.source import audit_source

    return _audited(RAW_ADDS_UP, key, lambda: audit_source(session, name), _source_verdict, _source_facts)


def windowed_equals_raw(session: Session, name: str, key: AssetKey) -> AssetCheckResult:
    """Audit a view's closed windows."""
    from tidegate.audit.view import audit_view

    return _audited(WINDOWED_EQUALS_RAW, key, lambda: audit_view(session, name), _view_verdict, _view_facts)


def _audited(
    check: str,
    key: AssetKey,
    judge: Callable[[], Audit],
    verdict: Callable[[Audit], str],
    facts: Callable[[Audit], dict[str, Any]],
) -> AssetCheckResult:
    """The result of an audit. One that can't be made is a failed check that says why, never a silent one."""
    try:
        audit = judge()
        return AssetCheckResult(
            passed=audit.ok,
            asset_key=key,
            check_name=check,
            severity=AssetCheckSeverity.ERROR,
            description=as_text(verdict(audit)),
            metadata=facts(audit),
        )
    except Exception as error:
        return could_not(error, key, check)


def lag_metadata(lag: Lag) -> dict[str, Any]:
    """Facts of a lag check, for the check itself and for what the sensor reports."""
    facts: dict[str, Any] = {"watermark": lag.status.watermark_text, "verdict": lag.text}
    if lag.status.behind_newest is not None:
        facts["seconds behind newest event"] = float(lag.status.behind_newest)
    if lag.clock_applies and lag.status.lag is not None:
        facts["seconds behind the clock"] = float(lag.status.lag)
    if lag.status.holds_back:
        facts["held back by"] = ", ".join(lag.status.holds_back[:SHOWN])
    if lag.status.partitions:
        facts["partitions"] = partition_table(lag.status)
    return facts


def could_not(error: Exception, key: AssetKey, check: str) -> AssetCheckResult:
    """A check that could not be made has failed, and says why."""
    known = isinstance(error, TidegateError)
    said = str(error) if known else masked(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    return AssetCheckResult(
        passed=False,
        asset_key=key,
        check_name=check,
        severity=AssetCheckSeverity.ERROR,
        description=as_text(f"could not be checked: {said}"),
        metadata={"error": said},
    )


def _source_verdict(audit: SourceAudit) -> str:
    bad = [p.partition for p in audit.partitions if not p.ok]
    if bad:
        return f"{len(bad)} of {len(audit.partitions)} partitions have wrong counts: {', '.join(bad[:5])}"
    if not audit.ok:
        return f"{audit.raw:,} rows in the log, {audit.source_rows:,} in the source"
    return f"{audit.raw:,} rows in {len(audit.partitions)} partitions: all counts agree"


def _source_facts(audit: SourceAudit) -> dict[str, Any]:
    sums = {o: sum(getattr(p, o) for p in audit.partitions) for o in ("on_time", "late", "rejected")}
    facts: dict[str, Any] = {"raw": audit.raw, **{k.replace("_", " "): v for k, v in sums.items()}}
    facts["recounted in the source"] = (
        audit.source_rows if audit.source_rows is not None else "cannot be counted there"
    )
    columns = {
        "partition": "string",
        "counts agree": "string",
        "raw": "int",
        "on time": "int",
        "late": "int",
        "rejected": "int",
        "committed counters": "int",
        "offsets twice": "int",
        "offsets missing": "string",
    }
    rows = sorted(audit.partitions, key=lambda p: (p.ok, p.partition))[:SHOWN]
    facts["partitions"] = table(
        columns,
        [
            {
                "partition": p.partition,
                "counts agree": "yes" if p.ok else "no",
                "raw": p.raw,
                "on time": p.on_time,
                "late": p.late,
                "rejected": p.rejected,
                "committed counters": p.counted,
                "offsets twice": p.repeated,
                "offsets missing": ", ".join(p.missing),
            }
            for p in rows
        ],
    )
    return facts


def _view_verdict(audit: ViewAudit) -> str:
    if audit.problems or audit.remainder:
        first = audit.problems[0] if audit.problems else None
        where = f", first {first.window_start} to {first.window_end}" if first else ""
        return (
            f"{len(audit.problems)} windows do not equal the log (remainder {audit.remainder:,} rows){where}"
        )
    if audit.value_mismatches:
        batch, example = audit.batch, audit.batch.examples[0]
        if batch.too_early:
            example = next((e for e in batch.examples if e.kind == "too early"), example)
            one = batch.too_early == 1
            rows, them = ("1 row was", "it") if one else (f"{batch.too_early:,} rows were", "them")
            return f"{rows} emitted though an input has not closed {them}; first at {example.window_end}"
        counts = f"{batch.missing:,} missing, {batch.unexpected:,} unexpected, {batch.different:,} different"
        return f"result rows are not what the query gives now: {counts}; first at {example.window_end}"
    if not audit.has_accounts:
        right = audit.batch.compared - audit.batch.not_known
        rows, are = ("row", "is") if right == 1 else ("rows", "are")
        verdict = f"{right:,} result {rows} up to {audit.frontier} {are} what the query gives now"
        unknown = f"; {audit.batch.not_known:,} can't be known yet" if audit.batch.not_known else ""
        return verdict + unknown
    return f"{counted(audit.closed_windows or 0, 'closed window')} up to {audit.frontier}: all counts agree"


def _view_facts(audit: ViewAudit) -> dict[str, Any]:
    batch = audit.batch
    facts: dict[str, Any] = {
        "frontier": audit.frontier,
        "result rows compared": batch.compared,
        "value mismatches": audit.value_mismatches,
    }
    if batch.too_early:
        facts["emitted too early"] = batch.too_early
    if batch.not_known:
        facts["rows not known yet"] = batch.not_known
    if batch.open_inputs:
        facts["not known yet"] = "; ".join(batch.open_inputs)
    if batch.not_compared:
        facts["columns not compared"] = ", ".join(batch.not_compared)
    if batch.notes:
        facts["not compared"] = "; ".join(batch.notes)
    if audit.raw is not None:
        facts |= {
            "closed windows": audit.closed_windows,
            "raw": audit.raw,
            "counted": audit.counted,
            "filtered": audit.filtered,
            "late": audit.late,
            "rejected": audit.rejected,
            "remainder": audit.remainder,
            "still open": audit.still_open,
            "rejected without a time": audit.rejected_without_time,
        }
    if audit.raw:
        lost = (audit.late or 0) + (audit.rejected or 0)
        facts["completeness (%)"] = round(100 * (audit.raw - lost) / audit.raw, 3)
    if audit.problems:
        columns = {"window_start": "string", "window_end": "string"}
        columns |= dict.fromkeys(("raw", "counted", "filtered", "late", "rejected", "remainder"), "int")
        columns["offsets"] = "string"
        rows = [asdict(p) | {"offsets": ", ".join(p.offsets)} for p in audit.problems[:SHOWN]]
        facts["problem windows"] = table(columns, rows)
    if batch.examples:
        columns = {"what": "string", "window_end": "string", "row": "string"}
        rows = [
            {
                "what": e.kind,
                "window_end": e.window_end,
                "row": ", ".join(f"{k} = {v}" for k, v in e.values.items()),
            }
            for e in batch.examples[:SHOWN]
        ]
        facts["rows that differ"] = table(columns, rows)
    return facts
