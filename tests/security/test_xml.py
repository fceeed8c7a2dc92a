"""X1: a text of XML is read, and nothing that it names."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from pydantic import BaseModel

from tests.sql.support import prelude
from tests.sql.test_trust import PLACES
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.session.session import Session
from tidegate.sql import analyse
from tidegate.sql.dialect.attempts import without_attempts
from tidegate.sql.dialect.functions import spark_functions
from tidegate.sql.dialect.query import Query
from tidegate.sql.statements.statements import Select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FUNCTIONS = sorted(name for name in spark_functions() if "xpath" in name)


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """An address, and what it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


@pytest.mark.spark
def test_X1_a_document_type_is_not_fetched(asked: tuple[str, list[str]], spark: SparkSession) -> None:
    address, paths = asked
    evil = [
        f'<!DOCTYPE a SYSTEM "{address}/dtd"><a>1</a>',
        f'<?xml version="1.0"?>\n<!DOCTYPE a PUBLIC "x" "{address}/public" []><a>1</a>',
        f'<!-- --><!DOCTYPE a [<!ENTITY % x SYSTEM "{address}/entity"> %x;]><a>1</a>',
        f'<!DOCTYPE a [<!ENTITY x SYSTEM "{address}/general">]><a>&x;</a>',
        '<!DOCTYPE a SYSTEM "file:///etc/hostname"><a>1</a>',
    ]
    good = "<?xml version='1.0'?><!-- DOCTYPE --><a>1</a>"
    with Session.open(project=Project.temporary(), spark=spark) as session:
        session.execute(
            "CREATE TABLE texts (i INT, t VARCHAR, at TIMESTAMP, n VARCHAR AS xpath_string(t, 'a'), "
            "WATERMARK FOR at AS at) APPEND ONLY"
        )
        found = ", ".join(f"{name}(t, 'a') IS NULL AS {name}" for name in FUNCTIONS)
        session.execute(
            f"CREATE MATERIALIZED VIEW v AS SELECT i, at, n, {found} FROM texts EMIT ON WINDOW CLOSE"
        )
        quoted = (text.replace("'", "''") for text in (good, *evil))
        values = ", ".join(f"({i}, '{text}', '2026-01-01')" for i, text in enumerate(quoted))
        session.execute(f"INSERT INTO texts VALUES {values}")
        session.execute("INSERT INTO texts VALUES (9, 'x', '2026-01-02'); FLUSH")
        rows = session.execute("SELECT * FROM v ORDER BY i").rows()
        assert [row[2] for row in rows] == ["1", *[None] * len(evil)]
        assert [row[3:] for row in rows[1:]] == [(True,) * len(FUNCTIONS)] * len(evil)
        assert not any(rows[0][3:])
        for text in evil:
            for query in (
                f"SELECT xpath_string('{text}', 'a')",
                f"SELECT xpath(t, 'a') FROM texts WHERE t = '{text}'",
            ):
                # An empty text is NULL to Spark.
                with suppress(TidegateError, Py4JError):
                    assert session.execute(query).rows() == [(None,)]
        assert session.execute("SELECT xpath_int(t, 'a') FROM texts WHERE i = 0").rows() == [(1,)]
    assert paths == []


def test_every_function_of_xml_is_known() -> None:
    """A new one has to be looked at."""
    kinds = ["boolean", "double", "float", "int", "long", "number", "short", "string"]
    assert ["xpath", *(f"xpath_{kind}" for kind in kinds)] == FUNCTIONS
    for name in FUNCTIONS:
        (select,) = analyse(f"SELECT upper({name.upper()}(concat('<', name), 'a')) FROM customers", prelude())
        assert isinstance(select, Select)
        cut = f"{name.upper()}(substring_index(concat('<', `name`), r'<!DOCTYPE', 1), 'a')"
        assert cut in select.spark_sql


PARTS = re.compile(r"xpath\w*\((?!substring_index\(.*?, r'<!DOCTYPE', 1\))", re.IGNORECASE)


def texts(found: object, seen: set[int]) -> Iterator[str]:
    """All texts for Spark in what a statement was analysed to."""
    if id(found) in seen:
        return
    seen.add(id(found))
    if isinstance(found, str | Query):
        yield str(found)
    elif isinstance(found, dict):
        yield from (text for value in found.values() for text in texts(value, seen))
    elif isinstance(found, list | tuple | frozenset):
        yield from (text for value in found for text in texts(value, seen))
    elif is_dataclass(found) or isinstance(found, BaseModel):
        # (No dict is made of them: what has gone leaves its id to another.)
        yield from (text for k, v in vars(found).items() if k not in WRITTEN for text in texts(v, seen))


#: As people wrote it.
WRITTEN = ("definition", "description", "location", "expression", "written", "before", "identity")


VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT {} FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY {} "
    "EMIT ON WINDOW CLOSE"
)
MORE = [
    VIEW.format("window_end, {} AS k, count(*) AS n", "window_end, {}"),
    VIEW.format("window_end, {} AS k, count(*) AS n", "window_end, ROLLUP({})"),
    VIEW.format("window_end, count(*) AS n", "window_end HAVING max({}) > 'a'"),
    VIEW.format("window_end, count(*) FILTER (WHERE {} = 'a') AS n", "window_end"),
    VIEW.format("window_end, sum(CAST({} AS BIGINT)) AS n", "window_end"),
]


@pytest.mark.parametrize("place", [*PLACES, *MORE])
def test_X1_no_statement_reads_a_document_type(place: str) -> None:
    """Wherever it stands: each call that Spark is given is cut."""
    xml = "xpath_string('<a/>', 'a')"
    found = list(texts(list(analyse(place.replace("{}", xml), prelude())), set()))
    calls = [text for text in found if "xpath" in text]
    assert calls
    assert [text for text in calls if PARTS.search(text)] == []


def test_R4_identities_are_of_what_was_written() -> None:
    """Tables that earlier releases have made stay as they are."""
    sql = "upper(tidegate_attempt(xpath(substring_index(concat('<', `t`), r'<!DOCTYPE', 1), 'a')))"
    assert without_attempts(sql) == "upper(xpath(concat('<', `t`), 'a'))"
    sql = "tidegate_attempt(substring_index(`t`, '<!DOCTYPE', 1))"
    assert without_attempts(sql) == "substring_index(`t`, '<!DOCTYPE', 1)"
    inner = "xpath_string(substring_index(`t`, r'<!DOCTYPE', 1), 'a')"
    nested = f"xpath_string(substring_index({inner}, r'<!DOCTYPE', 1), 'b')"
    assert without_attempts(nested) == "xpath_string(xpath_string(`t`, 'a'), 'b')"
