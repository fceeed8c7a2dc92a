"""`tidegate show` beside `session.table` on Spark: the same rows, of every kind of table, types and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Workbench
from tidegate.amend.run import amend
from tidegate.console.values import show
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.runtime.result import Result
from tidegate.show import newest
from tidegate.show.newest import Newest, OnlySparkTells, newest_rows
from tidegate.store.rows import StoredRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.session.session import Session

#: A source with every type, and names that need quotes; tables whose rows change; views that close, show open windows
#: and sort.
ASSETS = {
    "odd": """CREATE SOURCE odd (ts TIMESTAMPTZ, "a b" VARCHAR, "Ünï`c" INT, big BIGINT, small SMALLINT, r REAL,
        f DOUBLE, d DATE, n DECIMAL(20, 4), b BOOLEAN, w TIMESTAMP, bin BYTEA, parts STRUCT<x INT, "y z" VARCHAR>,
        list INT[], WATERMARK FOR ts AS ts - INTERVAL '10 seconds')
        WITH (connector = 'filesystem', path = 'input') FORMAT PLAIN ENCODE JSON""",
    "closed": """CREATE MATERIALIZED VIEW closed AS SELECT window_end, "a b", count(*) AS c, sum(n) AS total
        FROM TUMBLE(odd, ts, INTERVAL '10 seconds') GROUP BY window_end, "a b" EMIT ON WINDOW CLOSE""",
    "opened": """CREATE MATERIALIZED VIEW opened AS SELECT window_start, max(f) AS f, min(d) AS d
        FROM TUMBLE(odd, ts, INTERVAL '10 seconds') GROUP BY window_start""",
    "sorted": """CREATE MATERIALIZED VIEW sorted AS SELECT ts, big, list FROM odd EMIT ON WINDOW CLOSE""",
    "plain": """CREATE MATERIALIZED VIEW plain AS SELECT "a b", max(w) AS w, count(*) AS c FROM odd GROUP BY "a b" """,
    "plans": "CREATE TABLE plans (name VARCHAR, country VARCHAR, price DECIMAL(8, 2), PRIMARY KEY (name, country))",
    "live": """CREATE TABLE live (k INT PRIMARY KEY, day DATE, v VARCHAR,
        WATERMARK FOR day AS day - INTERVAL '1 day' WITH TTL)""",
    "keyed": """CREATE TABLE keyed (k INT PRIMARY KEY, at TIMESTAMP, v INT,
        WATERMARK FOR at AS at - INTERVAL '10 seconds' WITH TTL)
        WITH (connector = 'filesystem', path = 'changes') FORMAT PLAIN ENCODE JSON""",
    "counted": "CREATE TABLE counted (n INT, at BIGINT, WATERMARK FOR at AS at - 5) APPEND ONLY",
    "minutes": """CREATE MATERIALIZED VIEW minutes AS SELECT window_end, sum(n) AS s
        FROM TUMBLE(counted, at, 10) GROUP BY window_end EMIT ON WINDOW CLOSE""",
}
NAMES = (
    *("odd", "odd$late", "odd$rejected", "odd$raw", "odd$watermarks"),
    *("closed", "opened", "sorted", "plain", "closed$revisions", "minutes", "minutes$revisions"),
    *(
        "keyed",
        "keyed$raw",
        "plans",
        "plans$raw",
        "live",
        "live$late",
        "live$watermarks",
        "counted",
        "counted$late",
        "counted$watermarks",
    ),
)
ONE = {
    "ts": "2026-01-01 00:00:00+00",
    "a b": "x",
    "Ünï`c": 1,
    "big": 2**60,
    "small": -3,
    "r": 0.1,
    "f": 1e300,
}
ONE |= {"d": "1999-12-31", "n": "-123.4500", "b": True, "w": "2026-01-01 00:00:00.000001", "bin": "AP8="}
ONE |= {"parts": {"x": 1, "y z": "é\n"}, "list": [1, None]}


def given(second: int, **other: Any) -> dict[str, Any]:
    minute, rest = divmod(second, 60)
    return ONE | {"ts": f"2026-01-01 00:{minute:02}:{rest:02}+00"} | other


def played(workbench: Workbench) -> Session:
    rows: list[Any] = [given(s, big=s, **{"a b": "xyz'\""[s % 5 :]}) for s in range(0, 50, 3)]
    workbench.assets(**ASSETS).json_lines("input/p=a/1.json", rows)
    # Of key 1 and 2 there is a row in each partition (T4), and 4 has expired.
    first = [(1, 40, 1), (2, 41, 2), (3, 42, 3), (4, 1, 4)]
    for partition, changes in {"a": first, "b": [(1, 43, 5), (2, 39, 6)]}.items():
        keyed = [{"k": k, "at": f"2026-01-01 00:00:{second:02}", "v": v} for k, second, v in changes]
        workbench.json_lines(f"changes/p={partition}/1.json", keyed)
    session = workbench.session()
    session.execute(
        """INSERT INTO plans VALUES ('basic', 'de', 1), ('basic', 'at', 2), ('pro', 'de', 9), ('basic', 'de', 3);
        INSERT INTO live VALUES (1, '2026-01-05', 'a'), (2, '2026-01-09', 'b'), (3, '2026-01-10', 'c');
        INSERT INTO counted VALUES (1, 1), (2, 12), (3, 30), (4, 2), (5, 19), (6, 44); FLUSH;
        DELETE FROM plans WHERE country = 'at'; UPDATE live SET v = 'changed' WHERE k = 2;
        INSERT INTO live VALUES (4, '2026-01-01', 'late'), (5, '2026-01-08', 'expired soon'), (6, '2026-01-12', 'f');
        DELETE FROM live WHERE k = 3"""
    )
    session.run()
    hostile = [given(90, f=None, r=None, n=None, b=None, list=None, parts=None, d="0001-01-01"), "no json"]
    hostile += [given(91, d="9999-12-31", w="9999-12-31 23:59:59"), given(5), given(92, **{"ts": None})]
    hostile += [given(93, f="NaN", r="NaN"), given(94, big=None, bin="", list=[], parts={"x": None})]
    workbench.json_lines("input/p=a/2.json", hostile)
    session.run()
    assert [r.windows for r in amend(session, ["closed", "minutes"])] == [1, 2]
    return session


def texts(rows: Any, types: Any) -> list[list[str]]:
    return sorted([show(v, t) for v, t in zip(row, types, strict=True)] for row in rows)


def of_spark(session: Session, name: str, conditions: Sequence[str] = ()) -> list[list[list[str]]]:
    """The rows of a table: all, and those for which each of the conditions is true."""
    true = "".join(f", ({condition}) AS c_{n}" for n, condition in enumerate(conditions))
    frame = session.execute(f'SELECT *{true} FROM "{name}"').dataframe if true else session.table(name)
    columns = len(frame.columns) - len(conditions)
    types = [field.dataType.simpleString() for field in frame.schema.fields][:columns]
    rows = Result(dataframe=frame).rows()
    kept = [rows, *([row for row in rows if row[columns + n]] for n in range(len(conditions)))]
    return [texts((row[:columns] for row in some), types) for some in kept]


CONDITIONS = {
    "odd": (
        *(
            "\"a b\" = 'x'",
            '"a b" > \'y\' OR "a b" IS NULL',
            "f > 1",
            "NOT f <= 1",
            "f <> 1",
            "r < 0.5",
            "r IN (0.1, 2)",
        ),
        *(
            "ts >= '2026-01-01 00:00:30'",
            "ts < TIMESTAMPTZ '2026-01-01 01:00:20+01'",
            "ts > DATE '2025-12-31'",
        ),
        *(
            "d BETWEEN '1999-01-01' AND '2000-01-01'",
            "d = DATE '9999-12-31'",
            "n = -123.45",
            "n < 0",
            "n > -123.46",
        ),
        *("n IN (-123.45, 1)", "b", "NOT b", "b = TRUE", "w >= '2026-01-01'", "w IS NULL", "parts IS NULL"),
        *(
            "5 < big",
            "big <> small",
            "big > 1.5",
            "big NOT IN (3, 6)",
            "small = -3",
            "$offset > 3",
            "$partition = 'a'",
        ),
        *(
            "list IS NOT NULL",
            "bin IS NOT NULL AND (big > 10 AND big <= 20 OR NOT (d < '2000-01-01'))",
        ),
    ),
    "odd$raw": (
        "outcome = 'late'",
        "reason IS NOT NULL",
        "ts IS NULL",
        "offset >= 2 AND outcome <> 'on_time'",
    ),
    "odd$watermarks": ("partition IS NULL", "late > 0", "watermark >= '2026-01-01 00:00:20'", "epoch = 1"),
    "closed": ("window_end <= '2026-01-01 00:00:20'", "total < -200.5", "c > 1"),
    "live": ("day > '2026-01-08'", "v = 'changed'"),
    "counted$late": ("late_by > 10", '"at" = 2'),
    "keyed": ("v > 2", "v <= 2", "k = 1"),
    "plans": ("price >= 3.5", "country = 'de' AND name < 'c'"),
}


@pytest.mark.long_run
def test_show_says_what_spark_says(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    session, project = played(workbench), Project.load(workbench.root)
    for name in NAMES:
        found, (expected,) = newest_rows(project, name, limit=1000), of_spark(session, name)
        assert texts(found.rows, found.types) == expected, name
        assert found.columns == session.table(name).columns
        assert found.total == len(expected) > 0, name
    for name, conditions in CONDITIONS.items():
        _, *expected = of_spark(session, name, conditions)
        for where, rows in zip(conditions, expected, strict=True):
            found = newest_rows(project, name, where, limit=1000)
            assert texts(found.rows, found.types) == rows, (name, where)
    # A few of many: the newest, and how many there are, whatever is skipped.
    for name in NAMES:
        whole = newest_rows(project, name, limit=1000)
        for limit in (0, 1, 2):
            found = newest_rows(project, name, limit=limit)
            # As texts: NaN is not equal to itself.
            assert (repr(found.rows), found.total) == (repr(whole.rows[:limit]), whole.total), (name, limit)
    monkeypatch.setattr(newest, "MOST_COUNTED", 0)
    assert newest_rows(project, "odd", "\"a b\" = 'x'", limit=1).total is None


@pytest.mark.runner("inprocess")
def test_show_reads_no_more_files_than_it_needs(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(counted=ASSETS["counted"], minutes=ASSETS["minutes"])
    session, project = workbench.session(), Project.load(workbench.root)
    assert newest_rows(project, "counted") == Newest(["n", "at"], ["int", "bigint"], [], 0, exists=False)
    for n in range(6):
        session.execute(f"INSERT INTO counted VALUES ({n}, {10 * n}); FLUSH")
    opened: list[int] = []
    batches = StoredRows.batches

    def counting(self: StoredRows, *given: Any) -> Any:
        opened.append(1)
        return batches(self, *given)

    monkeypatch.setattr(StoredRows, "batches", counting)
    found = newest_rows(project, "counted", limit=2)
    assert (found.rows, found.total, len(opened)) == ([(5, 50), (4, 40)], 6, 2)
    opened.clear()
    # By the bounds of the condition's column Iceberg knows that one file is enough.
    found = newest_rows(project, "counted", "at <= 5", limit=2)
    assert (found.rows, found.total, len(opened)) == ([(0, 0)], 1, 1)

    files, gone = StoredRows.files, iter([FileNotFoundError("expired meanwhile")])

    def expired(self: StoredRows, *given: Any) -> Any:
        for error in gone:
            raise error
        return files(self, *given)

    monkeypatch.setattr(StoredRows, "files", expired)
    assert len(newest_rows(project, "minutes").rows) == 4, "it is read again, as it is now"


@pytest.mark.runner("inprocess")
def test_TG705_what_only_spark_can_tell(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    played = {"keyed": ASSETS["keyed"], "counted": ASSETS["counted"]}
    workbench.assets(**played).json_lines(
        "changes/p=a/1.json", [{"k": 1, "at": "2026-01-01 00:00:00", "v": 1}]
    )
    workbench.session().run()
    project = Project.load(workbench.root)

    def code(name: str, where: str | None = None) -> str:
        with pytest.raises((TidegateError, OnlySparkTells)) as caught:
            newest_rows(project, name, where)
        return "TG705" if isinstance(caught.value, OnlySparkTells) else caught.value.code

    for where in (
        "n + 1 > 2",
        "abs(n) = 1",
        "at > 'x'",
        "n LIKE 'a'",
        "n = NULL",
        "counted.n = 1",
        "n > 1e3",
        "n",
    ):
        assert code("counted", where) == "TG705", where
    assert [code("counted", "x = 1"), code("counted", "n ="), code("nobody")] == ["TG202", "TG102", "TG201"]
    monkeypatch.setattr(newest, "MOST_KEYS", 0)
    assert code("keyed") == "TG705"
    workbench.assets(keyed=ASSETS["keyed"].replace("v INT", "w INT"))
    project = Project.load(workbench.root)
    assert code("keyed") == "TG705", "it is stored with another definition"
