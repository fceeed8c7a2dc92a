"""What every command shares: options, the project, the console, and how errors become text and exit codes."""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.console import Console, choose_console
from tidegate.errors import TidegateError
from tidegate.masking import masked, masked_traceback

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.session.session import Session

ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        help=(
            "Folder of the project. Default: the working directory, or its nearest parent that is a project."
        ),
        show_default=False,
    ),
]
EnvOption = Annotated[
    str | None,
    typer.Option("--env", help="Environment: resources/NAME.yaml. Default: local.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the output as JSON, for programs.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")]

INTERRUPTED = 130


@dataclass(frozen=True)
class Globals:
    """Options given before the command's name; the same ones after it win."""

    project: Path | None = None
    env: str | None = None
    json: bool = False
    debug: bool = False


class Invocation:
    """One call of one command."""

    def __init__(
        self, context: typer.Context, project: Path | None, env: str | None, json: bool, debug: bool
    ) -> None:
        given = context.obj if isinstance(context.obj, Globals) else Globals()
        self._folder = project or given.project
        self._environment = env or given.env
        self.json: bool = json or given.json
        self.debug: bool = debug or given.debug
        self._console: Console | None = None
        #: Called on Ctrl-C; says what survives.
        self.on_interrupt: Callable[[], str] = lambda: "interrupted"

    @property
    def console(self) -> Console:
        """JSON lines, a person's terminal, or plain lines where the output is piped."""
        if self._console is None:
            self._console = choose_console(self.json)
        return self._console

    @property
    def root(self) -> Path:
        """Folder of the project, found but not loaded."""
        from tidegate.project.folder import find_root

        return self._folder or find_root(Path.cwd())

    @property
    def env(self) -> str:
        """Name of the environment."""
        return self._environment or "local"

    def project(self) -> Project:
        """The project, loaded. Raises TG601 to TG607."""
        from tidegate.project import Project
        from tidegate.runtime.lending import with_lent_views
        from tidegate.runtime.stored_gates import with_gate_names

        return with_gate_names(with_lent_views(Project.load(self.root, self.env)))

    def project_or_temporary(self) -> Project:
        """The project; an empty temporary one where there is none and none was asked for."""
        from tidegate.project import Project
        from tidegate.project.folder import is_project

        if self._folder is not None or self._environment is not None or is_project(self.root):
            return self.project()
        self.console.note(
            "this folder is not a project: a temporary project is used, and is deleted at the end"
        )
        return Project.temporary()

    def session(self, project: Project) -> Session:
        """A session with Spark. Java is checked first, so that a missing one costs a line and not a
        stack trace.
        """
        self.require_java()
        from tidegate.session.session import Session

        session = Session.open(project=project)
        self.take_interrupts()
        return session

    def require_java(self) -> None:
        """Raises if Spark could not start with the Java that there is."""
        from tidegate.project.java import require_java

        java = require_java()
        if java.warning:
            self.console.note(f"note: {java.warning}")

    def take_interrupts(self) -> None:
        """From now on Ctrl-C leaves the JVM alone; to be called when Spark has started."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, _interrupt)


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what a command raises into text and an exit code.

    The command's first parameter is its `Invocation`; typer sees the shared options in its place.
    """

    @functools.wraps(function)
    def command(
        context: typer.Context,
        *args: Any,
        project: Path | None = None,
        env: str | None = None,
        json: bool = False,
        debug: bool = False,
        **kwargs: Any,
    ) -> None:
        call = Invocation(context, project, env, json, debug)
        try:
            code = function(call, *args, **kwargs)
            call.console.close()
        except KeyboardInterrupt:
            # A second Ctrl-C ends the process on the spot.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            call.console.close()
            call.console.error(call.on_interrupt())
            code = INTERRUPTED
        except BrokenPipeError:
            # The reader of our output (say, head) has what it wanted.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        except (typer.Exit, typer.TyperException):
            raise
        except Exception as error:
            if call.debug:
                show_traceback(error)
            code = tell_error(error, call.console, call.debug)
        if code:
            raise typer.Exit(code)

    _give_options(command, function)
    return command


def _give_options(command: Callable[..., Any], function: Callable[..., Any]) -> None:
    import inspect

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, kind, default in (
            ("project", ProjectOption, None),
            ("env", EnvOption, None),
            ("json", JsonOption, False),
            ("debug", DebugOption, False),
        )
    ]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    command.__signature__ = inspect.Signature([first, *own, *shared])  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {p.name: p.annotation for p in [first, *own, *shared]}
    # typer would look through functools.wraps at the undecorated function.
    del command.__wrapped__  # type: ignore[attr-defined]  # functools.wraps has set it


def asked(text: str) -> bool:
    """Whether whoever sits at the prompt agrees."""
    return input(f"{text}\nContinue? [y/N] ").strip().casefold() in ("y", "yes")


def agreeing(text: str) -> bool:
    """The answer of `--yes`."""
    return True


def in_one_line(error: Exception) -> str:
    """What an exception says, without its stack trace; of an error in the JVM, what the JVM said."""
    lines = str(error).splitlines() or [""]
    # Py4J puts "An error occurred while calling …" first and the Java exception behind a colon.
    said = next((line[2:] for line in lines[1:2] if line.startswith(": ")), lines[0])
    return masked(f"{type(error).__name__}: {said}") if said else type(error).__name__


def tell_error(error: Exception, console: Console, debug: bool = False) -> int:
    """Say what a command has raised; its exit code."""
    if isinstance(error, TidegateError):
        console.error(error)
        return 2
    from tidegate.project.disk import trouble

    if (known := trouble(error)) is not None:
        console.error(known)
        return 2
    hint = "" if debug else "\nhint: --debug shows where; please report it"
    console.error(f"unexpected {in_one_line(error)}{hint}")
    return 1


def show_traceback(error: Exception) -> None:
    """For those who asked for it."""
    sys.stderr.write(masked_traceback(error))


def _interrupt(number: int, frame: object) -> None:
    """Ctrl-C while Spark runs. PySpark's own handler calls the JVM from inside a call to the JVM, which breaks
    both; ours leaves the JVM alone: what is half done is not committed.
    """
    # Py4J logs a stack trace for the answer that nobody waits for any more.
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt
