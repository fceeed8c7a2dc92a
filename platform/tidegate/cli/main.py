"""The `tidegate` command: its subcommands and global options. Nothing heavy is imported here."""

from __future__ import annotations

import typer

from tidegate import __version__
from tidegate.cli.commands.adopt import adopt
from tidegate.cli.commands.advise import advise
from tidegate.cli.commands.alerts import alerts
from tidegate.cli.commands.amend import amend
from tidegate.cli.commands.audit import audit
from tidegate.cli.commands.check import check
from tidegate.cli.commands.cleanup import cleanup
from tidegate.cli.commands.docs import docs
from tidegate.cli.commands.doctor import doctor
from tidegate.cli.commands.explain import explain
from tidegate.cli.commands.init import init
from tidegate.cli.commands.late import late
from tidegate.cli.commands.live import live
from tidegate.cli.commands.quality import quality
from tidegate.cli.commands.rebuild import rebuild
from tidegate.cli.commands.run import run
from tidegate.cli.commands.sql import sql
from tidegate.cli.commands.status import status
from tidegate.cli.commands.test import run_tests
from tidegate.cli.commands.ui import ui
from tidegate.cli.commands.upkeep import upkeep
from tidegate.cli.commands.why import why
from tidegate.cli.invocation import DebugOption, EnvOption, Globals, JsonOption, ProjectOption

app = typer.Typer(
    name="tidegate",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 not in order, 2 an error that the text explains, 130 interrupted.",
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
    run,
    live,
    sql,
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


def main() -> None:
    """Entry point of the installed command."""
    app()


if __name__ == "__main__":
    main()
