"""X1: a query or statement reaches what is defined, and nothing of the machine, its files or its settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tests.security.reaching import define
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.session.session import Session
from tidegate.sql import analyse
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.parsing import parse_query
from tidegate.sql.dialect.text import Text
from tidegate.sql.statements.queries import QueryAnalysis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MACHINE = [
    "parquet.`/etc/x`",
    "csv.`file:///etc/passwd`",
    "text.`/etc/passwd`",
    "delta.`/x`",
    "binaryFile.`/etc/passwd`",
    "read_files('/etc')",
    "read_csv('/etc/passwd')",
    "`/etc/passwd`",
    "spark_catalog.default.x",
    "tidegate.main.t",
]


@pytest.mark.parametrize("table", MACHINE)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM {}",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM {}",
        "CREATE SINK k AS SELECT * FROM {} WITH (connector = 'console')",
        "INSERT INTO t SELECT * FROM {}",
        "SELECT (SELECT count(*) FROM {}) AS n FROM t",
        "WITH x AS (SELECT * FROM {}) SELECT * FROM x",
        "SELECT * FROM ({})",
        "SELECT * FROM (({})) AS x",
        "SELECT * FROM ({} JOIN t ON TRUE)",
        "SELECT * FROM (t JOIN {} ON TRUE) AS x",
        "SELECT * FROM ((t) JOIN ({}) ON TRUE)",
        "SELECT * FROM t, ({})",
        "SELECT * FROM t, LATERAL {}",
        "SELECT * FROM t LEFT JOIN LATERAL {} AS x ON TRUE",
        "INSERT INTO t SELECT * FROM t, LATERAL {}",
        "SELECT * FROM LATERAL {}",
        "SELECT * FROM t LEFT JOIN ({}) AS x ON TRUE",
        "SELECT 1 UNION ALL (SELECT 1 FROM ({}))",
        "SELECT EXISTS (SELECT 1 FROM ({})) FROM t",
        "SELECT * FROM (t JOIN t AS u ON EXISTS (SELECT 1 FROM {}))",
        "SELECT * FROM range((SELECT max(x) FROM {}))",
        "SELECT * FROM explode((SELECT collect_list(x) FROM {}))",
        "SELECT * FROM t, LATERAL explode((SELECT collect_list(x) FROM {}))",
        "SELECT * FROM t LATERAL VIEW explode((SELECT collect_list(x) FROM {})) y AS z",
        "VALUES ((SELECT max(x) FROM {}))",
        "SELECT * FROM (VALUES ((SELECT max(x) FROM {}))) AS x",
        "SELECT * FROM t PIVOT (count(*) FOR id IN ((SELECT 1 FROM {})))",
        "SELECT * FROM t FOR SYSTEM_TIME AS OF (SELECT max(x) FROM {})",
        "SELECT * FROM t TABLESAMPLE ((SELECT 1 FROM {}) ROWS)",
        "INSERT INTO t SELECT * FROM ({})",
        "DELETE FROM k WHERE EXISTS (SELECT 1 FROM ({}))",
        "UPDATE k SET at = (SELECT max(at) FROM ({}))",
        "CREATE MATERIALIZED VIEW v AS SELECT at FROM ({}) EMIT ON WINDOW CLOSE",
        "CREATE SINK k AS SELECT * FROM ({}) WITH (connector = 'console')",
    ],
)
def test_a_query_reads_what_is_defined_and_no_paths(table: str, statement: str) -> None:
    project = Project.temporary()
    try:
        catalog = project.catalog()
        define("CREATE TABLE t (id INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY", catalog)
        define("CREATE TABLE k (id INT PRIMARY KEY, at TIMESTAMP)", catalog)
        with pytest.raises(TidegateError):
            list(analyse(statement.format(table), catalog))
    finally:
        project.remove()


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM (t) AS x JOIN (k) ON x.id = k.id", ["id", "at", "id", "at"]),
        ("SELECT x.id FROM ((t)) AS x", ["id"]),
        ("SELECT t.id, y.at FROM (t JOIN (k) AS y ON t.id = y.id)", ["id", "at"]),
        ("SELECT * FROM (t JOIN k ON t.id = k.id) AS x (a, b, c, d)", ["a", "b", "c", "d"]),
        ("SELECT x.at FROM (t LEFT JOIN k USING (id, at)) AS x", ["at"]),
        ("WITH q AS (SELECT id AS i FROM t) SELECT * FROM (q) CROSS JOIN (k)", ["i", "id", "at"]),
        ("SELECT * FROM range((SELECT max(id) FROM t))", None),
        ("VALUES ((SELECT max(id) FROM k))", ["col1"]),
    ],
)
def test_what_stands_in_brackets_is_looked_up(query: str, columns: list[str] | None) -> None:
    catalog = Catalog()
    define("CREATE TABLE t (id INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY", catalog)
    define("CREATE TABLE k (id INT PRIMARY KEY, at TIMESTAMP)", catalog)
    text = Text(query)
    analysis = QueryAnalysis(text, catalog)
    assert analysis.run(parse_query(text, tokenize(text))) == columns
    assert set(analysis.relations) == {name for name in "tk" if re.search(rf"\b{name}\b(?!\.)", query)}
    with pytest.raises(TidegateError, match='no column "none"'):
        list(analyse("SELECT none FROM (t JOIN k ON t.id = k.id)", catalog))


@pytest.mark.spark
def test_a_file_is_no_table_for_the_engine_either(spark: SparkSession, tmp_path: Path) -> None:
    """Should the analysis ever let one through."""
    (tmp_path / "x.txt").write_text("secret")
    with Session.open(project=Project.temporary(), spark=spark) as session:
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            session.spark.sql(f"SELECT * FROM text.`{tmp_path}/x.txt`").collect()
        rows = session.execute("SELECT a.id FROM (range(2) AS a JOIN (range(1, 3)) AS b ON a.id = b.id)")
        assert rows.rows() == [(1,)]


@pytest.mark.parametrize(
    "setting",
    [
        "SET spark.sql.warehouse.dir = '/srv'",
        "SET spark.hadoop.fs.s3a.access.key = 'x'",
        "SET spark.sql.catalog.tidegate.warehouse = '/srv'",
        "SET hive.metastore.uris = 'x'",
        "ADD JAR '/srv/x.jar'",
        "CREATE FUNCTION f AS 'com.evil.F' USING JAR '/srv/x.jar'",
        "LOAD DATA INPATH '/etc/passwd' INTO TABLE t",
        "CREATE TABLE x USING parquet LOCATION '/etc'",
        "INSERT OVERWRITE DIRECTORY '/srv/x' SELECT 1",
        "CACHE TABLE t",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "USE spark_catalog",
    ],
)
def test_no_statement_changes_where_or_as_whom_things_run(setting: str) -> None:
    with pytest.raises(TidegateError):
        list(analyse(setting, Catalog()))


@pytest.mark.parametrize("place", ["WATERMARK FOR at AS {}", "x STRING AS {}, WATERMARK FOR at AS at"])
@pytest.mark.parametrize(
    "expression",
    ["reflect('java.lang.System', 'exit', 0)", "input_file_name()", "(SELECT max(a) FROM text.`/x`)"],
)
def test_strategies_and_generated_columns_reach_nothing(place: str, expression: str) -> None:
    sql = f"CREATE TABLE t (id INT, at TIMESTAMP, {place.format(expression)}) APPEND ONLY"
    with pytest.raises(TidegateError):
        list(analyse(sql, Catalog()))


def test_a_data_set_needs_python_to_be_on(tmp_path: Path) -> None:
    """Also for who asks the engine, past the analysis."""
    from tidegate.ingest.sources.files import resolve

    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "flights.py").write_text("raise SystemExit('it ran')\n")
    with pytest.raises(TidegateError) as refused:
        resolve(Project.load(tmp_path), "dataset:flights/x.csv")
    assert refused.value.code == "TG614"
    assert Project.load(ROOT).env.allow.python
