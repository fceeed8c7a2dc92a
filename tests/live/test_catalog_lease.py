"""The right to run live mode for a group in a catalog that machines share (`live/catalog_lease.py`), with pyiceberg's
catalog over a database, on a clock that the test moves."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import catalogs
from tests.support.worlds import every_world
from tidegate.errors import TidegateError
from tidegate.iceberg.lease_tables import LeaseTables
from tidegate.live.catalog_lease import BEAT, EXPIRY, CatalogLeases, Seen, looked
from tidegate.project import Project
from tidegate.project.owner import Owner
from tidegate.project.storage import Storage


class Machine:
    """One supervisor's leases. Its signs of life are given by the test."""

    def __init__(self, storage: Storage, time: list[float]) -> None:
        self.storage = storage
        self.lost: list[str] = []
        # (Its own thread would count by a real clock.)
        self.leases = CatalogLeases(
            LeaseTables(storage), storage.owner, self.lost.append, lambda: time[0], beat=3600
        )
        self.taken = ExitStack()

    def takes(self, group: str) -> bool:
        try:
            self.taken.enter_context(self.leases.lease(group))
        except TidegateError as error:
            if error.code != "TG508":
                raise
            return False
        return True

    def counts(self) -> str | None:
        return self.leases.show()

    def tables(self) -> list[str]:
        return sorted(LeaseTables(self.storage).names())


@pytest.fixture
def storage(tmp_path: Path, catalog_server: None) -> Storage:
    """With the catalog that `make catalogs` has chosen, else one in SQLite."""
    given = catalogs.warehouse(tmp_path / "catalog.db")
    given = given or {"catalog": {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}}
    (tmp_path / "resources").mkdir()
    (tmp_path / "assets").mkdir()
    environment = {"warehouse": {"path": str(tmp_path / "w"), **given}}
    (tmp_path / "resources" / "local.yaml").write_text(json.dumps(environment))
    return Project.load(tmp_path).storage


@pytest.fixture
def time() -> list[float]:
    return [0.0]


def pass_time(time: list[float], seconds: float, *looking: Machine, group: str = "a") -> bool:
    """In steps of half a second, as `claimed` asks; whether one of those that look has got the lease."""
    end = time[0] + seconds
    while time[0] < end:
        time[0] += 0.5
        if any(machine.takes(group) for machine in looking):
            return True
    return False


def test_R2_a_lease_is_one_machines_until_it_gives_it_back_or_shows_no_sign_of_life(
    storage: Storage, tmp_path: Path, time: list[float]
) -> None:
    first, second, third = (Machine(storage, time) for _ in range(3))
    assert first.takes("a")
    assert first.takes("b")
    assert not second.takes("a")
    for _ in range(10):
        assert not pass_time(time, BEAT, second)
        assert first.counts() is None
    assert first.tables() == ["a$live_1", "b$live_1"]
    # It is killed: nothing is given back.
    began = time[0]
    assert pass_time(time, 60.0, second)
    assert EXPIRY <= time[0] - began <= EXPIRY + BEAT + 2.0
    # What it held beside is free in the same moment.
    assert second.takes("b")
    assert second.tables() == ["a$live_2", "b$live_2"]
    assert not third.takes("a")
    # It was not dead, but paused: it hears that it has lost them.
    assert first.counts() == "a"
    second.taken.close()
    assert second.tables() == []
    assert pass_time(time, 2.0, third)
    assert not list((tmp_path / "w").rglob("*live_2*"))


def test_R2_of_many_that_find_it_free_in_one_moment_one_gets_it(storage: Storage, time: list[float]) -> None:
    machines = [Machine(storage, time) for _ in range(6)]
    assert machines[0].tables() == []
    together = threading.Barrier(len(machines))
    got: list[bool] = []

    def takes(machine: Machine) -> None:
        together.wait(30)
        got.append(machine.takes("a"))

    threads = [threading.Thread(target=takes, args=(machine,)) for machine in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == [False] * 5 + [True]


def test_X3_in_another_projects_namespace_there_is_no_lease(storage: Storage, time: list[float]) -> None:
    first, second = (
        Machine(replace(storage, owner=Owner(name, "local")), time) for name in ("shop", "rival")
    )
    assert first.takes("a")
    with pytest.raises(TidegateError) as caught:
        second.takes("b")
    assert caught.value.code == "TG531"
    assert first.tables() == ["a$live_1"]


def test_the_files_of_a_holder_that_counts_for_long_stay_few(
    storage: Storage, tmp_path: Path, time: list[float]
) -> None:
    machine = Machine(storage, time)
    assert machine.takes("a")
    for _ in range(12):
        assert machine.counts() is None
    assert len(list((tmp_path / "w").rglob("*.metadata.json"))) <= 3


def test_a_catalog_that_does_not_answer_makes_nobody_dead(storage: Storage, time: list[float]) -> None:
    first, second = Machine(storage, time), Machine(storage, time)
    assert first.takes("a")
    assert not second.takes("a")

    real, time[0] = second.leases._tables, 2.0

    class Refusing(LeaseTables):
        def _ask(self, question: object) -> None:
            raise TidegateError("TG620", "the jdbc catalog does not answer: connection refused")

    second.leases._tables = Refusing(second.storage)
    with pytest.raises(TidegateError) as caught:
        second.takes("a")
    assert caught.value.code == "TG620"
    second.leases._tables = real
    time[0] += EXPIRY
    # It is looked at for as long again.
    assert not second.takes("a")
    assert first.counts() is None
    assert not pass_time(time, EXPIRY - 1, second)


def test_in_every_order_of_looks_a_holder_that_counts_is_alive() -> None:
    """It counts every three seconds, and is looked at whenever: at once, in time, or after a long pause."""

    def moves(world: tuple[Seen | None, float]) -> list[tuple[Seen | None, float]]:
        seen, now = world
        following: list[tuple[Seen | None, float]] = []
        for pause in (0.5, 1.5, 4.0, 60.0):
            at = now + pause
            if at > 70:
                continue
            after = looked(seen, str(int(at // BEAT)), at)
            assert not after.expired(at)
            following.append((after, at))
        return following

    assert sum(1 for _ in every_world((None, 0.0), moves)) > 20
    # One that does not count is dead when it was looked at for long enough, and not before.
    seen, at = looked(None, "7", 0.0), 0.0
    while not seen.expired(at):
        at += 1.5
        seen = looked(seen, "7", at)
    assert EXPIRY <= at <= EXPIRY + 1.5
