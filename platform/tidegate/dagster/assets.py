"""One multi-asset for each family: sources, tables, views and sinks between which rows flow run in one process, on
one JVM.

A view that joins two sources makes one family of them and of all their views. To give it to one of the two would let
steps wait for each other in a circle as soon as a second view joins them the other way round, and pay for a second
JVM; and a pool of one slot for the family keeps everything from being written twice at a time.

Any part of it can be launched alone. What is not selected is left as it is: a view without its source takes in what
the log holds already, a sink delivers what is stored, a check without its asset audits that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from dagster import (
    AssetCheckResult,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    DataVersion,
    Failure,
    MaterializeResult,
    multi_asset,
)

from tidegate.dagster import checks
from tidegate.dagster.live.jobs import refuse_while_live
from tidegate.dagster.metadata import (
    completeness_plot,
    relation_metadata,
    sink_metadata,
    soft,
    timeline_plots,
    view_metadata,
)
from tidegate.dagster.naming import identifier, pool_of
from tidegate.dagster.progress import ProgressLog
from tidegate.dagster.resource import TidegateResource
from tidegate.dagster.translator import TidegateAsset, TidegateTranslator
from tidegate.errors import TidegateError, text_of
from tidegate.masking import masked_traceback, tells_secret
from tidegate.plan.events import Event
from tidegate.runtime.result import RunReport
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.store import load_table
from tidegate.store.positions import read_position

if TYPE_CHECKING:
    from tidegate.runtime.steps import Steps

#: Somebody else writes this log (TG508), or did when we wanted to commit (TG502): another try is safe, and may help.
_TRANSIENT = frozenset({"TG502", "TG508"})


def build_assets(
    assets: list[TidegateAsset],
    translator: TidegateTranslator,
    prefix: str,
    resource_key: str,
    live: Mapping[str, str] = MappingProxyType({}),
) -> list[AssetsDefinition]:
    """The multi-assets of a project. `assets` in the order in which they are computed; `live`: jobs that keep a family
    up to date all the time, by the name of its first member.
    """
    families: dict[str, list[TidegateAsset]] = {}
    for asset in assets:
        families.setdefault(asset.root.name, []).append(asset)
    return [
        _family(members, translator, prefix, resource_key, live.get(root))
        for root, members in families.items()
    ]


def check_spec(asset: TidegateAsset, key: AssetKey) -> AssetCheckSpec:
    """The A1 check of an asset: of a log, or of windows."""
    if isinstance(asset.item, View):
        return checks.windowed_equals_raw_spec(key)
    return checks.raw_adds_up_spec(key)


def _family(
    members: list[TidegateAsset],
    translator: TidegateTranslator,
    prefix: str,
    resource_key: str,
    live_job: str | None,
) -> AssetsDefinition:
    specs = [translator.get_asset_spec(asset) for asset in members]
    named = {spec.key: asset for spec, asset in zip(specs, members, strict=True)}
    root = members[0].root.name

    @multi_asset(
        name=identifier(f"{prefix}_{root}"),
        specs=specs,
        check_specs=[
            check_spec(asset, key) for key, asset in named.items() if not isinstance(asset.item, Sink)
        ],
        can_subset=True,
        pool=pool_of(prefix, root),
        required_resource_keys={resource_key},
        op_tags={"tidegate/source": root},
    )
    def bring_up_to_date(context) -> Iterator[MaterializeResult[None] | AssetCheckResult]:  # type: ignore[no-untyped-def]  # Dagster reads no hint that is text
        resource: TidegateResource = getattr(context.resources, resource_key)
        # In the order of computation, whatever the order of selection: sources before views.
        selected = {key: asset for key, asset in named.items() if key in context.selected_asset_keys}
        checked = {check.asset_key for check in context.selected_asset_check_keys}
        audited = {key: asset for key, asset in named.items() if key in checked}
        with ProgressLog(context.log).reminding() as progress, isolated(progress) as steps:
            if live_job is not None and selected:
                refuse_while_live(context.instance, live_job, root)
            yield from _run(context, resource, selected, audited, progress, steps)

    return bring_up_to_date


def _run(
    context: AssetExecutionContext,
    resource: TidegateResource,
    selected: dict[AssetKey, TidegateAsset],
    audited: dict[AssetKey, TidegateAsset],
    progress: ProgressLog,
    steps: Steps,
) -> Iterator[MaterializeResult[None] | AssetCheckResult]:
    """Each asset's result as soon as it is committed, then its check: what ran before a failure stays recorded."""
    from tidegate.session.run import resolve, run_sink
    from tidegate.sinks.deliver import begin

    progress.doing("starting Spark")
    session = resource.session
    for asset in selected.values():
        # Every query is checked before the first row of the source is read. A sink's own one is a view of the sink's.
        view = asset.item.view if isinstance(asset.item, Sink) else asset.item
        if isinstance(view, View):
            steps.do(asset.item, partial(resolve, session, view), needed=True)
    for asset in selected.values():
        if isinstance(asset.item, Sink):
            # Before there is anything new: a sink with `snapshot = 'false'` wants what comes with this run.
            steps.do(asset.item, partial(begin, session, asset.item))

    def bring_up_to_date(item: Relation | View | Sink, reports: list[RunReport]) -> None:
        most = resource.max_rows_per_batch
        if isinstance(item, Sink):
            most = most or session.settings.max_rows_per_batch
            reports.append(RunReport(sinks=[run_sink(session, item, most, progress)]))
        else:
            reports.append(session.run([item.name], most, on_event=progress, upstream=False))

    for key in [*selected, *(k for k in audited if k not in selected)]:
        if key in selected:
            name, item, reports = selected[key].name, selected[key].item, list[RunReport]()
            if not steps.do(item, partial(bring_up_to_date, item, reports)):
                continue
            progress.doing(f"{name}: describing what was done")
            yield _materialized(context, resource, key, selected[key], reports[0])
        if key in audited:
            name = audited[key].name
            progress.doing(f"{name}: auditing")
            audit = checks.windowed_equals_raw if isinstance(audited[key].item, View) else checks.raw_adds_up
            result = audit(session, name, key)
            context.log.info(f"{name}: {result.check_name}: {result.description}")
            yield result


def _not_everything(steps: Steps) -> Failure:
    """What could not be done. Another try may help if it may help all of it."""
    lines = [text_of(one.error) for one in steps.failures]
    lines += [f"{one.name} ({one.kind}) was skipped: {one.why}" for one in steps.skipped]
    first = steps.failures[0].error
    return Failure(
        description="\n".join(lines),
        metadata={key: str(value) for key, value in first.items() if value is not None and key != "traceback"}
        | {"failed": ", ".join(one.name for one in steps.failures)}
        | ({"skipped": ", ".join(one.name for one in steps.skipped)} if steps.skipped else {}),
        allow_retries=all(one.error["code"] in _TRANSIENT for one in steps.failures),
    )


def _materialized(
    context: AssetExecutionContext,
    resource: TidegateResource,
    key: AssetKey,
    asset: TidegateAsset,
    report: RunReport,
) -> MaterializeResult[None]:
    session, item = resource.session, asset.item
    if isinstance(item, Sink):
        facts = soft(context.log, "facts", lambda: sink_metadata(session, item, report.sinks[0]))
        return MaterializeResult(asset_key=key, metadata=facts, data_version=_delivered(context, asset))
    if item.name in session.foreign:
        # A branch has the results of a view that it did not change from there.
        return MaterializeResult(asset_key=key, metadata={"environment": session.project.env.reads})
    if isinstance(item, View):
        metadata = soft(context.log, "facts", lambda: view_metadata(session, item, report.views[0]))
    else:
        metadata = soft(context.log, "facts", lambda: relation_metadata(session, item, report.sources[0]))
        plot = soft(context.log, "plot", lambda: completeness_plot(session, item, resource.plot_up_to_rows))
        metadata |= plot | soft(context.log, "timeline", lambda: timeline_plots(session, item))
    snapshot = soft(context.log, "snapshot", lambda: {"snapshot": _snapshot(asset)}).get("snapshot")
    return MaterializeResult(
        asset_key=key,
        metadata=metadata | ({"snapshot": snapshot} if snapshot else {}),
        # The Iceberg snapshot: a run that found nothing new leaves downstream assets up to date.
        data_version=DataVersion(snapshot) if snapshot else None,
    )


def _delivered(context: AssetExecutionContext, asset: TidegateAsset) -> DataVersion | None:
    """The position: a run that had nothing to deliver leaves it where it is."""
    assert isinstance(asset.item, Sink)
    try:
        found = read_position(asset.project.storage, asset.item)
    except TidegateError as error:
        context.log.warning(f"no data version: {error}")
        return None
    return None if found is None else DataVersion(f"{found[0].table}-{found[0].tick}")


def _snapshot(asset: TidegateAsset) -> str | None:
    state = load_table(asset.project.storage, asset.name)
    # As text: the UI's numbers are JavaScript's, and lose the last digits.
    return str(state.snapshot_id) if state and state.snapshot_id is not None else None


@contextmanager
def isolated(notify: Callable[[Event], None] = lambda event: None) -> Iterator[Steps]:
    """Steps of which one that fails leaves the others alone; at the end they are a Dagster failure."""
    from tidegate.runtime.steps import Steps

    with failures():
        steps = Steps(notify=notify)
        yield steps
        if steps.failures:
            raise _not_everything(steps)


@contextmanager
def failures() -> Iterator[None]:
    """tidegate's errors as Dagster failures: code, place and hint instead of a stack trace."""
    try:
        yield
    except TidegateError as error:
        # The description has the other inputs that are not in order, too.
        facts = {
            key: str(value) for key, value in error.to_dict().items() if value is not None and key != "others"
        }
        raise Failure(
            description=str(error),
            metadata=facts,
            # The same statement gives the same error; only a busy log is worth another try.
            allow_retries=error.code in _TRANSIENT,
        ) from _told(error)
    except Exception as error:
        from tidegate.jvm.failures import one_line

        if _told(error) is not None:
            raise
        raise Failure(description=one_line(error), metadata={"traceback": masked_traceback(error)}) from None


def _told(error: Exception) -> Exception | None:
    """The error, unless a secret is somewhere in it: Dagster keeps all that caused it, with what each says."""
    return None if tells_secret(error) else error
