"""`connector = 'kafka'`: options, secrets, formats, and what a definition may compute from a message (W9, W12, R4)."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import TidegateError
from tidegate.iceberg.layout import log_columns, relation_identity, strategy_identity
from tidegate.plan.explain import explain
from tidegate.sql import Catalog, analyse, load_catalog
from tidegate.sql.options.kafka_options import KafkaOptions

SERVER = "properties.bootstrap.server = 'h:9092'"
COLUMNS = "id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts"


def catalog(
    options: str = "",
    columns: str = COLUMNS,
    encode: str = "JSON",
    topic: str = "orders",
    server: str = SERVER,
) -> Catalog:
    """A catalog with the Kafka source `s`."""
    given = ", ".join(o for o in (f"topic = '{topic}'" if topic else "", server, options) if o)
    sql = f"CREATE SOURCE s ({columns}) WITH (connector = 'kafka', {given}) FORMAT PLAIN ENCODE {encode};"
    return load_catalog([("s.sql", sql)])


def source(*args: str, **kwargs: str) -> Any:
    return catalog(*args, **kwargs).get("s")


def refused(*args: str, **kwargs: str) -> TidegateError:
    """The error, whose caret is always somewhere in the statement."""
    with pytest.raises(TidegateError) as caught:
        catalog(*args, **kwargs)
    assert caught.value.location is not None
    return caught.value


def under(error: TidegateError) -> str:
    """What stands over the caret."""
    where = error.location
    assert where is not None
    return where.text[where.column - 1 : where.column - 1 + where.length]


def test_the_defaults_and_every_option() -> None:
    plain = source().connector
    assert plain == KafkaOptions(topic="orders", properties={"bootstrap.server": "h:9092"})
    assert (plain.startup_mode, plain.idle_timeout, plain.stall_timeout) == ("earliest", 300.0, 300.0)
    assert (plain.max_rows_per_batch, plain.on_data_loss, plain.idle_advance) == (1_000_000, "fail", False)
    full = source(
        "scan.startup.mode = 'TIMESTAMP', scan.startup.timestamp.millis = 0, group.id.prefix = 'app', "
        "max_rows_per_batch = 10, idle_timeout = '1 minute 30 seconds', idle_advance = true, "
        "stall_timeout = '2 hours', on_data_loss = 'record', properties.group.id = 'g', properties.My.Own = 'x', "
        "'properties.security.protocol' = 'SSL'",
        topic="${TOPIC}",
    ).connector
    assert full == KafkaOptions(
        topic="${TOPIC}",
        properties={
            "bootstrap.server": "h:9092",
            "group.id": "g",
            "My.Own": "x",
            "security.protocol": "SSL",
        },
        startup_mode="timestamp",
        startup_timestamp=0,
        group_prefix="app",
        max_rows_per_batch=10,
        idle_timeout=90.0,
        idle_advance=True,
        stall_timeout=7200.0,
        on_data_loss="record",
    )
    assert source("idle_timeout = 'off'").connector.idle_timeout is None


@pytest.mark.parametrize(
    ("options", "code", "caret", "says"),
    [
        ("scan.startup.mode = 'latst'", "TG404", "'latst'", 'did you mean "latest"?'),
        ("scan.startup.mode = 'timestamp'", "TG403", "'timestamp'", "scan.startup.timestamp.millis"),
        ("scan.startup.timestamp.millis = 1", "TG404", "scan.startup.timestamp.millis", "does nothing"),
        (
            "scan.startup.mode = 'latest', scan.startup.timestamp.millis = 1",
            "TG404",
            "scan.startup.timestamp.millis",
            "'latest'",
        ),
        ("scan.startup.mod = 'latest'", "TG402", "scan.startup.mod", 'did you mean "scan.startup.mode"?'),
        ("max_rows_per_batch = 0", "TG404", "0", "above zero"),
        ("idle_timeout = 'soon'", "TG404", "'soon'", "a length of time"),
        ("stall_timeout = 'off'", "TG404", "'off'", "a length of time"),
        ("idle_timeout = 'off', idle_advance = true", "TG404", "true", "(W7)"),
        ("on_data_loss = 'ignore'", "TG404", "'ignore'", "expected 'fail' or 'record'"),
        ("security.protocol = 'SSL'", "TG402", "security.protocol", '"properties.security.protocol"'),
        ("properties.securty.protocol = 'SSL'", "TG402", "properties.securty.protocol", "security.protocol"),
        ("properties.auto.offset.reset = 'latest'", "TG402", "properties.auto.offset.reset", "startup.mode"),
        ("properties.value.deserializer = 'x'", "TG402", "properties.value.deserializer", "ENCODE"),
        ("properties.bootstrap.servers = 'x:1'", "TG405", "properties.bootstrap.servers", "keep one"),
        ("properties.client.id = 'a${b'", "TG404", "'a${b'", "${NAME}"),
        ("properties.client.id = '${1}'", "TG404", "'${1}'", "${NAME}"),
        ("properties.client.id = 'a', properties.CLIENT.id = 'b'", "TG405", "properties.CLIENT.id", "twice"),
    ],
)
def test_wrong_options_have_a_caret_and_a_way_out(options: str, code: str, caret: str, says: str) -> None:
    error = refused(options)
    assert (error.code, under(error)) == (code, caret)
    assert says in f"{error.message} {error.hint}"


def test_what_is_missing() -> None:
    assert "needs topic" in refused(topic="").message
    assert "needs properties.bootstrap.server" in refused(server="").message
    assert refused(server="properties.bootstrap.server = ' '").code == "TG404"
    assert refused(topic="a${").code == "TG404"
    hint = refused(server="properties.bootstrap.servr = 'h'").hint or ""
    assert "properties.bootstrap.server" in hint


SECRETS = [
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "ssl.keystore.key",
    "sasl.jaas.config",
    "my.login.secret",
    "my.token",
    "sasl.oauthbearer.assertion",
    "basic.auth.user.info",
]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("value", ["hunter2", "$${A}hunter2", "${A}hunter2"])
def test_a_secret_that_is_written_out_is_an_error_that_does_not_repeat_it(name: str, value: str) -> None:
    if "jaas" in name and value.startswith("${A}"):
        value = 'x required username="${A}" password="hunter2";'
    error = refused(f"properties.{name} = '{value}'")
    assert (error.code, under(error)) == ("TG410", f"properties.{name}")
    assert "${" in (error.hint or "")
    assert "hunter2" not in str(error)
    assert "hunter2" not in str(error.to_dict())


@pytest.mark.parametrize(
    "more",
    [
        "properties.ssl.key.password = 'hunter2', bogus = 'x'",
        "properties.ssl.key.password = 'hunter2', properties.a = nope",
        "properties.ssl.key.password = 'hunter2",
        "properties.ssl.key.password = 'hunter2', topic = 'again'",
        "password = 'hunter2'",
        "catalog.secret = 'hunter2'",
        "properties.sasl.oauthbearer.jwks.endpoint.url = 'https://me:hunter2@h/x'",
        "properties.my.options = 'user=me,password=hunter2'",
        'properties.ssl.key.password = "hunter2"',
        "properties.sasl.password = E'hunter2'",
    ],
)
def test_X4_a_secret_is_repeated_by_no_error_whatever_else_is_wrong(more: str) -> None:
    error = refused(more)
    assert error.code in ("TG410", "TG101", "TG102", "TG405")
    assert "hunter2" not in str(error)
    assert "*******" in str(error)


def test_X4_the_login_in_a_broker_s_address_is_repeated_by_no_error() -> None:
    error = refused(server="properties.bootstrap.server = 'me:hunter2@b.example:9092'")
    assert error.code == "TG410"
    assert "hunter2" not in str(error) + str(error.to_dict())


def test_no_secrets_are_what_only_sounds_like_one_and_variables() -> None:
    for name in (
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.truststore.location",
        "sasl.oauthbearer.clock.skew.seconds",
    ):
        source(f"properties.{name} = 'x'")
    source("properties.ssl.key.password = '${KEY}'")
    lines = 'x required username="app" password="${KAFKA_PASSWORD}";'
    login = source(f"properties.sasl.jaas.config = '{lines}'")
    assert login.connector.properties["sasl.jaas.config"] == lines


def test_variables_stay_as_they_are_written_wherever_a_definition_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORD", "hunter2")
    monkeypatch.setenv("TOPIC", "hunter2")
    registry = "(schema.registry = 'http://r', schema.registry.password = '${WORD}')"
    options = "properties.ssl.key.password = '${WORD}', properties.client.id = '${WORD}'"
    all_of_it = catalog(options, topic="${TOPIC}", encode=f"AVRO {registry}")
    found = all_of_it.get("s")
    plan = explain(all_of_it, "s")
    for text in (found.definition, repr(found), str(plan), str(plan.to_dict()), str(found.connector)):
        assert "hunter2" not in text
        assert "${WORD}" in text


def test_R4_only_the_topic_and_what_decides_rows_are_the_identity() -> None:
    identity = relation_identity(source())
    same = [
        source("properties.client.id = 'x'"),
        source(server="properties.bootstrap.servers = 'other:1'"),
        source("scan.startup.mode = 'latest', group.id.prefix = 'x', max_rows_per_batch = 7"),
        source("idle_timeout = 'off', stall_timeout = '1 hour', on_data_loss = 'record'"),
    ]
    assert {relation_identity(s) for s in same} == {identity}
    others = [
        source(topic="other"),
        source(encode="CSV"),
        source(encode="JSON (timestamp_format = 'yyyy')"),
        source(columns=f"more INT, {COLUMNS}"),
    ]
    assert len({identity, *map(relation_identity, others)}) == 5
    avro = "AVRO (schema.registry = '{}', schema.registry.subject = '{}')"
    one, moved, other = (
        relation_identity(source(encode=avro.format(*where)))
        for where in (("http://a", "x"), ("http://b", "x"), ("http://a", "y"))
    )
    assert one == moved != other


@pytest.mark.parametrize(
    ("type_", "option", "skew"),
    [
        ("TIMESTAMP", "", 86_400_000_000),
        ("TIMESTAMPTZ", "", 86_400_000_000),
        ("DATE", "", 1),
        ("BIGINT", "", None),
        ("TIMESTAMP", "max_future_skew = 'off'", None),
        ("TIMESTAMP", "max_future_skew = '1 hour'", 3_600_000_000),
    ],
)
def test_W9_of_a_broker_a_row_a_day_ahead_raises_nothing_by_default(
    type_: str, option: str, skew: int | None
) -> None:
    found = source(option, columns=f"ts {type_}, WATERMARK FOR ts AS ts")
    assert found.watermark.max_future_skew == skew
    assert found.gate.max_future_skew == skew
    assert strategy_identity(found) is not None


def test_W9_an_alter_keeps_the_skew() -> None:
    (altered,) = analyse("ALTER SOURCE s ALTER WATERMARK FOR ts AS ts - INTERVAL '1 second'", catalog())
    assert altered.relation.watermark.max_future_skew == 86_400_000_000  # type: ignore[attr-defined]


def test_W12_the_log_keeps_what_a_message_has_beside_its_value() -> None:
    names = [name for name, _ in log_columns(source())]
    assert {"_rowtime", "_key", "_headers"} <= set(names)
    files = "CREATE SOURCE f (id INT) WITH (connector = 'filesystem', path = 'x') FORMAT PLAIN ENCODE JSON"
    assert "_rowtime" not in dict(log_columns(load_catalog([("f.sql", files)]).get("f")))  # type: ignore[arg-type]


def test_W12_a_definition_computes_from_the_message() -> None:
    columns = (
        "id INT, at TIMESTAMPTZ AS $rowtime, who VARCHAR AS CAST($key AS VARCHAR), part VARCHAR AS $partition, "
        "WATERMARK FOR at AS $rowtime - INTERVAL '1 second'"
    )
    found = source(columns=columns)
    assert [c.generated for c in found.columns] == [
        None,
        "`_rowtime`",
        "TRY_CAST(`_key` AS string)",
        "`_source_partition`",
    ]
    assert "`_rowtime`" in found.watermark.strategy.sql
    error = refused(columns="id INT, WATERMARK FOR $rowtime AS $rowtime")
    assert error.hint == "give it a column of its own: event_time TIMESTAMPTZ AS $rowtime"


def test_include_is_a_generated_column() -> None:
    sql = (
        "CREATE SOURCE s (id INT, WATERMARK FOR at AS at) INCLUDE KEY AS k INCLUDE PARTITION INCLUDE OFFSET AS o "
        f"INCLUDE TIMESTAMP AS at INCLUDE HEADER AS h WITH (connector = 'kafka', topic = 't', {SERVER}) "
        "FORMAT PLAIN ENCODE JSON"
    )
    found: Any = load_catalog([("s.sql", sql)]).get("s")
    assert [(c.name, c.type, c.generated) for c in found.columns[1:]] == [
        ("k", "binary", "`_key`"),
        ("_rw_kafka_partition", "string", "`_source_partition`"),
        ("o", "bigint", "`_offset`"),
        ("at", "timestamp", "`_rowtime`"),
        ("h", "array<struct<key:string,value:binary>>", "`_headers`"),
    ]


@pytest.mark.parametrize(
    ("clause", "code", "caret", "says"),
    [
        ("INCLUDE KY AS k", "TG104", "KY", 'did you mean "KEY"?'),
        ("INCLUDE payload AS p", "TG106", "payload", "INCLUDE KEY, PARTITION"),
        ("INCLUDE HEADER 'x' AS x", "TG106", "'x'", "INCLUDE HEADER AS headers"),
        ("INCLUDE KEY AS id", "TG206", "id", "twice"),
    ],
)
def test_wrong_includes(clause: str, code: str, caret: str, says: str) -> None:
    with_ = f"WITH (connector = 'kafka', topic = 't', {SERVER}) FORMAT PLAIN ENCODE JSON"
    with pytest.raises(TidegateError) as caught:
        load_catalog([("s.sql", f"CREATE SOURCE s (id INT) {clause} {with_}")])
    assert (caught.value.code, under(caught.value)) == (code, caret)
    assert says in f"{caught.value.message} {caught.value.hint}"
    files = "WITH (connector = 'filesystem', path = 'x') FORMAT PLAIN ENCODE JSON"
    with pytest.raises(TidegateError) as caught:
        load_catalog([("s.sql", f"CREATE SOURCE s (id INT) INCLUDE KEY AS k {files}")])
    assert "connector 'kafka'" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("columns", "encode", "code", "caret", "says"),
    [
        ("id INT", "PARQUET", "TG406", "PARQUET", "files"),
        ("id INT", "JSN", "TG406", "JSN", 'did you mean "json"?'),
        ("id INT", "CSV (without_header = 'true')", "TG402", "without_header", "leave it out"),
        ("id INT", "JSON (case = 'lower')", "TG404", "'lower'", "sensitive or insensitive"),
        ("id INT", "BYTES", "TG214", "id", "BYTEA"),
        ("a BYTEA, b BYTEA", "BYTES", "TG214", "a", "exactly one, of type BYTEA"),
        ("id INT", "AVRO", "TG403", "AVRO", "schema.location"),
        ("id INT", "AVRO (schema.location = '')", "TG404", "''", "empty"),
        ("id INT", "AVRO (schema.registry = 'r:1')", "TG404", "'r:1'", "https://"),
        (
            "id INT",
            "AVRO (schema.registry = 'http://r', schema.location = 'x')",
            "TG404",
            "schema.location",
            "keep one",
        ),
        (
            "id INT",
            "AVRO (schema.location = 'x', schema.registry.subject = 'y')",
            "TG404",
            "schema.registry.subject",
            "needs",
        ),
        (
            "id INT",
            "AVRO (schema.registry = 'http://r', schema.registry.password = 'hunter2')",
            "TG410",
            "schema.registry.password",
            "${SCHEMA_REGISTRY_PASSWORD}",
        ),
        (
            "id INT",
            "AVRO (schema.registry = 'http://u:hunter2@r')",
            "TG410",
            "schema.registry",
            "schema.registry.username",
        ),
        ("id INT", "PROTOBUF (schema.location = 'x.desc')", "TG403", "PROTOBUF", "message = "),
        ("id INT", "PROTOBUF (schema.location = 'x.desc', mesage = 'x')", "TG402", "mesage", '"message"'),
    ],
)
def test_formats_that_can_not_be(columns: str, encode: str, code: str, caret: str, says: str) -> None:
    error = refused(columns=columns, encode=encode)
    assert (error.code, under(error)) == (code, caret)
    assert says in f"{error.message} {error.hint}"
    assert "hunter2" not in str(error)


def test_files_have_no_formats_of_messages() -> None:
    for encode in ("AVRO", "PROTOBUF", "BYTES"):
        sql = f"CREATE SOURCE s (id INT) WITH (connector = 'filesystem', path = 'x') FORMAT PLAIN ENCODE {encode}"
        with pytest.raises(TidegateError) as caught:
            load_catalog([("s.sql", sql)])
        assert (caught.value.code, caught.value.hint) == ("TG106", "available encodings: JSON, CSV, PARQUET")


QUERIES = [
    ("SELECT *, $key, $offset FROM s", ("s",), "`s$hidden`"),
    ("SELECT s.$headers, t.$offset FROM s JOIN t ON s.id = t.id", ("s", "t"), "`t$hidden`"),
    ('SELECT $partition, $key FROM "s$rejected"', ("s$rejected",), "`s$rejected$hidden`"),
]


@pytest.mark.parametrize(("query", "hidden", "reads"), QUERIES)
def test_W12_hidden_columns_in_queries(query: str, hidden: tuple[str, ...], reads: str) -> None:
    both = catalog()
    (table,) = analyse("CREATE TABLE t (id INT)", both)
    both.add(table.relation)  # type: ignore[attr-defined]
    (statement,) = analyse(query, both)
    assert statement.hidden == hidden  # type: ignore[attr-defined]
    assert reads in statement.spark_sql  # type: ignore[attr-defined]
    with pytest.raises(TidegateError) as caught:
        list(analyse("SELECT $key FROM t", both))
    assert (caught.value.code, under(caught.value)) == ("TG202", "$key")
    with pytest.raises(TidegateError) as caught:
        list(analyse("SELECT $offset FROM s JOIN t ON s.id = t.id", both))
    assert (caught.value.code, caught.value.hint) == ("TG203", "s.$offset or t.$offset")
