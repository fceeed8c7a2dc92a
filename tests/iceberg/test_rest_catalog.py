"""A REST catalog over HTTP: what becomes of commits when answers are lost, and of a login that ends.

The server is Iceberg's own adapter (`infra/rest_catalog`); what fails does so in a proxy, when a test says so.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tests.inprocess.test_conformance import EPOCH, added, made, shown
from tests.inprocess.test_conformance_statements import merge
from tests.support.catalogs import CREDENTIAL, RestServer, rest_server
from tests.support.faulty_http import Act, answer, delay, lose_answer, lose_request, truncate
from tests.support.rest_proxy import CLIENT, after, refuse
from tidegate.audit.stored_files import verify_all
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.disk import trouble
from tidegate.store.listing import table_names
from tidegate.store.metadata import load_table, read_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tidegate.session.session import Session

pytestmark = pytest.mark.jvm

SOURCE = """
CREATE SOURCE readings (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second')
WITH (connector = 'filesystem', path = 'input', max_files_per_batch = '1') FORMAT PLAIN ENCODE JSON;
"""
#: The commit is stored, and whoever made it hears something else. The last one makes Iceberg's client ask again.
LOST = (
    lose_answer,
    *(after(refuse(status)) for status in (500, 502, 503, 504)),
    after(refuse(503, Retry_After="0")),
)
#: It is not stored, and nobody can tell.
UNKNOWN = (lose_request, *(refuse(status) for status in (500, 502, 503, 504)))
#: Of both, for statements: each is three commits, and `make property` has all of them.
LOST_IN_STATEMENTS, UNKNOWN_IN_STATEMENTS = (
    (LOST, UNKNOWN) if os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough" else (LOST[::3], UNKNOWN[::3])
)


@pytest.fixture(scope="module")
def rest(spark: SparkSession) -> Iterator[RestServer]:
    with rest_server() as server:
        yield server


@pytest.fixture
def workbench(rest: RestServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("rest") / "project", spark).with_catalog(rest.project())


@pytest.fixture
def session(workbench: Workbench) -> Session:
    opened = workbench.session()
    opened.spark.sql("CREATE NAMESPACE IF NOT EXISTS tidegate.main")
    return opened


def name_of(session: Session) -> str:
    """Under which name the proxy knows the project's catalog."""
    return str(session.project.storage.settings.catalog.uri).rpartition("/")[2]


def test_R1_a_commit_whose_answer_is_lost_is_found_and_its_files_stay(
    session: Session, rest: RestServer
) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    # A success is one, whatever is in its answer, which repeats the whole metadata; but not if it breaks off.
    for number, act in enumerate((*LOST, truncate(100), after(answer(200, b"no metadata")))):
        rest.proxy.next_commit(act)
        snapshot = added(session, table, [(number, "a", False)], facts={EPOCH: str(number)})
        assert rest.proxy.waiting == 0, number
        now = table.current()
        assert (now.id, now.integer(EPOCH), len(table.snapshot_ids())) == (snapshot, number, number + 1), (
            number
        )
    assert shown(session, identifier) == [(number, "a", False) for number in range(len(LOST) + 2)]


def test_R1_a_commit_of_which_nothing_is_known_is_no_success_and_the_next_one_goes_on(
    session: Session, rest: RestServer
) -> None:
    identifier = made(session)
    table = session.tables.open(identifier)
    for number, act in enumerate(UNKNOWN):
        rest.proxy.next_commit(act)
        with pytest.raises(TidegateError, match="did not say whether the commit is stored") as caught:
            added(session, table, [(99, "never", False)])
        assert (caught.value.code, rest.proxy.waiting) == ("TG620", 0), number
        added(session, table, [(number, "a", False)])
    assert shown(session, identifier) == [(number, "a", False) for number in range(len(UNKNOWN))]


def test_R1_a_statement_is_stored_as_a_whole_or_not_at_all_whatever_is_answered(
    session: Session, rest: RestServer
) -> None:
    """It makes three commits: its branch, its rows, and the branch's snapshot as the table's."""
    identifier = made(session)
    table = session.tables.open(identifier)
    added(session, table, [(0, "a", False)])
    for number, act in enumerate(LOST_IN_STATEMENTS, 1):
        rest.proxy.next_commit(delay(0), delay(0), act)
        merge(session, table, number, str(number), table.current())
        assert rest.proxy.waiting == 0, number
    there = list(range(1, len(LOST_IN_STATEMENTS) + 1))
    for act in (*LOST_IN_STATEMENTS, *UNKNOWN_IN_STATEMENTS):
        for before in range(2 if act in LOST_IN_STATEMENTS else 3):
            number = there[-1] + 1
            rest.proxy.next_commit(*[delay(0)] * before, act)
            # (Iceberg's client asks again by itself after some failures.)
            with suppress(Exception):
                merge(session, table, number, str(number), table.current())
                there.append(number)
            assert rest.proxy.waiting == 0
            assert shown(session, identifier) == [(0, "a", False), *((n, "m", False) for n in there)]
            assert table.current().integer(EPOCH) == there[-1]
    assert len(there) < 3 * len(LOST_IN_STATEMENTS) + 3 * len(UNKNOWN_IN_STATEMENTS)


@pytest.mark.long_run
def test_R1_a_deletion_has_happened_or_has_not_whatever_is_answered(
    session: Session, rest: RestServer
) -> None:
    """As rows of a table with a TTL are deleted: the same three commits as those of a MERGE."""
    identifier = made(session)
    table = session.tables.open(identifier)
    left: list[tuple[int, str | None, bool | None]] = [(number, "a", False) for number in range(40)]
    added(session, table, left, facts={EPOCH: "0"})
    for number, (act, before) in enumerate(
        [*((a, 2) for a in LOST_IN_STATEMENTS), *((a, b) for a in UNKNOWN_IN_STATEMENTS for b in (1, 2))]
    ):
        rest.proxy.next_commit(*[delay(0)] * before, act)
        with nullcontext() if act in LOST_IN_STATEMENTS else suppress(Exception):
            table.delete_rows(f"`id` = {left[0][0]}", {EPOCH: str(number + 1)}, table.current())
            left = left[1:]
        assert rest.proxy.waiting == 0
        assert shown(session, identifier) == left, number
    assert 40 - len(left) >= len(LOST_IN_STATEMENTS)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lose_answer, id="nothing is heard", marks=pytest.mark.long_run),
        pytest.param(LOST[-1], id="it is asked twice"),
    ],
)
def test_R1_upkeep_whose_commit_is_not_answered_keeps_the_manifests_of_what_is_stored(
    session: Session, rest: RestServer, act: Act
) -> None:
    """Iceberg's own updates would take what they have stored for another one's, and remove it."""
    identifier = made(session)
    table, rows = session.tables.open(identifier), [(number, "a", False) for number in range(6)]
    for number, row in enumerate(rows):
        added(session, table, [row], facts={EPOCH: str(number)})
    keeper = session.tables.upkeep(identifier)
    rest.proxy.next_commit(act)
    assert keeper.compact() == (6, 1)
    assert (rest.proxy.waiting, keeper.shape().files, shown(session, identifier)) == (0, 1, rows)
    added(session, table, [(6, "b", False)], facts={EPOCH: "6"})
    rest.proxy.next_commit(act)
    keeper.merge_manifests()
    assert (rest.proxy.waiting, keeper.manifests()) == (0, 1)
    (path,) = (row.file_path for row in keeper.data_files("_window_end").where("newest = 6").collect())
    rest.proxy.next_commit(act)
    keeper.remove_files([path], {"tidegate.checked": "1"})
    assert (rest.proxy.waiting, shown(session, identifier)) == (0, rows)
    assert table.current().integer(EPOCH) == 6
    assert table.property("tidegate.checked") == "1"


def test_R2_a_conflict_is_one_and_a_late_answer_is_none(session: Session, rest: RestServer) -> None:
    identifier = made(session)
    table, late = session.tables.open(identifier), session.tables.open(identifier)
    base = late.current()
    # Others have committed something that is no conflict: Iceberg's client asks again.
    rest.proxy.next_commit(refuse(409), delay(1.0))
    added(session, table, [(1, "a", False)])
    assert (rest.proxy.waiting, len(table.snapshot_ids())) == (0, 1)
    with pytest.raises(TidegateError) as caught:
        added(session, late, [(2, "b", False)], base)
    assert caught.value.code == "TG502"
    assert shown(session, identifier) == [(1, "a", False)]


def test_a_commit_costs_one_request(session: Session, rest: RestServer) -> None:
    table = session.tables.open(made(session))
    added(session, table, [(1, "a", False)])
    base = table.current()
    before = len(rest.proxy.seen)
    table.append([], None, {EPOCH: "2"}, base)
    assert [asked.method for asked in rest.proxy.seen[before:]] == ["POST"]


def test_a_token_is_renewed_before_it_ends(session: Session, workbench: Workbench, rest: RestServer) -> None:
    usual, rest.proxy.lifetime_s = rest.proxy.lifetime_s, 1
    try:
        short = workbench.with_catalog(rest.project()).session()
        name = name_of(short)
        table = short.tables.open(made(short))
        first = rest.proxy.tokens(name)
        deadline = time.monotonic() + 60
        while rest.proxy.tokens(name) == first and time.monotonic() < deadline:
            time.sleep(0.1)
        rest.proxy.revoke(first)
        added(short, table, [(1, "a", False)])
        assert len(rest.proxy.tokens(name)) > len(first)
    finally:
        rest.proxy.lifetime_s = usual


def test_the_first_table_makes_its_namespace_and_others_find_it(workbench: Workbench) -> None:
    """A server wants it to be there, and whoever comes first makes it."""
    one, other = workbench.session(), workbench.session()
    with pytest.raises(Exception, match="Namespace main does not exist"):
        one.spark.sql("CREATE TABLE tidegate.main.t (id INT) USING iceberg")
    made(one, "first")
    made(other, "second")
    assert table_names(Project.load(workbench.root).storage, "main") == ["first", "second"]


@pytest.mark.long_run
def test_a_run_goes_on_after_a_lost_answer_and_after_a_login_that_was_refused(
    workbench: Workbench, rest: RestServer
) -> None:
    workbench.assets(readings=SOURCE)
    for number in range(3):
        workbench.json_lines(f"input/{number}.json", [{"id": number, "ts": f"2026-01-01 00:00:0{number}"}])
    session = workbench.session()
    rest.proxy.next_commit(lose_answer)
    session.run()
    assert rest.proxy.waiting == 0
    workbench.json_lines("input/3.json", [{"id": 3, "ts": "2026-01-01 00:00:03"}])
    rest.proxy.fail("*", "/v1/", refuse(401))
    with pytest.raises(Exception) as caught:
        session.run()
    refused = caught.value if isinstance(caught.value, TidegateError) else trouble(caught.value)
    assert isinstance(refused, TidegateError)
    assert refused.code == "TG620"
    session.run()
    assert sorted(session.execute("SELECT id FROM readings")) == [(0,), (1,), (2,), (3,)]
    # `tidegate status` asks through pyiceberg, with the same login, and starts no JVM.
    storage = Project.load(workbench.root).storage
    table = load_table(storage, "readings")
    assert table is not None
    assert (table.integer("tidegate.epoch"), table_names(storage, "main")) == (4, ["readings"])
    assert read_progress(storage, table)[0].next_offset == 4
    # Also the state of a table, which has another version of Iceberg's format.
    session.execute("CREATE TABLE prices (k INT PRIMARY KEY, v INT); INSERT INTO prices VALUES (1, 10)")
    storage = session.project.storage
    found = list(verify_all(storage, session.project.owner))
    assert [(one.name, one.ok) for one in found] == [
        ("prices", True),
        ("prices$state", True),
        ("readings", True),
    ]


def test_X4_neither_the_secret_nor_a_token_is_told(
    workbench: Workbench,
    rest: RestServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    workbench.assets(readings=SOURCE).json_lines("input/0.json", [{"id": 0, "ts": "2026-01-01 00:00:00"}])
    session = workbench.session()
    told = [repr(session.run())]
    name = name_of(session)
    told += [str(row) for row in session.spark.sql("SET").collect()]
    rest.proxy.revoke(rest.proxy.tokens(name))
    with pytest.raises(Exception) as caught:
        session.tables.open(session.identifier("readings"))
    told += [str(caught.value), str(trouble(caught.value))]
    load_table(Project.load(workbench.root).storage, "readings")
    wrong = "aWrongSecretzqxj"
    monkeypatch.setenv(CREDENTIAL, f"{CLIENT}:{wrong}")
    for asks in (workbench.session, lambda: load_table(Project.load(workbench.root).storage, "readings")):
        with pytest.raises(TidegateError) as refused:
            asks()
        assert refused.value.code == "TG620"
        told.append(f"{refused.value} {refused.value.hint}")
    told += [
        file.read_bytes().decode(errors="replace") for file in workbench.root.rglob("*") if file.is_file()
    ]
    told += [caplog.text, *capfd.readouterr()]
    assert len(rest.proxy.tokens(name)) >= 2
    assert os.environ[CREDENTIAL].endswith(wrong)
    for secret in (rest.proxy.secret, wrong, *rest.proxy.tokens(name)):
        assert not [text[:300] for text in told if secret in text]
