"""`tidegate verify`: whether everything that is stored is there, and adds up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.commands.questions.audit import audited
from tidegate.cli.failures import FailFastOption, conclude, steps_for, told
from tidegate.cli.invocation import Invocation, guarded

if TYPE_CHECKING:
    from tidegate.audit.source import SourceAudit
    from tidegate.audit.stored_files import VerifiedTable
    from tidegate.audit.view import ViewAudit
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation, View


@guarded
def verify(
    call: Invocation,
    files: Annotated[
        bool, typer.Option("--files", help="Look at files only: no Spark, and no audit of the rows.")
    ] = False,
    fail_fast: FailFastOption = False,
) -> int:
    """Check everything that is stored, as after a restore: every file that a snapshot names is there, is as long as it
    should be and has as many rows, and no sink has delivered more than there is; then audit every log and every view,
    as tidegate audit does.

    The tables are those of this project and environment, with all of their snapshots. Exit code 1: a file is missing
    or damaged, a sink does not fit to the tables, or an audit found differences.

    Example: tidegate verify --files
    """
    from tidegate.audit.stored_files import verify_all

    project = call.project()
    verified: list[VerifiedTable] = []
    for one in verify_all(project.storage, project.owner):
        verified.append(one)
        if not call.json:
            call.console.document(None, _shown(one))
    sinks = _misplaced(project)
    if not call.json:
        for name, problem in sinks.items():
            call.console.document(None, f"sink {name}: DOES NOT FIT\n  {problem}")
    data: dict[str, object] = {"tables": [one.to_dict() for one in verified], "sinks": sinks}
    wrong = bool(sinks) or not all(one.ok for one in verified)
    if files or not verified:
        if call.json or not verified:
            call.console.document(data, "nothing is stored yet")
        return int(wrong)
    return _audit_all(call, project, data, wrong, fail_fast)


def _misplaced(project: Project) -> dict[str, str]:
    """By sink what it has delivered that does not fit to what is stored."""
    from tidegate.errors import TidegateError
    from tidegate.store.sinks import misplaced

    catalog, found = project.catalog(), {}
    for sink in catalog.sinks:
        try:
            problem = misplaced(project.storage, sink, catalog)
        except TidegateError as error:
            problem = error.message
        if problem is not None:
            found[sink.name] = problem
    return found


def _audit_all(
    call: Invocation, project: Project, data: dict[str, object], wrong: bool, fail_fast: bool
) -> int:
    """Audit what has stored rows, each by itself: a damaged table does not keep others from being audited."""
    from tidegate.sql.catalog.objects import Relation, View

    done: list[ViewAudit | SourceAudit] = []
    with call.session(project) as session:
        stored = [
            item
            for item in session.catalog.order()
            if "$" not in item.name
            and getattr(item, "kind", "") != "gate"
            and isinstance(item, Relation | View)
            and session.stored(item.name) is not None
        ]
        steps = steps_for([item.name for item in stored], fail_fast)

        def one(item: Relation | View) -> None:
            done.append(audited(session, item)[0])
            if not call.json:
                text = "the audit found no differences" if done[-1].ok else "the audit found DIFFERENCES"
                call.console.document(None, f"{item.name}: {text}")

        for item in stored:
            steps.do(item, partial(one, item))
    audits: list[object] = [result.to_dict() for result in done]
    if call.json:
        call.console.document(data | {"audits": audits} | told(steps), "")
    differ = not all(result.ok for result in done)
    return conclude(call, steps.failures, steps.skipped, len(done)) or int(wrong or differ)


def _shown(one: VerifiedTable) -> str:
    """For people: a line for each table, and one for each problem."""
    from tidegate.wording import counted

    text = f"{one.name}: {counted(one.snapshots, 'snapshot')}, {counted(one.files, 'file')}, {counted(one.rows, 'row')}"
    if one.ok:
        return f"{text}: complete"
    lines = [f"{text}: {counted(one.wrong, 'file')} MISSING OR DAMAGED"]
    lines += [f"  {problem.file}: {problem.what}" for problem in one.problems]
    rest = one.wrong - len(one.problems)
    return "\n".join(lines + ([f"  and {rest} more"] if rest else []))
