"""The side of the worker: it listens, and carries out what commands ask for, each in a thread of its own.

A command that ends, or whose user presses Ctrl-C, is told by the end of its connection: what it has asked for is then
stopped between two commits.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tidegate import __version__
from tidegate.console.port import Shape
from tidegate.warm.channel import INTERRUPTED, PROTOCOL, Broken, Channel, Silent, peer_user
from tidegate.warm.relay import RelayConsole

#: How many commands are carried out at the same time; one more does its work itself.
_MOST = 8
#: A command says at once what it asks for.
_REQUEST_SECONDS = 10.0
#: Seconds between two signs of life, and between two looks whether what was cancelled has ended.
_BEAT, _AGAIN = 1.0, 0.5


class Declined(Exception):
    """The worker does not do this; the text says why. Nothing has been done."""


class Cancelled(BaseException):
    """The work is to end: nobody waits for the answer any more, or this process breaks it off. No `Exception`: what
    takes down failures and goes on must not take it."""


class Work:
    """A command that is carried out. `stopping` holds what breaks off work that is under way, called again and again
    until the work has ended."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._over = threading.Event()
        self._cancelled = threading.Event()
        self._left = False
        self.stopping: list[Callable[[], None]] = []

    def say(self, document: dict[str, Any]) -> None:
        """Tell the command something, also after Ctrl-C: it shows what was still committed. Raises Cancelled then, or
        if it does not listen any more."""
        self.send(document)
        self.go_on()

    def send(self, document: dict[str, Any]) -> None:
        """As `say`, and go on after Ctrl-C. A command that does not read is waited for, unless this process breaks
        off."""
        try:
            self._channel.send(document, waits=self._waits)
        except Broken:
            self.cancel()
            raise Cancelled from None

    def _waits(self) -> None:
        if self._cancelled.is_set() and not self._left:
            raise Cancelled

    def go_on(self) -> None:
        """Raise Cancelled if the work is to end."""
        if self._cancelled.is_set():
            raise Cancelled

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def left(self) -> bool:
        """Whether the command wants no more, or is gone."""
        return self._left

    def cancel(self) -> None:
        """The command wants no more, or is gone. From any thread."""
        self._left = True
        self._cancelled.set()

    def break_off(self) -> None:
        """This process can't go on with it: the command is told so, and does the work itself or fails. From any
        thread."""
        self._cancelled.set()

    def watch(self) -> None:
        """Until the work is over: tell the command that this process lives, and hear whether it does."""
        while not self._over.is_set():
            if self._left:
                self._over.wait(_AGAIN)
            else:
                self._hear(_AGAIN if self._cancelled.is_set() else _BEAT)
            if self._cancelled.is_set():
                for stop in tuple(self.stopping):
                    with suppress(Exception):
                        stop()

    def _hear(self, seconds: float) -> None:
        try:
            self._channel.receive(seconds)
            # Whatever it says now is that it wants no more.
            self.cancel()
        except Silent:
            with suppress(Broken):
                self._channel.beat()
        except Broken:
            self.cancel()

    def end(self) -> None:
        self._over.set()


@dataclass(frozen=True)
class Asked:
    """What a command asks for. `proof`: of its files and settings (`Likeness.differs`), for this `nonce`."""

    request: Mapping[str, Any]
    nonce: str
    proof: Mapping[str, Any]
    console: RelayConsole
    work: Work


#: Carries out a command, and gives its exit code. Raises Declined before it has done or said anything.
Answer = Callable[[Asked], int]


class Desk:
    """Give it a socket that listens. `answers`: by what is asked for; `looks`: those of them that only look at what is
    there, so that a worker whom only these are asked for is idle."""

    def __init__(
        self, listening: socket.socket, answers: Mapping[str, Answer], looks: Collection[str] = ()
    ) -> None:
        self._listening, self._answers, self._looks = listening, answers, looks
        self._works: set[Work] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._last = time.monotonic()
        threading.Thread(target=self._serve, name="tidegate-desk", daemon=True).start()

    @property
    def idle(self) -> float:
        """For how many seconds nothing has been carried out."""
        with self._lock:
            return 0.0 if self._works else time.monotonic() - self._last

    def close(self) -> None:
        """Take no more, and break off what is under way. From any thread."""
        with self._lock:
            self._closed = True
            for work in self._works:
                work.break_off()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)

    def wait(self, seconds: float) -> None:
        """Until what was under way has ended, or so many seconds have passed."""
        end = time.monotonic() + seconds
        while self._works and time.monotonic() < end:
            time.sleep(0.05)

    def _serve(self) -> None:
        while not self._closed:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                if self._closed or self._listening.fileno() < 0:
                    return
                time.sleep(_AGAIN)
                continue
            threading.Thread(target=self._talk, args=(connected,), daemon=True).start()

    def _talk(self, connected: socket.socket) -> None:
        with connected:
            # The folder is this user's alone; whoever got in otherwise gets no answer.
            if peer_user(connected) not in (os.geteuid(), None):
                return
            with suppress(Broken, Silent, Cancelled):
                self._carry_out(Channel(connected))

    def _carry_out(self, channel: Channel) -> None:
        nonce = secrets.token_hex(16)
        channel.send({"tidegate": __version__, "protocol": PROTOCOL, "nonce": nonce, "pid": os.getpid()})
        request = channel.receive(_REQUEST_SECONDS)
        work = Work(channel)
        with self._lock:
            full = self._closed or len(self._works) >= _MOST
            if not full:
                self._works.add(work)
        if full:
            channel.send({"declined": "it is busy with other commands"})
            return
        watching = threading.Thread(target=work.watch, daemon=True)
        watching.start()
        try:
            try:
                end = self._answer(request, nonce, work)
            finally:
                work.end()
            # It is under way until it is told: this process may end after that.
            work.send(end)
        finally:
            with self._lock:
                self._works.discard(work)
                if request.get("ask") not in self._looks:
                    self._last = time.monotonic()

    def _answer(self, request: dict[str, Any], nonce: str, work: Work) -> dict[str, Any]:
        answer = self._answers.get(str(request.get("ask")))
        proof, shape = request.get("proof"), request.get("shape")
        if answer is None or not isinstance(proof, dict) or not isinstance(shape, dict):
            return {"declined": "it does not know this command"}
        console = RelayConsole(work.say, Shape(bool(shape.get("json")), shape.get("width")))
        try:
            return {"end": answer(Asked(request, nonce, proof, console, work))}
        except Declined as error:
            return {"declined": str(error)}
        except Cancelled:
            return {"end": INTERRUPTED} if work.left else {"stopped": True}
