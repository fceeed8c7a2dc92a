"""X1: what SQL may reach of the machine and the network is what whoever operates tidegate lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security.reaching import SINK, define, files, kafka, registry, sink
from tidegate.errors import TidegateError
from tidegate.ingest.sources.files import list_files
from tidegate.project import Project
from tidegate.sql import analyse
from tidegate.sql.catalog.catalog import Catalog

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
