"""The definitions that live mode goes by now, and how it takes up others while it runs (E7)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from tidegate.cli.commands.runs.live_definitions import LiveDefinitions, require_no_replacement
from tidegate.errors import TidegateError
from tidegate.jvm.failures import one_line
from tidegate.live.happenings import Redefined
from tidegate.live.reloading import Reloader
from tidegate.plan.events import DefinitionsLoaded, DefinitionsRefused
from tidegate.session.session import packages
from tidegate.store.writers import LiveRecord, LiveRecordFile, RefusedDefinitions, recorded

if TYPE_CHECKING:
    from tidegate.live.groups import Group
    from tidegate.live.standby import LiveLeases
    from tidegate.live.supervisor import Supervisor
    from tidegate.live.workers import Workers


class Current:
    """`definitions`: those that live mode goes by; `read`: reads them again."""

    def __init__(self, definitions: LiveDefinitions, read: Callable[[], LiveDefinitions]) -> None:
        self.definitions, self._read = definitions, read

    def pace_of(self, group: Group) -> float:
        """Seconds from a tick of a group to the next."""
        return self.definitions.pace_of(group)

    @contextmanager
    def followed(
        self, supervisor: Supervisor, workers: Workers, leases: LiveLeases, watch: bool
    ) -> Iterator[Reloader]:
        """While the block runs, the definitions can be read again, by whoever asks, and with `watch` whenever files
        have changed."""
        project = self.definitions.project
        now = time.time()
        record = LiveRecord(now, now, tuple(self.definitions.members))
        with recorded(project.state_dir, project.env_name, record) as file:

            def look() -> None:
                _Look(self, supervisor, workers, leases, file).take()

            with Reloader(look, self._fingerprint if watch else None) as reloader:
                yield reloader

    def begin(self, supervisor: Supervisor, workers: Workers, leases: LiveLeases) -> None:
        """Go by the definitions as they are now: those of the start are old, since this process has stood by."""
        try:
            new = self.read()
        except TidegateError as error:
            supervisor.tell(DefinitionsRefused(error.to_dict()))
            return
        self.definitions = new
        leases.add(new.groups)
        workers.define(new.document())
        supervisor.begin_with(new.groups, new.alone)

    def read(self) -> LiveDefinitions:
        """The definitions as the files are now, which live mode can take up. Raises what is wrong with them."""
        try:
            new = self._read()
        except typer.BadParameter as error:
            raise TidegateError(
                "TG709", str(error), hint="start live mode again, with other options"
            ) from None
        require_no_replacement(new)
        return new

    def _fingerprint(self) -> object:
        """Which files there are in assets/, and when they were written."""
        found = []
        for folder, _, names in os.walk(self.definitions.project.root / "assets"):
            for name in names:
                # A file that goes in this moment is seen the next time.
                with suppress(OSError):
                    facts = os.stat(path := os.path.join(folder, name))
                    found.append((path, facts.st_mtime_ns, facts.st_size, facts.st_ino))
        return sorted(found)


class _Look:
    """One look at the files: what they say is taken up as a whole, or not at all."""

    def __init__(
        self,
        current: Current,
        supervisor: Supervisor,
        workers: Workers,
        leases: LiveLeases,
        file: LiveRecordFile,
    ) -> None:
        self._current, self._supervisor, self._workers = current, supervisor, workers
        self._leases, self._file = leases, file

    def take(self) -> None:
        """Whatever happens, live mode goes on."""
        try:
            self._redefine(self._current.read())
        except Exception as error:
            known = error if isinstance(error, TidegateError) else None
            document = known.to_dict() if known else {"code": None, "message": one_line(error)}
            self._supervisor.tell(DefinitionsRefused(document))
            self._file.looked(refused=RefusedDefinitions(time.time(), document))

    def _redefine(self, new: LiveDefinitions) -> None:
        before = self._current.definitions
        changed = new.changed_since(before)
        was, now = ({group.name: group for group in one.groups} for one in (before, new))
        began = tuple(name for name in now if name in changed or now[name] != was.get(name))
        ended = tuple(name for name in was if name not in now)
        renew = packages(new.project) != packages(before.project)
        if renew:
            # Spark was started without the libraries that are needed now.
            changed = frozenset(now)
            began = tuple(now)
        self._leases.add(new.groups)
        self._current.definitions = new
        self._workers.define(new.document(began), renew)
        self._supervisor.redefine(Redefined(new.groups, changed, new.alone))
        self._supervisor.tell(DefinitionsLoaded(began, ended, len(now) - len(began)))
        self._file.looked(
            refused=None, read_at=time.time(), members=tuple(new.members), began=began, ended=ended
        )
