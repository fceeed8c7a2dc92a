"""Environment files: what they mean, and that every mistake is named with its place."""

from __future__ import annotations

import ast
import inspect
import json
import re
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

import tidegate.project.jobs.jobs  # noqa: F401  (its models are checked below)
from tests.conftest import ROOT
from tidegate.errors import TidegateError
from tidegate.project import Environment, Project
from tidegate.project.reading.strict import StrictModel, validate
from tidegate.project.reading.yamlfile import parse_yaml
from tidegate.project.storage import Storage


def read(text: str, **environ: str) -> Environment:
    return validate(Environment, parse_yaml(text, "resources/test.yaml", environ))


def refused(text: str, **environ: str) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        read(text, **environ)
    return caught.value


S3 = """\
warehouse:
  path: s3://bucket/prefix/
  catalog: {type: rest, uri: "https://catalog/", properties: {credential: "${CREDENTIAL}"}}
  storage:
    endpoint: http://store:9000
    region: eu-central-1
    access_key_id: ${KEY}
    secret_access_key: ${SECRET}
    path_style: true
"""
SECRETS = {"KEY": "AKIA-visible", "SECRET": "s3cr3t-visible", "CREDENTIAL": "c0de-visible"}


def test_an_empty_file_is_the_local_default() -> None:
    assert read("") == read("# nothing but a comment\n") == Environment()


def test_spark_settings_may_be_numbers_and_booleans() -> None:
    environment = read("spark:\n  conf: {spark.sql.shuffle.partitions: 2, spark.ui.enabled: true}")
    assert environment.spark.conf == {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "true"}


def test_unknown_key_did_you_mean_with_caret() -> None:
    error = refused("spark:\n  master: local[4]\nwarehouse:\n  namespce: main\n")
    assert str(error) == (
        'error TG604: unknown key "warehouse.namespce"\n'
        " --> resources/test.yaml:4:3\n"
        "4 |   namespce: main\n"
        "      ^^^^^^^^\n"
        'hint: did you mean "namespace"?'
    )


def test_unknown_key_without_a_neighbour_lists_the_known_ones() -> None:
    assert refused("zzz: 1").hint == "known keys: spark, warehouse, allow, decoding, reads, project"


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "message"),
    [
        ("spark:\n\tmaster: x", "TG603", 2, 1, "cannot start any token"),
        ("spark: {}\nspark: {}", "TG603", 2, 1, '"spark" is given twice'),
        ("- a\n- b", "TG603", 1, 1, "expected `key: value` lines"),
        ("spark:\n  master: [local]", "TG605", 2, 11, "spark.master: input should be a valid string"),
        ("warehouse:\n  catalog: {type: derby}", "TG605", 2, 19, "'hadoop', 'jdbc' or 'rest'"),
        ("warehouse:\n  catalog: {type: hive}", "TG607", 2, 19, "a hive catalog is not supported"),
        ("warehouse:\n  catalog: {type: rest}", "TG605", 2, 12, "a rest catalog needs a uri"),
        ("warehouse:\n  catalog: {uri: x}", "TG605", 2, 12, "a hadoop catalog must not have a uri"),
        ("warehouse:\n  storage: {access_key_id: x}", "TG605", 2, 12, "must be set together"),
        ("warehouse:\n  storage: {secret_access_key: x}", "TG410", 2, 32, "must not be written"),
        ("warehouse:\n  path: s3://b/p", "TG607", 2, 3, "cannot commit safely on s3"),
        (
            "warehouse:\n  catalog: {type: jdbc, uri: 'jdbc:mysql://db/lake'}",
            "TG607",
            2,
            12,
            "a catalog in jdbc:mysql is not supported",
        ),
        (
            "warehouse:\n  catalog: {type: jdbc, uri: 'jdbc:sqlite::memory:'}",
            "TG607",
            2,
            12,
            "a catalog in memory",
        ),
        (
            "warehouse:\n  catalog: {type: jdbc, uri: 'jdbc:sqlite:file:x?mode=memory'}",
            "TG607",
            2,
            12,
            "a catalog in memory",
        ),
        (
            "warehouse:\n  catalog: {type: rest, uri: 'http://x', properties: {catalog-impl: a.GlueCatalog}}",
            "TG607",
            2,
            12,
            "catalog-impl under properties",
        ),
        ("warehouse:\n  path: hdfs://n/p", "TG607", 2, 9, "storage hdfs: is not supported"),
        ("warehouse:\n  path: ${NOT_SET}/x", "TG606", 2, 9, "environment variable NOT_SET is not set"),
        ("warehouse:\n  path: ${NOT_SET:-x}", "TG606", 2, 9, "not followed by a variable name"),
        ("warehouse: 5", "TG605", 1, 12, "warehouse: keys with values must be given here"),
        ("spark:\n  conf: {a: [1]}", "TG605", 2, 13, "spark.conf.a"),
    ],
)
def test_mistakes_are_placed(text: str, code: str, line: int, column: int, message: str) -> None:
    error = refused(text)
    assert message in error.message
    assert error.location is not None
    assert (error.code, error.location.line, error.location.column) == (code, line, column)
    assert error.location.file == "resources/test.yaml"


def test_X4_a_secret_in_a_list_is_repeated_by_no_error() -> None:
    error = refused("spark:\n  conf: {spark.ssl.keyPassword: [hunter2]}")
    assert "hunter2" not in str(error) + str(error.to_dict())
    assert "[*******]" in str(error)


def test_several_mistakes_are_counted() -> None:
    assert "(1 more problem in this file)" in refused("spark: 1\nwarehose: {}").message


def test_variables_are_expanded_and_dollar_dollar_is_not() -> None:
    environment = read("spark:\n  master: spark://${HOST}:7077\n  conf: {a: '$${HOST}'}", HOST="h1")
    assert environment.spark.master == "spark://h1:7077"
    assert environment.spark.conf == {"a": "${HOST}"}


def test_no_repr_shows_what_came_from_the_environment() -> None:
    environment = read(S3, **SECRETS)
    shown = repr(environment) + str(environment)
    assert "visible" not in shown
    assert "***" in shown


def test_no_error_shows_what_came_from_the_environment() -> None:
    error = refused("warehouse:\n  path: ${KEY}\n  storage: {path_style: '${SECRET}'}", **SECRETS)
    assert "visible" not in str(error)
    error = refused("warehouse: {catalog: {type: jdbc, uri: '${SECRET}'}}", **SECRETS)
    assert "visible" not in str(error)


def test_one_set_of_credentials_for_spark_and_pyiceberg(tmp_path: Path) -> None:
    storage = Project(tmp_path, "test", read(S3, **SECRETS)).storage
    prefix = "spark.sql.catalog.tidegate"
    assert storage.spark_conf() == {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": "https://catalog/",
        f"{prefix}.warehouse": "s3://bucket/prefix",
        f"{prefix}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        f"{prefix}.s3.endpoint": "http://store:9000",
        f"{prefix}.s3.path-style-access": "true",
        f"{prefix}.client.region": "eu-central-1",
        f"{prefix}.s3.access-key-id": "AKIA-visible",
        f"{prefix}.s3.secret-access-key": "s3cr3t-visible",
        f"{prefix}.credential": "c0de-visible",
        # Sources on S3 are read by Spark through Hadoop's file system.
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.endpoint": "http://store:9000",
        "fs.s3a.endpoint.region": "eu-central-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "AKIA-visible",
        "fs.s3a.secret.key": "s3cr3t-visible",
    }
    assert [package.split(":")[1] for package in storage.packages()] == [
        "iceberg-aws-bundle",
        "hadoop-aws",
        "apache-client",
        "s3-transfer-manager",
    ]
    shared = {"s3.endpoint", "s3.access-key-id", "s3.secret-access-key"}
    properties = storage.pyiceberg_properties()
    assert {k: properties[k] for k in shared} == {k: storage.spark_conf()[f"{prefix}.{k}"] for k in shared}
    assert properties["s3.region"] == "eu-central-1"
    assert properties["type"] == "rest"
    # Settings reach Spark and pyiceberg as real text, not as the masking kind.
    assert {type(v) for v in (storage.spark_conf() | properties).values()} == {str}


@pytest.mark.parametrize(
    ("more", "told"), [("", None), ("path: 's3://bucket/a', ", "s3://bucket/a"), ("", "ours")]
)
def test_a_rest_server_is_told_no_folder_of_this_machine(tmp_path: Path, more: str, told: str | None) -> None:
    properties = f", properties: {{warehouse: {told}}}" if told == "ours" else ""
    text = f"warehouse: {{{more}catalog: {{type: rest, uri: 'https://catalog/'{properties}}}}}"
    storage = Project(tmp_path, "test", read(text)).storage
    assert storage.spark_conf().get("spark.sql.catalog.tidegate.warehouse") == told
    assert storage.pyiceberg_properties().get("warehouse") == told


def test_tables_that_a_rest_server_puts_on_s3_are_reached_wherever_the_warehouse_is(tmp_path: Path) -> None:
    text = S3.replace("path: s3://bucket/prefix", "path: .tidegate/warehouse")
    assert text != S3
    there = Project(tmp_path, "test", read(S3, **SECRETS)).storage
    here = Project(tmp_path, "test", read(text, **SECRETS)).storage
    of_s3 = {name: value for name, value in there.spark_conf().items() if ".s3." in name or ".region" in name}
    assert of_s3.items() <= here.spark_conf().items()
    # Iceberg finds the client by the scheme, since other tables may be elsewhere.
    assert "spark.sql.catalog.tidegate.io-impl" not in here.spark_conf()
    assert here.pyiceberg_properties()["s3.secret-access-key"] == "s3cr3t-visible"
    assert here.secret_settings() == there.secret_settings()
    assert here.packages() == there.packages()


def test_an_endpoint_is_a_url() -> None:
    error = refused("warehouse: {storage: {endpoint: 'store:9000'}}")
    assert (error.code, error.hint) == ("TG605", "write https://host:port")


def test_s3_without_keys_goes_through_amazons_own_chain(tmp_path: Path) -> None:
    storage = Project(tmp_path, "test", read("warehouse: {storage: {region: eu-central-1}}")).storage
    settings = storage.spark_conf()
    provider = settings["fs.s3a.aws.credentials.provider"]
    assert provider == "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    assert "fs.s3a.access.key" not in settings
    assert storage.object_store
    assert storage.packages()


def test_a_source_on_s3_needs_settings_for_s3(tmp_path: Path) -> None:
    storage = Project(tmp_path, "test", read("")).storage
    assert storage.packages() == []
    storage.require_object_store('source "a"', "file:///somewhere")
    with pytest.raises(TidegateError) as caught:
        storage.require_object_store('source "a"', "s3://bucket/in")
    assert caught.value.code == "TG607"
    assert "warehouse.storage" in str(caught.value.hint)


def test_pyarrow_uses_the_same_credentials(tmp_path: Path) -> None:
    storage = Project(tmp_path, "test", read(S3, **SECRETS)).storage
    filesystem, path = storage.filesystem()
    assert (filesystem.type_name, path) == ("s3", "bucket/prefix")
    assert filesystem.region == "eu-central-1"
    assert storage.filesystem("s3://other/data.parquet")[1] == "other/data.parquet"


def test_jdbc_catalog_for_spark_and_for_pyiceberg(tmp_path: Path) -> None:
    text = "warehouse: {catalog: {type: jdbc, uri: 'jdbc:postgresql://db:5432/lake', properties: "
    text += "{jdbc.user: me, jdbc.password: '${SECRET}'}}}"
    storage = Project(tmp_path, "test", read(text, SECRET="a/b")).storage
    assert storage.packages() == ["org.postgresql:postgresql:42.7.12"]
    assert storage.spark_conf()["spark.sql.catalog.tidegate.jdbc.password"] == "a/b"
    assert storage.pyiceberg_properties()["uri"] == "postgresql+psycopg2://me:a%2Fb@db:5432/lake"
    assert "jdbc.password" not in storage.pyiceberg_properties()


@pytest.mark.parametrize(
    ("options", "properties", "libpq"),
    [
        ("?preferQueryMode=simple&prepareThreshold=0", {}, {}),
        ("?ssl=true&reWriteBatchedInserts=true", {}, {"sslmode": "verify-full"}),
        ("?ssl&sslfactory=org.postgresql.ssl.NonValidatingFactory", {}, {"sslmode": "require"}),
        (
            "?ssl=true&sslmode=verify-ca&sslrootcert=/a%20b",
            {},
            {"sslmode": "verify-ca", "sslrootcert": "/a b"},
        ),
        ("?ApplicationName=x%26y&connectTimeout=5", {}, {"application_name": "x&y", "connect_timeout": "5"}),
        ("?options=-c%20geqo%3Doff&currentSchema=a", {}, {"options": "-c geqo=off -csearch_path=a"}),
        ("", {"jdbc.sslmode": "require", "jdbc.schema-version": "V1"}, {"sslmode": "require"}),
        ("?sslmode=disable", {"jdbc.sslmode": "require"}, {"sslmode": "disable"}),
    ],
)
def test_options_of_javas_driver_reach_pythons_as_far_as_it_has_them(
    tmp_path: Path, options: str, properties: dict[str, str], libpq: dict[str, str]
) -> None:
    from psycopg2.extensions import make_dsn, parse_dsn
    from sqlalchemy import create_engine

    catalog = {"type": "jdbc", "uri": f"jdbc:postgresql://db:5432/lake{options}", "properties": properties}
    storage = Project(tmp_path, "test", read(json.dumps({"warehouse": {"catalog": catalog}}))).storage
    assert storage.spark_conf()["spark.sql.catalog.tidegate.uri"] == catalog["uri"]
    engine = create_engine(storage.pyiceberg_properties()["uri"])
    _, asked = engine.dialect.create_connect_args(engine.url)
    # libpq itself says whether it knows them all.
    known = parse_dsn(make_dsn(**{"dbname" if k == "database" else k: str(v) for k, v in asked.items()}))
    assert known == {"host": "db", "port": "5432", "dbname": "lake", **libpq}


@pytest.mark.parametrize(
    ("catalog", "file", "here"),
    [
        ("{}", None, True),
        ("{type: jdbc, uri: 'jdbc:sqlite:w/catalog.db'}", "w/catalog.db", True),
        ("{type: jdbc, uri: 'jdbc:sqlite:file:/lake/c.db?cache=private'}", "/lake/c.db", True),
        ("{type: jdbc, uri: 'jdbc:postgresql://127.0.0.1/c'}", None, False),
        ("{type: rest, uri: 'http://127.0.0.1'}", None, False),
    ],
)
def test_which_catalogs_are_of_this_machine_and_where_the_file_of_sqlite_is(
    tmp_path: Path, catalog: str, file: str | None, here: bool
) -> None:
    storage = Project(tmp_path, "local", read(f"warehouse: {{catalog: {catalog}}}")).storage
    assert (storage.sqlite, storage.on_this_machine) == (None if file is None else tmp_path / file, here)
    if file is not None:
        prefix = "spark.sql.catalog.tidegate"
        conf = storage.spark_conf()
        assert conf[f"{prefix}.uri"].removesuffix("?cache=private") == f"jdbc:sqlite:{tmp_path / file}"
        assert conf[f"{prefix}.jdbc.busy_timeout"] == "30000"
        assert storage.pyiceberg_properties()["uri"].startswith(f"sqlite:///{tmp_path / file}")


@pytest.mark.parametrize(
    ("path", "local"),
    [
        (".tidegate/warehouse", "{root}/.tidegate/warehouse"),
        ("/data/w", "/data/w"),
        ("file:///data/w", "/data/w"),
        ("my data/w%20h", "{root}/my data/w%20h"),
    ],
)
def test_local_warehouses(tmp_path: Path, path: str, local: str) -> None:
    storage = Project(tmp_path, "test", read(f"warehouse: {{path: '{path}'}}")).storage
    expected = local.format(root=tmp_path)
    assert storage.warehouse == f"file://{expected}"
    assert storage.local_warehouse == Path(expected)
    assert storage.table_uri("flights") == f"file://{expected}/main/flights"
    assert storage.filesystem()[1] == expected
    assert storage.filesystem("in.json")[1] == f"{tmp_path}/in.json"
    # Iceberg writes `file:/…` into its metadata; it is the same folder.
    assert storage.filesystem(f"file:{expected}/a")[1] == f"{expected}/a"


def test_every_field_is_described_for_the_docs() -> None:
    models: list[type[StrictModel]] = StrictModel.__subclasses__()
    assert Environment in models
    bare = []
    for model in models:
        [body] = [
            n.body for n in ast.parse(dedent(inspect.getsource(model))).body if isinstance(n, ast.ClassDef)
        ]
        # The text below a field; pydantic itself would have to read the sources again at each start.
        told = {
            ast.unparse(field.target)
            for field, below in pairwise(body)
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and _text(below.value)
        }
        fields = model.model_fields.items()
        bare += [f"{model.__name__}.{n}" for n, f in fields if not f.description and n not in told]
    assert [*bare, *[m.__name__ for m in models if not m.__doc__]] == []


def _text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and bool(value.value.strip())


def test_the_settings_of_services_that_no_test_runs_are_accepted_as_they_are_written() -> None:
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert "**tidegate is not\ntested with them**" in text
    found = {}
    for name, cell in re.findall(r"^\| (AWS Glue|Hive Metastore|Nessie)[^|]*\| (.+) \|$", text, re.MULTILINE):
        keys = [
            code
            for code in re.findall(r"`([^`]+)`", cell)
            if code.startswith(("type:", "uri:", "properties:"))
        ]
        found[name] = read(f"warehouse:\n  catalog: {{{', '.join(keys)}}}").warehouse
    assert found.keys() == {"AWS Glue", "Hive Metastore", "Nessie"}
    for warehouse in found.values():
        assert warehouse.catalog.type == "rest"
    # What Iceberg's Java and pyiceberg call it.
    storage = Storage(ROOT, found["AWS Glue"])
    for given in (storage.spark_conf(), storage.pyiceberg_properties()):
        own = {name.removeprefix("spark.sql.catalog.tidegate."): value for name, value in given.items()}
        assert {"rest.sigv4-enabled": "true", "rest.signing-name": "glue"}.items() <= own.items()


def test_a_rest_catalog_has_no_table_of_the_name_of_a_metadata_table(tmp_path: Path) -> None:
    """Iceberg's client would look for the files of a table `main`, which servers call a malformed request."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "resources").mkdir()
    create = "CREATE TABLE Files (ts TIMESTAMP) APPEND ONLY"
    (tmp_path / "assets" / "a.sql").write_text(f"{create};\n")
    assert Project.load(tmp_path).catalog().names() != []
    (tmp_path / "resources" / "local.yaml").write_text("warehouse: {catalog: {type: rest, uri: https://c}}\n")
    for refused in (
        Project.load(tmp_path).catalog,
        lambda: Project.load(tmp_path).save_definition("Files", create),
    ):
        with pytest.raises(TidegateError) as caught:
            refused()
        assert (caught.value.code, caught.value.hint) == ("TG607", "give it another name, such as Files_1")
