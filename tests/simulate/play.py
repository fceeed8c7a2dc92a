"""A script is played: the engine's own code on the simulated outside, watched by the checks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from tests.simulate.checks import leftovers
from tests.simulate.checks.audits import audit, revisions
from tests.simulate.checks.check import Checks
from tests.simulate.checks.sink_topic import SinkTopic
from tests.simulate.checks.topic_check import SourceTopic
from tests.simulate.checks.wrong import Wrong
from tests.simulate.scripts.changes import Apply, Back, Change, fields
from tests.simulate.scripts.erasures import Erase
from tests.simulate.scripts.pipelines import INPUTS, as_json
from tests.simulate.scripts.script import Act, Amend, Arrive, Keep, Live, Run, Script, Together, Wait
from tests.simulate.scripts.topic_acts import Produce, TopicAct
from tests.simulate.scripts.views import VIEWS
from tests.simulate.turns import Turns
from tests.simulate.works import EXPECTED, carry_out, go_back, is_loss, keep, restore, take_out, told
from tests.simulate.world.driver import World
from tests.simulate.world.living import Living
from tests.simulate.world.outside import Chooser, Driver, Fault, InjectedError, Killed, Outside
from tests.simulate.world.workers import failing
from tidegate.amend.run import amend
from tidegate.errors import TidegateError
from tidegate.session.session import Session

#: Of so many seeds one ends with an audit in whole, and with files put together. (It shares no divisor with 30, by
#: which a seed says of which kind its script is.)
IN_WHOLE = 7


@dataclass(frozen=True)
class Played:
    """A history that was played. `script`: with the faults that were met; `wrong`: which promise was broken."""

    script: Script
    steps: int
    batches: int
    partitions: int
    wrong: str | None = None

    @property
    def met(self) -> tuple[Fault, ...]:
        """The faults that were met."""
        return self.script.faults or ()


def play(script: Script) -> Played:
    """Play a history to its end, or to the first promise that is broken."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda found: None if _is_met(found.exc_value) else before(found)
    try:
        return Play(script).play()
    finally:
        sys.unraisablehook = before


def _is_met(error: BaseException | None) -> bool:
    """Whether it is a fault that met a file which nobody had closed, when that was forgotten."""
    return isinstance(error, Killed | InjectedError)


class Play:
    """One history while it is played."""

    def __init__(self, script: Script) -> None:
        rng = Random(script.seed)
        chooser = Chooser(rng, script.faults, script.wishes, script.share)
        self._script, self._rng = script, rng
        self._in_whole = script.seed % IN_WHOLE == 0
        self.outside = Outside(script.seed, chooser)
        self.world = World(
            self.outside, script.pipeline.sql(), script.pipeline.sources, script.pipeline.evolves
        )
        for name in script.pipeline.sources:
            # (Whoever defines a source makes its folder.)
            self.world.store.make_folder(f"{self.world.root}/{INPUTS[name]}")
        # (Late rows that an amendment has taken in count, whoever has made it: A1, B1.)
        amends = any(isinstance(act, Amend) or getattr(act, "second", "") == "amend" for act in script.acts)
        self.checks = Checks(self.world, script.pipeline, exact=not amends)
        if script.pipeline.topic is not None:
            self.checks.events.source = SourceTopic(self.world.broker, script.pipeline.topic)
        if script.pipeline.sent is not None:
            together = any(isinstance(act, Together) for act in script.acts)
            self.checks.sink = SinkTopic(self.world.broker, together, VIEWS[script.pipeline.views[0]])
        self.checks.erasures.act = next((act for act in script.acts if isinstance(act, Erase)), None)
        self.checks.watch()
        self._sessions: dict[str, Session] = {}
        self._arrived = 0
        #: Whether definitions were edited since the last time that all of them were carried out.
        self._applied = True
        self._drivers = 0

    def play(self, first: int = 0, known: Callable[[int], bool] = lambda number: False) -> Played:
        """Its acts from the `first` one on. `known`: asked after each act whether all that may follow was played; then
        upkeep removes what is left behind, and that is all."""
        wrong = None
        with self.outside.holds(), self.world.holds(), failing(self.outside):
            try:
                for number, act in enumerate(self._script.acts[first:], first):
                    self.outside.begin(number)
                    self.world.broker.arrive()
                    self._do(act)
                    if self.checks.wrong is not None:
                        raise self.checks.wrong
                    if known(number):
                        self._upkeep(self._last())
                        break
                else:
                    self._end()
            except Wrong as error:
                wrong = str(error)
            finally:
                for session in self._sessions.values():
                    session.close()
        partitions = {place[0] for log in self.checks.logs.values() for place in log.rows}
        faults = tuple(self.outside.met)
        return Played(
            replace(self._script, faults=faults),
            len(self.outside.steps),
            max(log.epoch for log in self.checks.logs.values()),
            len(partitions),
            wrong,
        )

    def _do(self, act: Act) -> None:
        if isinstance(act, Arrive):
            self.arrive(act)
        elif isinstance(act, TopicAct):
            self._happens(act)
        elif isinstance(act, Change):
            self._change(act)
        elif isinstance(act, Apply):
            self._apply(act)
        elif isinstance(act, Back):
            self._back(act)
        elif isinstance(act, Wait):
            self.outside.pass_time(act.seconds)
        elif isinstance(act, Run):
            if self.work(self.driver("a", act.fresh), Session.run):
                self.checks.read()
        elif isinstance(act, Keep):
            self.work(self.driver("a", False), lambda session: keep(self.outside.now, act.orphans, session))
        elif isinstance(act, Amend):
            self.work(self.driver("a", False), amend)
        elif isinstance(act, Live):
            self._live(act)
        elif isinstance(act, Erase):
            self._erase(act)
        else:
            self.checks.alone(False)
            self.checks.erasures.at_work = act.second == "erase"
            Turns(self, act).play()
            self.checks.erasures.at_work = False
            self.checks.alone(True)

    def _erase(self, act: Erase) -> None:
        """By a process of its own, on the machine of the others."""
        erasures = self.checks.erasures
        erasures.at_work = True
        driver = self.started("a")
        begun = not act.resumes or any(path.endswith("/erasing.json") for path in self.world.store.files)
        if self.work(driver, partial(take_out, act)) and begun:
            erasures.ended()
        if not driver.dead:
            self.ended(driver)
        erasures.at_work = False

    def _live(self, act: Live) -> None:
        """Live groups, until nothing waits any more."""
        if not self._applied and not self.work(self.driver("a", True), carry_out):
            return
        self._applied = True
        for known in [one for one in self.world.drivers if one.machine == "a"]:
            self.ended(known)

        def begun() -> None:
            self.outside.driver = self.started("a")
            self.outside.armed = True

        def ended() -> None:
            self.outside.armed = False
            self.ended(self.outside.driver)

        arrive = [partial(self.arrive, Arrive(rows)) for rows in act.files]
        if Living(self.world, begun, ended, self._failed, arrive).play():
            self.checks.read()

    def _failed(self, error: BaseException) -> None:
        """Of a member of a live group, or of its worker. Raises Wrong where no fault may be the cause."""
        if not isinstance(error, EXPECTED) or isinstance(error, AssertionError) or not self._excused():
            raise Wrong(f"a live group failed that no fault has met: {told(error)}") from error

    def arrive(self, act: Arrive) -> None:
        log = self.checks.logs.get(act.of)
        if log is None:
            return  # of a script that was made smaller
        lines = []
        for number, partition, key, value, at in act.rows:
            row = {"id": number, "p": partition, "k": key, "v": value}
            log.given[number] = {**row, "of": act.of}
            more = fields(number) if self._script.pipeline.evolves else {}
            lines.append(json.dumps(as_json({**row, **more, "ts": at})))
        path = f"{self.world.root}/{INPUTS[act.of]}/{self._arrived:03d}.json"
        self.world.store.put(path, ("\n".join(lines) + "\n").encode())
        self._arrived += 1
        self.outside.pass_time(10)

    def _change(self, act: Change) -> None:
        """Of the columns of the source. Nobody edits a definition whose last edit is not in the log yet."""
        if not self._script.pipeline.evolves:
            return  # of a script that was made smaller
        log = self.checks.events
        if act.what == "query" and act.name in self.checks.views:
            self.checks.requeried(act.name, act.to)
        elif act.what == "query" or log.edited(act) is None:
            return  # (The log does not have the last change of its columns yet.)
        self._applied = False
        for driver in list(self.world.drivers):
            if act.stays:
                driver.outdated, driver.machine = True, "b"
            else:
                self.ended(driver)
        self.world.define(self._script.pipeline.sql(log.definition, self.checks.views))

    def _apply(self, act: Apply) -> None:
        """What was edited; and then somebody runs everything who has not noticed that."""
        if self.work(self.driver("a", act.fresh), carry_out):
            self._applied = True
        for driver in [one for one in self.world.drivers if one.outdated]:
            self.work(driver, Session.run)
            if not driver.dead:
                self.ended(driver)

    def _back(self, act: Back) -> None:
        """To the version before, if there is one that can be continued."""
        if act.view not in self.checks.views:
            return  # of a script that was made smaller
        self.checks.goes_back = act.view
        self.work(self.driver("a", True), partial(go_back, act.view))
        # (What is stored may be of another query now than the file has.)
        self.checks.goes_back, self._applied = None, False

    def _happens(self, act: TopicAct) -> None:
        """To the topic that the source reads."""
        if self.checks.source is None:
            return  # a script that was made smaller
        if isinstance(act, Produce):
            for number, _, key, value, _, _ in act.rows:
                row = {"id": number, "k": key, "v": value, "of": "events"}
                self.checks.events.given[number] = row
        # (What a run saw a moment ago is not what is there now.)
        self.outside.pass_time(1)
        self.checks.source.do(act)
        self.outside.pass_time(9)

    def driver(self, machine: str, fresh: bool) -> Driver:
        known = next((one for one in self.world.drivers if one.machine == machine and not one.dead), None)
        if known is not None and not fresh:
            return known
        if known is not None:
            self.ended(known)
        return self.started(machine)

    def started(self, machine: str) -> Driver:
        """A new process on a machine."""
        self._drivers += 1
        driver = Driver(f"driver {self._drivers}", machine)
        self.world.drivers.append(driver)
        return driver

    def second(self, what: str) -> Callable[[Session], object]:
        """What a second driver does beside one that runs everything. (Upkeep spares what a run may be reading.)"""
        if what == "keep":
            return lambda session: keep(self.outside.now, True, session, guard=None)
        if what == "erase" and (act := self.checks.erasures.act) is not None:
            return partial(take_out, act)
        return amend if what == "amend" else Session.run

    def ended(self, driver: Driver) -> None:
        self.world.drivers.remove(driver)
        session = self._sessions.pop(driver.name, None)
        if session is not None:
            session.close()

    def work(self, driver: Driver, work: Callable[[Session], object]) -> bool:
        """What one driver does, with faults. Whether it ended well."""
        self.outside.driver = driver
        before = len(self.outside.met)
        self.outside.armed = True
        try:
            if driver.name not in self._sessions:
                self._sessions[driver.name] = self.world.open()
            work(self._sessions[driver.name])
            return True
        except Killed:
            self.ended(driver)
        except EXPECTED as error:
            excused = self.outside.met[before:] or self._excused() or is_loss(error, self.checks.source)
            excused = excused or self._is_expired(error)
            outdated = driver.outdated or not self._applied
            outdated = outdated and isinstance(error, TidegateError) and error.code == "TG506"
            if isinstance(error, AssertionError) or not (excused or outdated):
                raise Wrong(f"a run failed that no fault has met: {told(error)}") from error
        except Exception as error:
            raise Wrong(f"a run failed as none may: {told(error)}") from error
        finally:
            self.outside.armed = False
        return False

    def _excused(self) -> bool:
        """Whether what happened before may still end a run: another driver, a file that is missing until later, a
        session whose view of a table is from before a fault."""
        return bool(self.outside.met) or any(isinstance(act, Together) for act in self._script.acts)

    def _end(self) -> None:
        """Faults end, and the next run makes everything good."""
        session = self._last()
        try:
            if self._script.pipeline.evolves and not self._carried_out(session):
                return
            restore(session, self.checks.source, self.world.broker)
            session.run()
            if not self.checks.exact:
                amend(session)
                if self._script.pipeline.upserts:
                    # (What has been delivered once is not delivered by a run that finds nothing new.)
                    session.run()
                    session.run()
            self._erase_last(session)
        except Wrong:
            raise
        except Exception as error:
            raise Wrong(f"the last run failed, which no fault has met: {told(error)}") from error
        self.checks.finish(session)
        self._upkeep(session)
        with self.outside.looking():
            audit(self.checks, session, self._in_whole)
            for name, view in self.checks.views.items() if not self.checks.exact else ():
                if view.windows is not None and name not in self.checks.mixed:
                    revisions(self.checks, session, view)

    def _carried_out(self, session: Session) -> bool:
        """Whether the last edits are. An edit that needs rows which have expired is refused (E5): then every row is
        still read and decided, and what readers see stays."""
        try:
            carry_out(session)
        except TidegateError as error:
            if not self._is_expired(error):
                raise
            session.run(self.checks.logs)
            self.checks.mixed.update(self.checks.views)
            self.checks.finish(session)
            self._upkeep(session)
            return False
        return True

    def _is_expired(self, error: Exception) -> bool:
        """Whether it says, rightly, that rows which an edit needs have expired."""
        return isinstance(error, TidegateError) and error.code == "TG534" and self.world.cleaned()

    def _erase_last(self, session: Session) -> None:
        """An erasure that was begun is finished, and what has come since goes, too; no row is read again."""
        act = self.checks.erasures.act
        if act is not None:
            self.checks.erasures.at_work = True
            take_out(replace(act, resumes=False), session)
            self.checks.erasures.ended()
            self.checks.erasures.at_work = False
            session.run()

    def _last(self) -> Session:
        """Of a new process, when all others have ended."""
        for driver in list(self.world.drivers):
            self.ended(driver)
        self.outside.pass_time(3600)
        self.outside.begin(len(self._script.acts))
        self.outside.driver = self.driver("c", True)
        session = self._sessions[self.outside.driver.name] = self.world.open()
        return session

    def _upkeep(self, session: Session) -> None:
        """What has been left behind goes, once it is old enough, and nothing else does."""
        self.outside.pass_time(100_000)
        try:
            keep(self.outside.now, True, session, together=self._in_whole)
        except Exception as error:
            raise Wrong(f"the last upkeep failed, which no fault has met: {told(error)}") from error
        leftovers.look(self.world, self.checks.pipeline)
        if self.checks.wrong is not None:
            raise self.checks.wrong
