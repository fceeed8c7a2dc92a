"""`tidegate alerts`: try targets, see what would be told, and what is still to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.alerts import Message
    from tidegate.findings import Finding
    from tidegate.project import Project
    from tidegate.project.jobs.alerts import Alerts

alerts = typer.Typer(
    name="alerts",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help=(
        "Show who gets which alerts: send test messages, preview what would be sent, and "
        "list what waits. Alerts are set up in jobs/*.yaml."
    ),
)


@guarded
def try_targets(
    call: Invocation,
    targets: Annotated[
        list[str] | None, typer.Argument(help="Names of targets. Default: all targets.")
    ] = None,
) -> int:
    """Send a test message to every target, or to the named ones. Exit code 1: a message could not be sent.

    Example: tidegate alerts test team
    """
    import time

    from tidegate.alerts.send import send
    from tidegate.alerts.state import Message

    project = call.project()
    settings = _settings(project)
    known = [t.name for t in settings.targets]
    wanted = list(targets or known)
    for name in wanted:
        if name not in known:
            raise _no_target(name, known)
    results = []
    for target in settings.targets:
        if target.name not in wanted:
            continue
        text = f"A test of target {target.name}, sent by `tidegate alerts test`. Nothing is wrong."
        message = Message(target.name, f"tidegate {place(project)}: test", text, "info", time.time())
        problem = send(target, message)
        results.append({"target": target.name, "service": target.service, "problem": problem})
    lines = [f"{r['target']} ({r['service']}): {r['problem'] or 'delivered'}" for r in results]
    call.console.document({"targets": results}, "\n".join(lines) or "there are no targets")
    return int(any(r["problem"] for r in results))


@guarded
def preview(call: Invocation) -> int:
    """Print every message that would be sent now if none had been sent before. It sends nothing.

    Quiet hours apply. Example: tidegate alerts preview
    """
    from datetime import UTC, datetime

    from tidegate.alerts import State, plan
    from tidegate.findings import look

    project = call.project()
    settings = _settings(project)
    seen = look(project)
    state = plan(settings, State(), seen.findings, datetime.now(UTC), place(project))
    held = [a.finding.to_dict() for route in state.open.values() for a in route.values() if a.told is None]
    data = {
        "messages": [{"target": m.target, "title": m.title, "body": m.body} for m in state.outbox],
        "held_back": held,
    }
    call.console.document(data, "" if call.json else _preview(state.outbox, len(held), settings))
    return 0


@guarded
def status(call: Invocation) -> int:
    """Show which alerts Dagster's sensors have sent, which messages wait, and which targets and routes exist.

    Example: tidegate alerts status --json
    """
    from tidegate.alerts.journal import read_journals

    project = call.project()
    settings = _settings(project)
    journals = read_journals(project)
    data = {
        "targets": [{"name": t.name, "service": t.service} for t in settings.targets],
        "routes": [{"to": r.to, "what": r.describe()} for r in settings.routes],
        "sensors": [{"sensor": j.sensor, "at": j.at, **j.state.to_json()} for j in journals],
    }
    lines = [f"target {t.name}: {t.service}" for t in settings.targets]
    lines += [f"route to {', '.join(r.to)}: {r.describe()}" for r in settings.routes]
    for journal in journals:
        lines += ["", f"{journal.sensor}, last tick {journal.at}"]
        opened = {key: a for route in journal.state.open.values() for key, a in route.items()}
        lines += [
            f"  {'told' if alert.told is not None else 'held back'}: {_short(alert.finding)}"
            for alert in opened.values()
        ]
        lines += [f"  waiting for {m.target}: {m.title} ({_tried(m)})" for m in journal.state.outbox]
        lines += [f"  given up for {target}: {n} messages" for target, n in journal.state.dropped.items()]
        if not opened and not journal.state.outbox:
            lines.append("  no alert is open, and no message is waiting")
    if not journals:
        lines += ["", "no sensor has run yet: Dagster delivers the alerts (tidegate ui)"]
    call.console.document(data, "\n".join(lines))
    return 0


alerts.command("test", no_args_is_help=False)(try_targets)
alerts.command("preview", no_args_is_help=False)(preview)
alerts.command("status", no_args_is_help=False)(status)


def _tried(message: Message) -> str:
    if not message.tries:
        return "not tried yet"
    return f"{message.tries} {'try' if message.tries == 1 else 'tries'}, {message.problem}"


def _short(finding: Finding) -> str:
    return f"{finding.severity} {finding.kind}: {finding.text}"


def place(project: Project) -> str:
    """What messages call the project."""
    return f"{project.name}/{project.env_name}"


def _settings(project: Project) -> Alerts:
    """The section, its names checked. Raises TG609 where there is none."""
    from tidegate.sql.catalog.lineage import computed

    jobs, catalog = project.jobs(), project.catalog()
    watermarked = [r.name for r in catalog.relations if r.watermark is not None]
    keyed = [r.name for r in catalog.relations if r.primary_key]
    jobs.check([o.name for o in computed(catalog)], watermarked, keyed)
    if jobs.alerts is None:
        raise TidegateError(
            "TG609",
            "no alerts are configured: jobs/*.yaml has no alerts:",
            hint="docs/operations.md has an example",
        )
    return jobs.alerts


def _no_target(name: str, known: list[str]) -> TidegateError:
    from tidegate.errors import did_you_mean

    hint = did_you_mean(name, known) or f"known: {', '.join(known) or 'none'}"
    return TidegateError("TG609", f'no target "{name}"', hint=hint)


def _preview(messages: tuple[Message, ...], held: int, settings: Alerts) -> str:
    parts = [f"to {m.target}: {m.title}\n{m.body}" for m in messages]
    if held:
        parts.append(f"{held} held back during quiet hours")
    if not parts:
        parts.append("no message would be sent now")
    if settings.dry_run:
        parts.append("dry_run: true in jobs/: Dagster's sensors send no messages, either")
    return "\n\n".join(parts)
