"""A prompt beside a running worker of the project: that answers what only reads, and Spark is started here at the first
statement that does more. From then on this process does everything, since its definitions may be other ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.cli.asked import ask
from tidegate.cli.statements import only_asks

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.runtime.result import Result
    from tidegate.session.session import Session
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.warm.asking import Conversation


class SessionAtNeed:
    """What the prompt needs of a session, which `opening` starts when it is needed."""

    def __init__(self, project: Project, opening: Callable[[], Session]) -> None:
        self.project, self._opening = project, opening
        self._opened: Session | None = None
        self._stack = ExitStack()

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def catalog(self) -> Catalog:
        """What is defined."""
        return self._defined if self._opened is None else self._opened.catalog

    @cached_property
    def _defined(self) -> Catalog:
        return self.project.catalog()

    @property
    def spark(self) -> Any:
        """Of the session, once there is one."""
        return None if self._opened is None else self._opened.spark

    def open(self) -> Session:
        """The session."""
        if self._opened is None:
            self._opened = self._stack.enter_context(self._opening())
        return self._opened

    def execute_all(self, text: str, name: str) -> Iterator[Result]:
        """See `Session.execute_all`."""
        return self.open().execute_all(text, name)

    def close(self) -> None:
        self._stack.close()


class OtherProcess:
    """Answers of a worker. `talk`: begins a conversation with one."""

    def __init__(self, session: SessionAtNeed, talk: Callable[[], Conversation]) -> None:
        self._session, self._talk = session, talk
        self._talking: Conversation | None = None
        self._lock = threading.Lock()

    def answers(self, text: str, name: str, layout: str) -> bool:
        """Whether a worker has answered; if not, nothing was said."""
        if self._session.is_open or not only_asks(text):
            return False
        with self._lock:
            self._talking = self._talk()
        try:
            request = {"ask": "sql", "text": text, "name": name, "layout": layout}
            return ask(self._talking, request) is not None
        finally:
            with self._lock:
                self._talking = None

    def stop(self) -> None:
        """Let the worker stop what it does. From another thread."""
        with self._lock:
            if self._talking is not None:
                self._talking.cancel()
