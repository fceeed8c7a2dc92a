"""What drivers do in a history beside running everything: upkeep, apply, erase; and how that may end."""

from __future__ import annotations

import traceback
from datetime import datetime

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationException

from tests.simulate.checks.topic_check import SourceTopic
from tests.simulate.checks.wrong import Wrong
from tests.simulate.scripts.erasures import Erase
from tests.simulate.world.broker import SOURCE_TOPIC, SimulatedBroker
from tests.simulate.world.workers import TaskError
from tidegate.errors import TidegateError
from tidegate.maintenance.erase import erase
from tidegate.maintenance.upkeep import maintain_all
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.apply import apply
from tidegate.session.session import Session
from tidegate.views.amend.rollback import rollback

#: How a run may end that faults have met. Anything else is a defect of the engine.
EXPECTED = (
    TidegateError,
    OSError,
    pa.ArrowException,
    CommitFailedException,
    CommitStateUnknownException,
    ValidationException,
    TaskError,
)


#: Seconds that no file rests, so that none is put together with others.
_NEVER = 10**9


def keep(
    now: datetime, orphans: bool, session: Session, guard: float | None = 0, together: bool = True
) -> None:
    """Upkeep, of tables that are small and snapshots that are young. `together`: it also puts files together."""
    policy = Policy(
        keep_snapshots=60,
        most_snapshots=3,
        compact_when_files=2,
        settle=0 if together else _NEVER,
        orphans_after=86_400,
    )
    maintain_all(session, policy=lambda _: policy, now=now.timestamp(), guard=guard, orphans=orphans)


def carry_out(session: Session) -> None:
    """Carry out whatever definitions were edited, and agree to what is replaced."""
    session.confirm = lambda what: True
    apply(session)


def go_back(view: str, session: Session) -> None:
    """To the version before, and agree to it. There may be none, or it may be of columns that have changed since, or of
    rows that have expired."""
    session.confirm = lambda what: True
    try:
        rollback(session, view)
    except TidegateError as error:
        if error.code not in ("TG201", "TG506", "TG543"):
            raise


def take_out(act: Erase, session: Session) -> None:
    """Erase what a condition finds, or finish what was begun, and agree to it."""
    session.confirm = lambda what: True
    where = None if act.resumes else act.where
    erase(session, "events", where, keep_aggregates=act.keeps, recompute=act.recomputes)


def is_loss(error: Exception, source: SourceTopic | None) -> bool:
    """Whether it says, rightly, that messages of a topic were gone before they were read."""
    if source is None or source.topic.record or not source.lost():
        return False
    return isinstance(error, TidegateError) and error.code == "TG552"


def restore(session: Session, source: SourceTopic | None, broker: SimulatedBroker) -> None:
    """TG552 stays until there is again what a topic has lost, where that is not recorded as a gap."""
    if source is None or source.topic.record:
        return
    lost = source.lost()
    try:
        session.run()
    except TidegateError as error:
        # (What a plan without a commit would read is known once this run has committed it.)
        if error.code != "TG552" or not source.lost():
            raise
        broker.restore(SOURCE_TOPIC)
    else:
        if lost:
            raise Wrong("TG552: messages are gone that were not read, and a run says nothing of it")


def told(error: BaseException) -> str:
    """An error, with where it came from."""
    lines = traceback.format_exception(error)
    return f"{type(error).__name__}: {error}\n{''.join(lines[-12:])}"
