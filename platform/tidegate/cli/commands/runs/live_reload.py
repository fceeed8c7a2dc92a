"""The definitions that live mode goes by now, and how it takes up others while it runs (E7)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer

from tidegate.cli.commands.runs.live_definitions import LiveDefinitions, require_no_replacement
from tidegate.errors import TidegateError
from tidegate.jvm.failures import one_line
from tidegate.live.groups import Group, GroupPace
from tidegate.live.happenings import Redefined
from tidegate.live.reloading import Reloader
from tidegate.plan.events import DefinitionsLoaded, DefinitionsRefused
from tidegate.session.session import needed_packages, packages
from tidegate.store.writers import LiveRecord, LiveRecordFile, RefusedDefinitions, recorded
from tidegate.warm.likeness import likeness_of

if TYPE_CHECKING:
    from tidegate.live.standby import LiveLeases
    from tidegate.live.supervisor import Supervisor
    from tidegate.live.workers import Workers


#: Seconds after which definitions that were refused are looked at again, with `--watch`: what stood in the way, such as
#: a catalog that did not answer, or results that had to be recomputed first, may be over.
_AGAIN = 60.0


class Current:
    """`definitions`: those that live mode goes by; `read`: reads them again."""

    def __init__(self, definitions: LiveDefinitions, read: Callable[[], LiveDefinitions]) -> None:
        self.definitions, self._read = definitions, read
        self._read_at = time.time()
        #: With what Spark is started, or was: what it has to have is more or less of that.
        self._packages = frozenset(packages(definitions.project, definitions.catalog))
        self._refused: RefusedDefinitions | None = None
        self._file: LiveRecordFile | None = None

    def pace_of(self, group: Group) -> GroupPace:
        """How often a group ticks, and before which others."""
        return self.definitions.pace_of(group)

    def interval_of(self, group: str) -> float:
        """Seconds between two ticks of a group."""
        return self.definitions.pace_of(Group(group, ())).interval

    @contextmanager
    def followed(
        self, supervisor: Supervisor, workers: Workers, leases: LiveLeases, watch: bool
    ) -> Iterator[Reloader]:
        """While the block runs, the definitions can be read again, by whoever asks, and with `watch` whenever files
        have changed."""
        project = self.definitions.project
        record = LiveRecord(
            time.time(), self._read_at, tuple(self.definitions.members), refused=self._refused
        )
        with recorded(project.state_dir, project.env_name, record) as file:
            self._file = file

            def look() -> None:
                self._look(supervisor, workers, leases)

            again = Reloader(
                look,
                self._fingerprint if watch else None,
                again=lambda: None if self._refused is None else _AGAIN,
            )
            with again as reloader:
                environ = dict(os.environ)
                if watch and (
                    likeness_of(project.root, project.env_name, environ).definitions
                    != self.definitions.likeness
                ):
                    # Files have changed since the start.
                    reloader.ask()
                yield reloader

    def begin(self, supervisor: Supervisor, workers: Workers, leases: LiveLeases) -> None:
        """Go by the definitions as they are now: those of the start are old, since this process has stood by."""
        try:
            new = self._read()
            # The second is of `jobs/`, which is no part of the first.
            if new.likeness == self.definitions.likeness and not new.changed_since(self.definitions):
                return
            require_no_replacement(new)
        except Exception as error:
            self._refuse(supervisor, error)
            return
        leases.add(new.groups)
        workers.define(new.document())
        supervisor.begin_with(new.groups, new.alone)
        self.definitions, self._read_at = new, time.time()
        self._packages = frozenset(packages(new.project, new.catalog))

    def _look(self, supervisor: Supervisor, workers: Workers, leases: LiveLeases) -> None:
        """Read the files; what they say is taken up as a whole, or not at all. Whatever happens, live mode goes on."""
        began_at = time.time()
        try:
            new = self._read()
            require_no_replacement(new)
            changed = new.changed_since(self.definitions)
            renew = not self._packages.issuperset(needed_packages(new.project, new.catalog))
            if renew:
                # Spark was started without the libraries that are needed now.
                changed = frozenset(group.name for group in new.groups)
            leases.add(new.groups)
        except Exception as error:
            self._refuse(supervisor, error)
            self.record(looked_at=began_at, refused=self._refused)
            return

        def prepare() -> Redefined:
            self.definitions = new
            if renew:
                self._packages = frozenset(packages(new.project, new.catalog))
            workers.define(new.document(sorted(changed)), renew)
            return Redefined(new.groups, changed, new.alone)

        def done(loaded: DefinitionsLoaded | None) -> None:
            self._refused = None
            if loaded is None:
                error = TidegateError("TG709", "live mode is ending", hint="start it again")
                self._refused = RefusedDefinitions(time.time(), error.to_dict())
                self.record(looked_at=began_at, refused=self._refused)
                return
            facts = {"began": loaded.began, "ended": loaded.ended, "members": tuple(new.members)}
            self.record(looked_at=began_at, refused=None, read_at=began_at, **facts)

        supervisor.redefine(prepare, done)

    def _refuse(self, supervisor: Supervisor, error: Exception) -> None:
        if isinstance(error, typer.BadParameter):
            error = TidegateError("TG709", str(error), hint="start live mode again, with other options")
        known = error if isinstance(error, TidegateError) else None
        document = known.to_dict() if known else {"code": None, "message": one_line(error), "hint": None}
        if self._refused is None or self._refused.error != document:
            supervisor.tell(DefinitionsRefused(document))
        self._refused = RefusedDefinitions(time.time(), document)

    def record(self, **facts: Any) -> None:
        """Tell other processes. Live mode does not depend on it."""
        if self._file is not None:
            with suppress(OSError):
                self._file.change(**facts)

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
