"""Closed days (or hours) of views as partitioned assets: what Dagster's backfills work on.

A view whose front matter says `partitions: day` has a second asset, `<view>/closed_days`. Its partition 2013-01-05
holds the windows that end after that day began, and at its end or before; it comes into being, materialized, when the
frontier passes its end, whoever closed the windows: a run, a schedule, or a live stream. A backfill of partitions
recomputes their windows (B1), in one run and one commit for each stretch of them.

The view itself has no partitions: a tick does not know beforehand which days it will close, and Dagster's runs of
partitioned assets have to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    DefaultSensorStatus,
    DynamicPartitionsDefinition,
    MaterializeResult,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    multi_asset,
    sensor,
)

from tidegate.dagster.assets import failures
from tidegate.dagster.markdown import as_text
from tidegate.dagster.naming import identifier, pool_of
from tidegate.dagster.resource import TidegateResource
from tidegate.dagster.translator import TidegateAsset, TidegateTranslator
from tidegate.plan.resets import position
from tidegate.sql.catalog.objects import View
from tidegate.store import load_table
from tidegate.store.windows import earliest_end
from tidegate.watermark import TimeKind
from tidegate.watermark.timekind import DAY_MICROS

SENSOR_SECONDS = 60
#: New partitions that one tick of the sensor records, of each asset.
_AT_ONCE = 400
#: A run with this tag takes late rows in, instead of recomputing what is stored.
FROM_LATE = "tidegate/from_late"
#: What the materialization of a partition says of its own windows.
_SUMS = ("windows with a new revision", "late rows included", "changed rows")
_FORMATS = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H:%M"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Closed:
    """The closed days or hours of one view. `key`: of the asset that they are; `unit`: "day" or "hour"."""

    view: View
    asset: TidegateAsset
    key: AssetKey
    unit: str
    partitions: DynamicPartitionsDefinition

    @property
    def size(self) -> int:
        """Length of a partition in ticks of the view's time."""
        if self.view.kind is TimeKind.DATE:
            return 1
        return DAY_MICROS if self.unit == "day" else DAY_MICROS // 24

    def name_of(self, start: int) -> str:
        """The key of the partition that begins there, ticks."""
        micros = start * DAY_MICROS if self.view.kind is TimeKind.DATE else start
        return (_EPOCH + timedelta(microseconds=micros)).strftime(_FORMATS[self.unit])

    def start_of(self, name: str) -> int:
        """The inverse."""
        at = datetime.strptime(name, _FORMATS[self.unit]).replace(tzinfo=UTC)
        found = self.view.kind.clock(at)
        assert found is not None
        return found

    def between(self, after: int, frontier: int) -> list[int]:
        """Where the partitions begin that hold windows which end after `after`, and are closed at `frontier`."""
        first = after // self.size * self.size
        return list(range(first, (frontier - self.size) // self.size * self.size + 1, self.size))

    def stretches(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """(after, up to) of windows' ends, one for partitions that follow each other."""
        found: list[tuple[int, int]] = []
        for start in sorted(map(self.start_of, names)):
            if found and found[-1][1] == start:
                found[-1] = (found[-1][0], start + self.size)
            else:
                found.append((start, start + self.size))
        return found


def closed_of(assets: Sequence[TidegateAsset], translator: TidegateTranslator, prefix: str) -> list[Closed]:
    """Of the views whose front matter asks for partitions, and whose time has days (or hours)."""
    found = []
    for asset in assets:
        view, unit = asset.item, asset.annotations.partitions
        if not isinstance(view, View) or unit in (None, "none") or view.clock is None:
            continue
        if view.kind is TimeKind.EPOCH or (view.kind is TimeKind.DATE and unit == "hour"):
            continue
        key = translator.get_asset_spec(asset).key
        name = identifier(f"{prefix}_{view.name}_{unit}s")
        partitions = DynamicPartitionsDefinition(name=name)
        found.append(Closed(view, asset, AssetKey([*key.path, f"closed_{unit}s"]), unit, partitions))
    return found


def build_closed(
    closed: Sequence[Closed], translator: TidegateTranslator, prefix: str, resource_key: str
) -> list[AssetsDefinition]:
    """An asset for each."""
    return [_asset(one, translator, prefix, resource_key) for one in closed]


def _asset(
    closed: Closed, translator: TidegateTranslator, prefix: str, resource_key: str
) -> AssetsDefinition:
    of = translator.get_asset_spec(closed.asset)
    spec = AssetSpec(
        closed.key,
        deps=[of.key],
        partitions_def=closed.partitions,
        group_name=of.group_name,
        owners=of.owners,
        description=as_text(
            f"Closed {closed.unit}s of {closed.view.name}: materialized when its frontier passes "
            "their end. A backfill recomputes their windows from the log, and changes those that "
            f"are not right; with the tag {FROM_LATE}: true, it includes late rows."
        ),
    )

    @multi_asset(
        name=identifier(f"{prefix}_{closed.view.name}_closed_{closed.unit}s"),
        specs=[spec],
        backfill_policy=BackfillPolicy.single_run(),
        pool=pool_of(prefix, closed.asset.root.name),
        required_resource_keys={resource_key},
    )
    def recompute(context) -> Iterator[MaterializeResult[None]]:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        from tidegate.amend.run import amend

        resource: TidegateResource = getattr(context.resources, resource_key)
        view, from_late = closed.view, context.run.tags.get(FROM_LATE) == "true"
        sums: dict[str, list[int]] = {}
        amended: list[str] = []
        with failures():
            for after, upto in closed.stretches(list(context.partition_keys)):
                low, high = view.kind.format(after), view.kind.format(upto)
                context.log.info(f"{view.name}: windows that end after {low}, up to {high}")
                for report in amend(
                    resource.session,
                    [view.name],
                    from_late=from_late,
                    notify=context.log.info,
                    every=closed.size,
                    after=low,
                    upto=high,
                ):
                    context.log.info(
                        f"{report.view}: {report.windows:,} windows, {report.groups:,} rows changed"
                    )
                    for s in report.stretches if report.view == view.name else ():
                        before = sums.get(closed.name_of(s.start), [0, 0, 0])
                        new = (s.windows, s.late or 0, s.groups)
                        sums[closed.name_of(s.start)] = [a + b for a, b in zip(before, new, strict=True)]
                    if report.windows:
                        amended.append(report.view)
        for name in context.partition_keys:
            own = zip(_SUMS, sums.get(name, [0, 0, 0]), strict=True)
            context.add_asset_metadata(dict(own), asset_key=closed.key, partition_key=name)
        everything = ", ".join(dict.fromkeys(amended)) or "nothing changed: everything was right"
        yield MaterializeResult(asset_key=closed.key, metadata={"amended": everything})

    return recompute


def closed_sensor(closed: Sequence[Closed], prefix: str) -> SensorDefinition:
    """Records the days and hours that have closed since it looked last, from Iceberg metadata."""

    @sensor(
        name=identifier(f"{prefix}_closed"),
        description=(
            "Records which days and hours of views have closed: the partitions that can be backfilled."
        ),
        minimum_interval_seconds=SENSOR_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
    )
    def closed_partitions(context: SensorEvaluationContext) -> SensorResult:
        before: dict[str, list[Any]] = json.loads(context.cursor) if context.cursor else {}
        found = {one.view.name: newly_closed(one, before.get(one.view.name)) for one in closed}
        after = dict(before)
        events, requests, told = [], [], []
        for one in closed:
            starts, mark, frontier = found[one.view.name]
            if mark is not None:
                after[one.view.name] = mark
            if starts:
                names = [one.name_of(start) for start in starts]
                requests.append(one.partitions.build_add_request(names))
                facts: Mapping[str, str] = {"frontier": frontier}
                events += [AssetMaterialization(one.key, partition=n, metadata=facts) for n in names]
                told.append(f"{one.view.name}: {names[0]} to {names[-1]}")
        return SensorResult(
            asset_events=events,
            dynamic_partitions_requests=requests,
            cursor=json.dumps(after),
            skip_reason=" | ".join(told) or "nothing has closed since the last tick",
        )

    return closed_partitions


def newly_closed(one: Closed, before: list[Any] | None) -> tuple[list[int], list[Any] | None, str]:
    """Where the partitions begin that have closed since `before` ([table, up to where, ticks, and by which step back],
    None at first), at most `_AT_ONCE`; the next `before`; and the frontier as text. What closes again behind a
    watermark that was reset is recorded again (W9)."""
    storage = one.asset.project.storage
    table = load_table(storage, one.view.name)
    frontier = None if table is None else table.integer("tidegate.frontier")
    if table is None or frontier is None:
        return [], None, "none yet"
    text = one.view.kind.format(frontier)
    if before is not None and before[0] == table.uuid:
        # Of an earlier version: without the step.
        after, step = position(table.summary, before[1], before[2] if len(before) > 2 else 0)
    else:
        # Its first window may end just where a partition does: it belongs to that one.
        first = earliest_end(storage, table)
        if first is None:
            return [], None, text
        after, step = first - 1, position(table.summary, first - 1, 0)[1]
    starts = one.between(after, frontier)[:_AT_ONCE]
    reached = starts[-1] + one.size if starts else after
    return starts, [table.uuid, reached, step], text
