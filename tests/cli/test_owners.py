"""Owners (X3): two projects, and two environments of one, on one warehouse. Who does not own a table reads at most."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.owner import ADOPTED, OWNER, Owner
from tidegate.session.live import LiveGroup
from tidegate.session.session import Session
from tidegate.store.metadata import load_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """\
CREATE TABLE orders (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
CREATE TABLE prices (id BIGINT PRIMARY KEY, at TIMESTAMP, WATERMARK FOR at AS at WITH TTL);
CREATE SOURCE clicks (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at)
WITH (connector = 'filesystem', path = 'in') FORMAT PLAIN ENCODE JSON;
"""
VIEW = """\
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, count(*) AS n FROM TUMBLE(orders, at, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
SINK = "CREATE SINK kept FROM hourly WITH (connector = 'iceberg', table = 'kept');\n"
#: Each command that may change what is stored, against tables of somebody else.
WRITES: dict[str, list[list[str]]] = {
    "run": [["clicks"], ["hourly"], ["kept"], []],
    "amend": [["hourly"]],
    "apply": [["hourly"], []],
    "rebuild": [["hourly"]],
    "rollback": [["hourly", "--yes"]],
    "cleanup": [["prices"], []],
    "upkeep": [["orders"], ["prices"], ["hourly"], []],
    "erase": [["clicks", "WHERE id = 1", "--yes"]],
    "sql": [
        ["-c", statement]
        for statement in (
            "INSERT INTO orders VALUES (9, '2027-01-01 00:00:00')",
            "INSERT INTO orders SELECT id, at FROM prices",
            "UPDATE prices SET at = '2027-01-01 00:00:00'",
            "DELETE FROM prices WHERE id = 1",
            "FLUSH",
            "DROP TABLE prices",
            "DROP SOURCE clicks",
            "DROP MATERIALIZED VIEW hourly",
            "ALTER SOURCE clicks RESET WATERMARK TO '2026-01-01 00:00:00'",
            "ALTER TABLE prices ADD COLUMN note VARCHAR",
            "CREATE TABLE more (id BIGINT); INSERT INTO more VALUES (1)",
        )
    ],
}
#: The others: they read, or write into the project's own folder only.
READS = {
    "init",
    "audit",
    "backup",
    "verify",
    "check",
    "explain",
    "plan",
    "show",
    "status",
    "why",
    "late",
    "advise",
    "quality",
    "docs",
    "doctor",
    "ui",
    "test",
    "alerts",
}
#: What the parametrised test can't call: they go on for ever; it asks, and is what makes others the owner; it is for
#: namespaces without tables of others (`tests/maintenance/test_catalog_move.py`); it needs a branch
#: (`tests/views/test_promote.py`).
ELSEWHERE = {"live", "reload", "warm", "adopt", "catalog", "promote"}


def project(folder: Path, warehouse: Path, view: str = VIEW, **environments: str) -> Path:
    for name in ("assets", "resources", "in"):
        (folder / name).mkdir(parents=True)
    (folder / "in" / "a.json").write_text('{"id": 1, "at": "2026-03-01 09:10:00"}\n')
    (folder / "assets" / "sources.sql").write_text(SOURCES)
    (folder / "assets" / "views.sql").write_text(view + SINK)
    for name, more in ({"local": ""} | environments).items():
        text = f"{more}warehouse: {{path: {warehouse}}}\n"
        (folder / "resources" / f"{name}.yaml").write_text(text)
    return folder


class Place:
    """A warehouse with tables of project `shop`, and ways to open and call it."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.warehouse, self._spark = folder / "warehouse", spark
        self.shop = project(folder / "shop", self.warehouse, other="")
        changed = VIEW.replace("count(*) AS n", "count(*) AS n, sum(id) AS ids")
        self.rival = project(folder / "rival", self.warehouse, changed)
        with self.open(self.shop) as session:
            session.execute("INSERT INTO prices VALUES (1, '2026-03-01 09:10:00')")
            session.execute(
                "INSERT INTO orders VALUES (1, '2026-03-01 09:10:00'), (2, '2026-03-01 10:10:00')"
            )
            session.run()

    def open(self, root: Path, env: str = "local") -> Session:
        return Session.open(project=Project.load(root, env), spark=self._spark)

    def files(self) -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in self.warehouse.rglob("*") if p.is_file()}

    def properties(self, name: str) -> dict[str, str]:
        found = load_properties(Project.load(self.shop).storage, name)
        assert found is not None
        return dict(found)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Place:
    return Place(tmp_path_factory.mktemp("owners"), spark)


@pytest.fixture
def tidegate(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    monkeypatch.setattr(Session, "open", partial(Session.open, spark=spark))
    handler = signal.getsignal(signal.SIGINT)
    yield lambda *arguments: CliRunner().invoke(app, list(arguments))
    signal.signal(signal.SIGINT, handler)
    logging.disable(logging.NOTSET)


def test_every_command_is_known_to_read_or_to_write() -> None:
    assert set(get_command(app).commands) == {*WRITES, *READS, *ELSEWHERE}  # type: ignore[attr-defined]


CASES = [(command, arguments) for command, every in WRITES.items() for arguments in every]


@pytest.mark.spark
@pytest.mark.parametrize(("command", "arguments"), CASES, ids=[" ".join([c, *a]) for c, a in CASES])
def test_X3_no_command_changes_a_neighbour_s_table(
    command: str, arguments: list[str], place: Place, tidegate: Callable[..., Any]
) -> None:
    before = place.files()
    neighbours = [(place.rival, "local", "rival"), (place.shop, "other", "shop")]
    for root, env, name in neighbours if command not in ("apply", "rebuild") else neighbours[:1]:
        done = tidegate(command, "--project", str(root), "--env", env, *arguments)
        said = done.output.replace("\n", " ")
        assert "TG531" in said, said
        assert 'belongs to project "shop" in environment "local"' in said
        assert f'this is project "{name}" in environment "{env}"' in said
        assert done.exit_code in (1, 2)
    assert place.files() == before


@pytest.mark.spark
def test_X3_an_audit_recounts_a_neighbour_s_logs_and_writes_nothing(
    place: Place, tidegate: Callable[..., Any]
) -> None:
    before = place.files()
    for root, env in ((place.rival, "local"), (place.shop, "other")):
        done = tidegate("audit", "orders", "clicks", "prices", "--project", str(root), "--env", env)
        assert (done.exit_code, done.output.count("the audit found no differences")) == (0, 3), done.output
    assert place.files() == before


@pytest.mark.spark
def test_X3_live_ends_and_the_python_api_refuses(place: Place) -> None:
    before = place.files()
    with place.open(place.rival) as session:
        attempts: list[Callable[[], object]] = [
            lambda: LiveGroup(session, None, "all", None, lambda: False).__enter__(),
            lambda: session.forget("orders"),
            lambda: session.log(session.relation("orders")),
        ]
        for attempt in attempts:
            with pytest.raises(TidegateError) as caught:
                attempt()
            assert caught.value.code == "TG531"
        # Reading is everybody's.
        assert session.execute("SELECT id FROM orders ORDER BY id").rows() == [(1,), (2,)]
    assert place.files() == before


@pytest.mark.spark
def test_drop_says_what_goes_and_asks(place: Place) -> None:
    asked: list[str] = []
    with place.open(place.shop) as session:
        with pytest.raises(TidegateError) as caught:
            session.execute("DROP MATERIALIZED VIEW hourly")
        assert caught.value.code == "TG511"
        session.execute("CREATE MATERIALIZED VIEW shown AS SELECT * FROM orders EMIT ON WINDOW CLOSE")
        before = place.files()
        session.confirm = lambda text: bool(asked.append(text))
        for name, what in (("shown", "1 final; 1 file,"), ("clicks", "1 on time; 2 files,")):
            kind = "SOURCE" if name == "clicks" else "MATERIALIZED VIEW"
            with pytest.raises(TidegateError, match="can't be restored") as caught:
                session.execute(f"DROP {kind} {name}")
            assert (caught.value.code, caught.value.location is not None) == ("TG533", True)
            assert f"{name}: rows: {what}" in asked.pop()
        assert place.files() == before
        session.execute("DROP MATERIALIZED VIEW shown", yes=True)
        assert session.confirm is not None
        assert session.stored("shown") is None
        # Nothing is asked where there is no row, nor in a temporary project.
        session.confirm = None
        session.execute("CREATE TABLE empty (id INT) APPEND ONLY; DROP TABLE empty")
        made = Session.open(project=Project.temporary(), spark=session.spark)
        with made as temporary:
            temporary.execute("CREATE TABLE t (id INT) APPEND ONLY; INSERT INTO t VALUES (1); DROP TABLE t")


@pytest.mark.spark
def test_X3_adopt_moves_a_table_on_record_and_whoever_had_it_can_t_go_on(
    place: Place, tidegate: Callable[..., Any]
) -> None:
    row = "INSERT INTO orders VALUES (3, '2026-03-01 11:10:00')"
    shop = place.open(place.shop)
    running = shop.log(shop.relation("orders"))
    call = partial(tidegate, "adopt", "orders", "prices", "--project", str(place.rival))
    refused = call()
    assert (refused.exit_code, "TG532" in refused.stderr) == (2, True)
    assert 'orders: project "shop" in environment "local"' in refused.stderr
    moved = json.loads(call("--yes", "--json").stdout)
    assert [m["table"] for m in moved["adopted"]] == ["orders", "prices$state", "prices"]
    assert moved["owner"] == {"project": "rival", "environment": "local"}
    assert call("--yes").stdout.startswith("nothing to adopt")
    (record,) = json.loads(place.properties("orders")[ADOPTED])
    assert record["from"] == {"project": "shop", "environment": "local"}
    # Also one that has the table open for writing, as live does.
    with pytest.raises(TidegateError, match='belongs to project "rival"') as caught:
        running.table.current()
    assert caught.value.code == "TG531"
    with pytest.raises(TidegateError, match='belongs to project "rival"'):
        shop.execute(row)
    with place.open(place.rival) as session:
        session.execute(row)
        assert session.execute("SELECT count(*) AS n FROM orders").rows() == [(3,)]
    # A table of a release that knew no owners: the first writer takes it, on record; nothing is built anew.
    spark_shop = place.open(place.shop)
    spark_shop.spark.sql(f"ALTER TABLE {spark_shop.identifier('clicks')} UNSET TBLPROPERTIES ('{OWNER}')")
    place.open(place.shop).run(["clicks"])
    (place.shop / "in" / "b.json").write_text('{"id": 2, "at": "2026-03-01 09:20:00"}\n')
    place.open(place.shop).run(["clicks"])
    found = place.properties("clicks")
    assert Owner.of_text(found[OWNER]) == Owner("shop", "local")
    assert json.loads(found[ADOPTED])[0]["from"] is None


def test_X3_two_checkouts_are_one_owner_and_two_projects_are_not(tmp_path: Path) -> None:
    for name, text in (("a", "project: flights\n"), ("b", "project: flights\n"), ("c", "")):
        project(tmp_path / name, tmp_path / "warehouse", local=text)
    a, b, c = (Project.load(tmp_path / name).owner for name in "abc")
    assert a == b == Owner("flights", "local")
    assert c == Owner("c", "local")
    (tmp_path / "a" / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev}\n")
    branch = Project.load(tmp_path / "a", "dev")
    assert branch.owner == branch.storage.owner == Owner("flights", "dev")
    assert Owner.of_text(a.to_text()) == a
    assert Owner.of_text(None) is None
    # What was written by hand is nobody who could write.
    assert Owner.of_text("flights") not in (a, None)
