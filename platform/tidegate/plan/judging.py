"""What `explain` says about how rows are judged: the strategy with its numbers, the clock, the exceptions."""

from __future__ import annotations

from tidegate.sql.catalog.objects import Relation
from tidegate.watermark import PROC_TIME, Expression, GateConfig, SourceWatermark, TimeKind

Facts = list[tuple[str, str]]


def gate_facts(relation: Relation) -> tuple[tuple[str, str], ...]:
    """(label, text) lines of a relation's gate (W1-W6, W9, W11, S1-S4, T1)."""
    mark, config = relation.watermark, relation.gate
    if mark is None or config is None:
        return (("late", "nothing: there is no watermark"), ("rejected", "rows that can't be read (W5)"))
    bar = f"{mark.column} {'<=' if config.expires else '<'} max(Wp, G)"
    if config.by_batch:
        late = f"if {bar}, Wp as it stood before the batch (watermark_granularity = 'batch')"
    else:
        late = f"if {bar}, row by row in the order of each partition ({'T1' if config.expires else 'W1'})"
    facts = [("late", late), *_strategy(config, mark.column, mark.expression), *_skew(config)]
    facts.append(("G", "of the source: the smallest Wp, once every partition has one (W6)"))
    facts.append(("rejected", f"{mark.column} is NULL, or the row can't be read (W5)"))
    if not isinstance(config.strategy, SourceWatermark):
        unused = [name for name in relation.gate_options.given() if name.startswith("watermark.")]
        if unused:
            facts.append(("unused", f"{', '.join(unused)}: numbers of SOURCE_WATERMARK()"))
    return tuple(facts)


def _strategy(config: GateConfig, column: str, written: str) -> Facts:
    strategy, written = config.strategy, " ".join(written.split())
    if isinstance(strategy, SourceWatermark):
        return _source_watermark(strategy, column, config.kind)
    facts = [("Wp", f"of a partition: the largest {written} of its rows that were on time (W2)")]
    if isinstance(strategy, Expression) and strategy.preceding:
        rows = max(window.start for window in strategy.preceding)
        text = f"the last {rows:,} rows of the partition as they arrived, late rows included, are remembered (W11)"
        facts.append(("OVER", text))
    uses_clock = isinstance(strategy, Expression) and (
        PROC_TIME in strategy.sql or any(PROC_TIME in window.argument for window in strategy.preceding)
    )
    if uses_clock:
        facts.append(("PROC_TIME()", "one value for a whole batch, recorded before its first row (W4)"))
    return facts


def _source_watermark(strategy: SourceWatermark, column: str, kind: TimeKind) -> Facts:
    span = kind.format_duration
    facts = [
        ("Wp", f"of a partition: SOURCE_WATERMARK(), its largest {column} - delay (S2)"),
        (
            "delay",
            f"the {strategy.quantile * 100:g} % quantile of how far its last {strategy.window:,} rows were behind, "
            f"late rows included; estimated after every {_ordinal(strategy.interval)} row (S1, S4)",
        ),
        ("  at least", f"{span(strategy.min_delay)}, at most {span(strategy.max_delay)} (S2)"),
    ]
    steps = [f"{span(margin)} up to row {last:,}" for last, margin in strategy.warm_up]
    if steps:
        facts.append(("  warm-up", f"longer by {', '.join(steps)} (S3)"))
    return facts


def _skew(config: GateConfig) -> Facts:
    if config.max_future_skew is None:
        return []
    ahead = config.kind.format_duration(config.max_future_skew)
    text = (
        f"a row more than {ahead} ahead of its batch's clock is kept, and does not raise the watermark (W9)"
    )
    return [("future", text)]


def _ordinal(number: int) -> str:
    """250 is 250th, 1 is 1st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number:,}{ending}"
