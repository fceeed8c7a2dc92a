"""The `tidegate` command: its subcommands and global options. Nothing heavy is imported here."""

from __future__ import annotations

import typer

from tidegate import __version__
from tidegate.cli.commands.project.check import check
from tidegate.cli.commands.project.docs import docs
from tidegate.cli.commands.project.doctor import doctor
from tidegate.cli.commands.project.explain import explain
from tidegate.cli.commands.project.init import init
from tidegate.cli.commands.project.test import run_tests
from tidegate.cli.commands.project.ui import ui
from tidegate.cli.commands.questions.advise import advise
from tidegate.cli.commands.questions.alerts import alerts
from tidegate.cli.commands.questions.audit import audit
from tidegate.cli.commands.questions.late import late
from tidegate.cli.commands.questions.plan import plan
from tidegate.cli.commands.questions.quality import quality
from tidegate.cli.commands.questions.show import show
from tidegate.cli.commands.questions.status import status
from tidegate.cli.commands.questions.why import why
from tidegate.cli.commands.runs.adopt import adopt
from tidegate.cli.commands.runs.amend import amend
from tidegate.cli.commands.runs.apply import apply
from tidegate.cli.commands.runs.catalog import catalog
from tidegate.cli.commands.runs.cleanup import cleanup
from tidegate.cli.commands.runs.live import live
from tidegate.cli.commands.runs.rebuild import rebuild
from tidegate.cli.commands.runs.run import run
from tidegate.cli.commands.runs.sql import sql
from tidegate.cli.commands.runs.upkeep import upkeep
from tidegate.cli.invocation import DebugOption, EnvOption, Globals, JsonOption, ProjectOption

app = typer.Typer(
    name="tidegate",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 something is wrong or failed, 2 an error that the text explains, 130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    project: ProjectOption = None,
    env: EnvOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Watermark semantics on Spark: every row judged once, every window emitted once."""
    context.obj = Globals(project, env, json, debug)


for _command in (
    init,
    check,
    explain,
    plan,
    apply,
    run,
    live,
    sql,
    show,
    status,
    why,
    late,
    advise,
    amend,
    rebuild,
    audit,
    quality,
    cleanup,
    upkeep,
    adopt,
    docs,
    doctor,
    ui,
):
    app.command(no_args_is_help=False)(_command)
app.command("test", no_args_is_help=False)(run_tests)
app.add_typer(alerts)
app.add_typer(catalog)


def main() -> None:
    """Entry point of the installed command."""
    app()


if __name__ == "__main__":
    main()
