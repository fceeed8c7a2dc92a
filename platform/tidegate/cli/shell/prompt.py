"""Line editing: several lines, history across starts, completion with Tab, colours. On prompt_toolkit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.shortcuts import CompleteStyle
from pygments.lexers.sql import SqlLexer

from tidegate.cli.shell.completion import candidates
from tidegate.cli.statements import is_finished
from tidegate.project.disk import private_folder
from tidegate.sql.catalog.catalog import Catalog

PROMPT, CONTINUATION = "tidegate> ", "      ... "


def reader(catalog: Callable[[], Catalog], history: Path, **streams: Any) -> Callable[[], str]:
    """A function that asks for one input and returns it: complete statements, or a command.

    It raises KeyboardInterrupt at Ctrl-C and EOFError at Ctrl-D. `history`: file that keeps what was typed; without
    the right to write it, nothing is kept. `streams`: `input` and `output` of prompt_toolkit, for tests.
    """
    session: PromptSession[str] = PromptSession(
        history=_history(history),
        completer=_Names(catalog),
        complete_while_typing=False,
        complete_style=CompleteStyle.MULTI_COLUMN,
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: CONTINUATION,
        key_bindings=_keys(),
        lexer=PygmentsLexer(SqlLexer),
        enable_history_search=True,
        **streams,
    )
    return lambda: session.prompt(PROMPT)


def _history(path: Path) -> History:
    try:
        private_folder(path.parent)
        path.touch()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        """Enter takes the chosen completion, else runs what is finished, else begins a new line."""
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    return keys


class _Names(Completer):
    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        self._catalog = catalog

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        for found in candidates(document.text, document.cursor_position, self._catalog()):
            yield Completion(found.text, start_position=-found.length, display_meta=found.kind)
