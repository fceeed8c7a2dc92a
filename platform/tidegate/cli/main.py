"""The `tidegate` command: its subcommands and global options. A command is imported when it is called."""

from __future__ import annotations

import gc
import sys

import typer

from tidegate import __version__
from tidegate.cli.invocation import DebugOption, EnvOption, Globals, JsonOption, ProjectOption
from tidegate.cli.loading import CommandsByName

app = typer.Typer(
    name="tidegate",
    cls=CommandsByName,
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


#: They read all definitions, answer, and end.
_QUESTIONS = ("check", "explain", "plan", "status", "why")


def main() -> None:
    """Entry point of the installed command."""
    # The first word that is neither an option nor the value of one.
    before = zip(sys.argv[1:], sys.argv, strict=False)
    words = (word for word, option in before if word[:1] != "-" and option not in ("--project", "--env"))
    if next(words, None) in _QUESTIONS:
        # Nearly everything that they make is needed to the end. To look for what is not takes a tenth of their time.
        gc.disable()
        try:
            app()
        finally:
            # Python looks for it once more at its end, whatever is disabled: as long as all reading has taken.
            gc.freeze()
    else:
        app()


if __name__ == "__main__":
    main()
