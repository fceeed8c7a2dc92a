"""The side of the command: it looks for a worker, asks it, and says what the worker says."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegate import __version__
from tidegate.console.port import Console
from tidegate.plan.events import Event
from tidegate.warm.channel import INTERRUPTED, PROTOCOL, Broken, Channel, Silent, peer_user
from tidegate.warm.likeness import likeness_of
from tidegate.warm.places import connected, found
from tidegate.warm.relay import replay

#: A worker greets at once, and then gives a sign of life every second.
_GREETING_SECONDS, _LIFE_SECONDS = 3.0, 15.0
#: After Ctrl-C: how long a commit that has begun may take.
_CANCEL_SECONDS = 30.0


class Lost(Exception):
    """A worker has ended, or fallen silent, after it had said something: the text says which."""


class _Stopped(Exception):
    """A worker has broken off what it did, because it ends."""


class Conversation:
    """A command that is asked of a worker; it can be cancelled from another thread. `on_event`: who shows events
    (None: the console)."""

    def __init__(
        self, root: Path, env: str, console: Console, on_event: Callable[[Event], None] | None = None
    ) -> None:
        self._root, self._env, self._console = root, env, console
        self._on_event = on_event or console.event
        self._channel: Channel | None = None
        self._cancelled = threading.Event()
        self._said = False

    def ask(self, request: Mapping[str, Any], quietly: bool = False) -> int | None:
        """The exit code of the command, which a worker has carried out; None if no worker has done anything, and this
        process has to. A line says why, if there is a worker, but not `quietly`. Raises Lost if it ends in the
        middle."""
        places = found(self._root / ".tidegate", self._env)
        if not places:
            return None
        why: str | None = None
        for place in places:
            if self._cancelled.is_set():
                break
            try:
                made = connected(place, _GREETING_SECONDS)
            except OSError:
                # A socket of a process that is gone.
                continue
            with made:
                code, declined = self._ask_at(made, request)
            if declined is None:
                return code
            why = why or declined
        if self._cancelled.is_set():
            # Before anybody has begun with it; and nobody is to.
            return INTERRUPTED
        if why is not None and not quietly:
            self._console.note(f"the running Spark of this project is not used: {why}")
        return None

    def cancel(self) -> None:
        """Let the worker stop. From any thread."""
        self._cancelled.set()
        if (channel := self._channel) is not None:
            with suppress(Broken):
                channel.send({"cancel": True}, 5.0)

    # -- with one worker ---------------------------------------------------------------------------------------

    def _ask_at(self, made: socket.socket, request: Mapping[str, Any]) -> tuple[int | None, str | None]:
        """The exit code, or why this worker has done nothing."""
        if peer_user(made) not in (os.geteuid(), None):
            return None, "it belongs to another user"
        channel = Channel(made)
        try:
            greeting = channel.receive(_GREETING_SECONDS)
        except (Broken, Silent):
            return None, "it does not answer"
        if greeting.get("protocol") != PROTOCOL or greeting.get("tidegate") != __version__:
            return None, "it is of another release of tidegate: restart it"
        nonce, shape = str(greeting["nonce"]), self._console.shape
        likeness = likeness_of(self._root, self._env, os.environ)
        asked = {"proof": likeness.proof(nonce), "shape": {"json": shape.json, "width": shape.width}}
        try:
            if self._cancelled.is_set():
                return None, "the command was cancelled"
            channel.send({**request, **asked}, _LIFE_SECONDS)
            # From here on `cancel` reaches the worker; what came before is said now.
            self._channel = channel
            if self._cancelled.is_set():
                self.cancel()
            return self._listen(channel)
        except (Broken, Silent, _Stopped) as error:
            return None, self._broken(error)
        except KeyboardInterrupt:
            self._channel = channel
            self._wait_for_the_end(channel)
            raise
        finally:
            self._channel = None

    def _listen(self, channel: Channel) -> tuple[int | None, str | None]:
        while True:
            said = channel.receive(_LIFE_SECONDS)
            if isinstance(code := said.get("end"), int):
                return code, None
            if isinstance(why := said.get("declined"), str):
                return None, why
            if "stopped" in said:
                raise _Stopped
            self._said = replay(said, self._console, self._on_event) or self._said

    def _broken(self, error: Exception) -> str:
        """What is said of a worker that ends, breaks off, or falls silent, in the middle. Raises Lost if something was
        shown: it would be shown twice."""
        if isinstance(error, Silent):
            lost, why = "does not answer any more", "it does not answer any more"
        elif isinstance(error, _Stopped):
            lost, why = "has stopped it", "it has stopped the command, because it or one of its groups ends"
        else:
            lost, why = "has ended", "it ended before it had answered"
        if self._said:
            raise Lost(lost)
        return why

    def _wait_for_the_end(self, channel: Channel) -> None:
        """After Ctrl-C: show what is still committed, so that what is said of it is true."""
        self.cancel()
        with suppress(Broken, Silent):
            said: dict[str, Any] = {}
            while not said.keys() & {"end", "declined", "stopped"}:
                said = channel.receive(_CANCEL_SECONDS)
                replay(said, self._console, self._on_event)
