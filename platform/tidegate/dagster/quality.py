"""Data quality as asset checks: the suites of `tidegate.quality`, one check for each suite of an asset.

`reconciliation`   every view: A1 in each final window, no gap, no window twice
`late_rate`        views of windows over one source: the share of late rows of each day, and whether it grows
`expectations`     whatever has a file in quality/: the team's own, on what came since the last check

They run behind the asset where somebody materializes it in the UI, in the same process (under the in-process executor),
by hand, or all of them in the job `<prefix>_quality`, which `quality:` in jobs/*.yaml schedules; not in the ticks of
other schedules. What the log of a source must hold is checked by `raw_adds_up`, and is not asked a
second time.

The closed days (or hours) of a view, which are a partitioned asset of their own, have the reconciliation too: in a
backfill of a range of them their windows are read once, and each partition has its verdict.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    AssetSelection,
    DefaultScheduleStatus,
    MetadataValue,
    PreviewWarning,
    ScheduleDefinition,
    define_asset_job,
    in_process_executor,
    multi_asset_check,
)

from tidegate.dagster.checks import SHOWN, could_not
from tidegate.dagster.markdown import as_text, picture
from tidegate.dagster.metadata import soft, table
from tidegate.dagster.naming import identifier, pool_of
from tidegate.dagster.translator import TidegateAsset
from tidegate.project.expectations import Quality
from tidegate.quality.model import (
    EXPECTATIONS,
    LATE_RATE,
    LOG,
    RECONCILIATION,
    ExpectationOutcome,
    SuiteResult,
    WindowSpan,
    suites_of,
)
from tidegate.sql.catalog.objects import Relation, Sink, View

if TYPE_CHECKING:
    from dagster import AssetChecksDefinition
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from tidegate.dagster.partitions import Closed
    from tidegate.dagster.resource import TidegateResource
    from tidegate.project.jobs.jobs import Times
    from tidegate.session.session import Session

#: Failing expectations whose windows or rows are shown; all are in the Data Docs.
_SHOWN_OUTCOMES = 5

_DESCRIPTIONS = {
    RECONCILIATION: "Great Expectations over one line for each final window: raw = counted + filtered + "
    "late + rejected (A1), every window for which the log has rows is there, none twice; "
    "the limits are in quality/*.yaml.",
    LATE_RATE: "The share of late rows of each day is below its threshold, and does not grow; the "
    "limits are in quality/*.yaml.",
    EXPECTATIONS: (
        "The team's own expectations in quality/*.yaml, on the rows that arrived since the last check."
    ),
}


def quality_checks(
    assets: Sequence[TidegateAsset],
    keys: Mapping[str, AssetKey],
    quality: Quality,
    prefix: str,
    resource_key: str,
) -> list[AssetChecksDefinition]:
    """The checks of each family of assets, which share a pool with it."""
    families: dict[str, list[TidegateAsset]] = {}
    for asset in assets:
        if not isinstance(asset.item, Sink) and _suites(asset.item, quality):
            families.setdefault(asset.root.name, []).append(asset)
    return [_family(root, members, keys, quality, prefix, resource_key) for root, members in families.items()]


def quality_job(checks: Sequence[AssetChecksDefinition], prefix: str) -> UnresolvedAssetJobDefinition:
    """`<prefix>_quality`: all of these checks, without bringing anything up to date."""
    return define_asset_job(
        identifier(f"{prefix}_quality"),
        selection=AssetSelection.checks(*(key for one in checks for key in one.check_keys)),
        executor_def=in_process_executor,
        description="Checks the quality of everything with Great Expectations; reads only stored rows.",
    )


def quality_schedule(times: Times, checked: UnresolvedAssetJobDefinition, prefix: str) -> ScheduleDefinition:
    """That of `quality:` in jobs/*.yaml."""
    return ScheduleDefinition(
        name=identifier(f"{prefix}_quality_schedule"),
        job=checked,
        cron_schedule=times.cron,
        execution_timezone=times.timezone,
        default_status=DefaultScheduleStatus.RUNNING if times.enabled else DefaultScheduleStatus.STOPPED,
    )


def _suites(item: Relation | View, quality: Quality) -> list[str]:
    return [suite for suite in suites_of(item, quality) if suite != LOG]


def _family(
    root: str,
    members: Sequence[TidegateAsset],
    keys: Mapping[str, AssetKey],
    quality: Quality,
    prefix: str,
    resource_key: str,
) -> AssetChecksDefinition:
    specs = [
        AssetCheckSpec(suite, asset=keys[asset.name], description=_DESCRIPTIONS[suite])
        for asset in members
        for suite in _suites(_item(asset), quality)
    ]

    @multi_asset_check(
        name=identifier(f"{prefix}_{root}_quality"),
        specs=specs,
        can_subset=True,
        pool=pool_of(prefix, root),
        required_resource_keys={resource_key},
    )
    def check_quality(context) -> Iterator[AssetCheckResult]:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        resource: TidegateResource = getattr(context.resources, resource_key)
        selected: dict[AssetKey, set[str]] = {}
        for check in context.selected_asset_check_keys:
            selected.setdefault(check.asset_key, set()).add(check.name)
        for asset in members:
            key = keys[asset.name]
            if key not in selected:
                continue
            context.log.info(f"{asset.name}: checking {', '.join(sorted(selected[key]))}")
            for result in check_asset(resource.session, asset.name, key, selected[key]):
                context.log.info(f"{asset.name}: {result.check_name}: {result.description}")
                yield result

    return check_quality


def check_asset(session: Session, name: str, key: AssetKey, suites: set[str]) -> Iterator[AssetCheckResult]:
    """The suites of one asset. What can't be checked has failed, and says why."""
    from tidegate.quality.run import Request, check_quality, docs_folder

    request = Request(suites, sources=False, docs=docs_folder(session.project.root))
    try:
        for result in check_quality(session, [name], request):
            yield _result(result, key)
    except Exception as error:
        for suite in sorted(suites):
            yield could_not(error, key, suite)


def closed_checks(closed: Sequence[Closed], prefix: str, resource_key: str) -> list[AssetChecksDefinition]:
    """The reconciliation of each partition of the closed days (or hours) of views."""
    return [_closed(one, prefix, resource_key) for one in closed]


def _closed(one: Closed, prefix: str, resource_key: str) -> AssetChecksDefinition:
    with warnings.catch_warnings():
        # Checks with partitions are a preview, and one warning for each asset at each start helps nobody.
        warnings.simplefilter("ignore", PreviewWarning)
        spec = AssetCheckSpec(
            RECONCILIATION,
            asset=one.key,
            description=_DESCRIPTIONS[RECONCILIATION],
            partitions_def=one.partitions,
        )

    @multi_asset_check(
        name=identifier(f"{prefix}_{one.view.name}_closed_{one.unit}s_quality"),
        specs=[spec],
        pool=pool_of(prefix, one.asset.root.name),
        required_resource_keys={resource_key},
        can_subset=True,
    )
    def check_closed(context) -> Iterator[AssetCheckEvaluation]:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        resource: TidegateResource = getattr(context.resources, resource_key)
        known = context.instance.get_dynamic_partitions(one.partitions.name)
        yield from check_partitions(resource.session, one, partition_names(context.run.tags, one, known))

    return check_closed


def partition_names(tags: Mapping[str, str], one: Closed, known: Sequence[str]) -> list[str]:
    """The partitions that a run is for: one, or those of a range."""
    single = tags.get("dagster/partition")
    first = tags.get("dagster/asset_partition_range_start", single)
    last = tags.get("dagster/asset_partition_range_end", single)
    if first is None or last is None:
        return []
    low, high = one.start_of(first), one.start_of(last)
    return sorted({first, last, *(n for n in known if low <= one.start_of(n) <= high)}, key=one.start_of)


def check_partitions(session: Session, one: Closed, names: Sequence[str]) -> Iterator[AssetCheckEvaluation]:
    """A verdict for each partition. Their windows are read once: from the first partition to the last."""
    from tidegate.quality.run import Request, check_quality

    if not names:
        return
    # A partition holds the windows that end after it began, and at its end or before.
    low, high = one.start_of(names[0]) + 1, one.start_of(names[-1]) + one.size + 1
    request = Request([RECONCILIATION], {one.view.name: WindowSpan(low, high)}, sources=False)
    try:
        [result] = check_quality(session, [one.view.name], request)
    except Exception as error:
        failed = could_not(error, one.key, RECONCILIATION)
        for name in names:
            yield _evaluation(one, name, failed)
        return
    whole = _result(result, one.key)
    for name in names:
        start = one.start_of(name)
        wrong = [end for end in result.wrong if start < end <= start + one.size]
        if wrong:
            some = ", ".join(one.view.kind.format(end) for end in wrong[:5])
            count = f"{len(wrong):,} {'window does' if len(wrong) == 1 else 'windows do'}"
            said = f"{count} not equal the log, ending at {some}{', …' if len(wrong) > 5 else ''}"
            yield _evaluation(one, name, whole._replace(passed=False, description=as_text(said)))
        else:
            said = "every window that ended here equals the log"
            yield _evaluation(one, name, AssetCheckResult(passed=True, description=as_text(said)))


def _evaluation(one: Closed, name: str, result: AssetCheckResult) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        asset_key=one.key,
        check_name=RECONCILIATION,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=result.metadata,
        partition=name,
    )


def _item(asset: TidegateAsset) -> Relation | View:
    assert isinstance(asset.item, Relation | View)
    return asset.item


def _result(result: SuiteResult, key: AssetKey) -> AssetCheckResult:
    return AssetCheckResult(
        passed=result.passed,
        asset_key=key,
        check_name=result.suite,
        severity=AssetCheckSeverity.ERROR if result.critical else AssetCheckSeverity.WARN,
        description=as_text(result.verdict),
        metadata=_facts(result),
    )


def _facts(result: SuiteResult) -> dict[str, Any]:
    facts: dict[str, Any] = {"looked at": result.scope}
    if result.outcomes:
        columns = dict.fromkeys(("holds", "severity", "expectation", "found"), "string")
        facts["expectations"] = table(
            columns,
            [
                {
                    "holds": "yes" if o.passed else "no",
                    "severity": o.severity,
                    "expectation": o.text,
                    "found": o.found,
                }
                for o in sorted(result.outcomes, key=lambda o: o.passed)[:SHOWN]
            ],
        )
    for outcome in [o for o in result.failed if o.failing][:_SHOWN_OUTCOMES]:
        facts[f"failing: {outcome.text}"] = _failing(outcome)
    if result.windows:
        facts |= soft(logging.getLogger("tidegate"), "plot", lambda: _plot(result))
    if result.notes:
        facts["notes"] = "; ".join(result.notes)
    if result.docs is not None:
        facts["Data Docs"] = MetadataValue.path(result.docs)
    return facts


def _plot(result: SuiteResult) -> dict[str, Any]:
    """Rows of each window and what became of them."""
    from tidegate.plots import reconciliation

    ends, raw, counted, late, filtered, rejected = zip(*result.windows, strict=True)
    drawn = reconciliation(result.asset, ends, raw, counted, late, filtered, rejected, width=5.6, height=3.6)
    return {"raw and windowed": picture(f"raw and windowed rows of {result.asset}", drawn)}


def _failing(outcome: ExpectationOutcome) -> MetadataValue:
    rows = [dict(zip(outcome.columns, line, strict=True)) for line in outcome.failing[:SHOWN]]
    return table(dict.fromkeys(outcome.columns, "string"), rows)
