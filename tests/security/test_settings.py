"""X4: which settings hold secrets, and where they are refused, hidden and masked. No Spark here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.test_environment import read, refused
from tidegate.jvm import secrecy
from tidegate.project import Project
from tidegate.project.reading.variables import Expanded
from tidegate.sql.dialect.secrets import is_secret

SECRET = (
    *("spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword", "spark.authenticate.secret", "credential"),
    *(
        "spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net",
        "jdbc.password",
        "token",
        "sasl.jaas.config",
    ),
    *(
        "spark.kubernetes.authenticate.driver.oauthToken",
        "header.Authorization",
        "secret_access_key",
        "LAKE_SECRET",
    ),
    *("ssl.keystore.key", "header.X-Api-Key", "spark.hadoop.javax.jdo.option.ConnectionPassword"),
)
NONE = (
    *("spark.sql.shuffle.partitions", "spark.kubernetes.driver.secrets.lake", "client.credentials-provider"),
    *(
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.kubernetes.executor.secretKeyRef.X",
        "access_key_id",
    ),
    *(
        "spark.hadoop.hadoop.security.credential.provider.path",
        "spark.authenticate.secret.file",
        "oauth2-server-uri",
    ),
    *(
        "spark.security.credentials.hive.enabled",
        "spark.security.credentials.renewalRatio",
        "s3.access-key-id",
    ),
    *(
        "token-refresh-enabled",
        "token-expires-in-ms",
        "spark.authenticate.secretBitLength",
        "spark.sql.adaptive",
    ),
    *(
        "sasl.oauthbearer.token.endpoint.url",
        "spark.kafka.clusters.a.sasl.token.mechanism",
        "KAFKA_TOKEN_URL",
    ),
)


def test_names_say_what_is_secret() -> None:
    assert [name for name in SECRET if not is_secret(name)] == []
    assert [name for name in NONE if is_secret(name)] == []


@pytest.mark.parametrize(
    "text",
    [
        "spark: {conf: {spark.hadoop.fs.s3a.secret.key: hunter22}}",
        "spark:\n  conf:\n    spark.ssl.keyPassword: 'hunter22'",
        "spark: {conf: {spark.x: 'jdbc:postgresql://me:hunter22@db/x'}}",
        "warehouse: {catalog: {type: rest, uri: 'https://c', properties: {token: hunter22}}}",
        "warehouse: {catalog: {type: rest, uri: 'https://c', properties: {credential: hunter22}}}",
        "warehouse: {catalog: {type: jdbc, uri: 'jdbc:postgresql://db/x?user=me&password=hunter22'}}",
        "warehouse: {catalog: {type: jdbc, uri: 'jdbc:postgresql://me:hunter22@db/x'}}",
        "warehouse: {storage: {endpoint: 'https://me:hunter22@store'}}",
        "warehouse: {storage: {access_key_id: a, secret_access_key: hunter22}}",
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(text: str) -> None:
    error = refused(text)
    assert error.code == "TG410"
    assert error.location is not None
    assert "hunter22" not in str(error)
    assert "****" in str(error)


def test_a_secret_of_the_environment_is_not_refused_and_masked_from_then_on() -> None:
    from tidegate.errors import TidegateError

    text = "warehouse: {catalog: {type: jdbc, uri: '${WHERE}', properties: {jdbc.password: '${PW}', token: '${T}'}}}"
    environment = read(text, WHERE="jdbc:postgresql://me:inAnAddress@db/x", PW="ofADatabase", T="ofARest")
    assert environment.warehouse.catalog.type == "jdbc"
    error = TidegateError(
        "TG605", "inAnAddress", hint="jdbc:postgresql://me:inAnAddress@db/x ofADatabase ofARest"
    )
    assert (error.message, error.hint) == ("***", "jdbc:postgresql://me:***@db/x *** ***")


def test_what_may_be_secret_is_neither_on_the_command_line_nor_shown() -> None:
    given = {
        "spark.driver.memory": Expanded("2g"),
        "spark.driver.extraJavaOptions": Expanded("-Xss2m -Dmy.own=d"),
        "spark.executor.memory": "3g",
        "spark.hadoop.fs.azure.account.key.x": Expanded("a"),
        "spark.ssl.keyPassword": "b",
        "spark.anything": Expanded("c"),
        "spark.redaction.regex": "mine|theirs",
    }
    found = secrecy.split(given)
    assert set(found.secret) == {
        "spark.hadoop.fs.azure.account.key.x",
        "spark.ssl.keyPassword",
        "spark.anything",
    }
    assert set(found.launching) == {"spark.driver.memory", "spark.driver.extraJavaOptions"}
    assert set(found.shown) == {"spark.executor.memory", "spark.redaction.regex"}
    masked = found.shown["spark.redaction.regex"]
    assert masked.endswith(
        r"|spark\.anything|spark\.driver\.memory|spark\.driver\.extraJavaOptions|my\.own|(?:mine|theirs)"
    )


def test_a_catalog_keeps_no_secret_in_the_settings_of_a_session(tmp_path: Path) -> None:
    text = """\
warehouse:
  path: s3://bucket/prefix
  catalog: {type: rest, uri: "https://${HOST}/", properties: {credential: "${CREDENTIAL}", scope: lake}}
  storage: {region: eu-central-1, access_key_id: "${KEY}", secret_access_key: "${SECRET}", session_token: "${SESSION}"}
"""
    environment = read(text, HOST="catalog", CREDENTIAL="c0de", KEY="AKIA", SECRET="s3cr3t", SESSION="t0ken")
    storage = Project(tmp_path, "test", environment).storage
    prefix = "spark.sql.catalog.tidegate."
    names = {"uri", "credential", "s3.access-key-id", "s3.secret-access-key", "s3.session-token"}
    assert storage.secret_settings() == {prefix + name for name in names}
    stays = {
        key: value for key, value in storage.spark_conf().items() if key not in storage.secret_settings()
    }
    # Hadoop's are no settings that jobs hand on; where they are shown they are masked by their name.
    assert {key for key, value in stays.items() if value in ("c0de", "s3cr3t", "t0ken")} == {
        "fs.s3a.secret.key",
        "fs.s3a.session.token",
    }
    assert Project(tmp_path, "test", read("")).storage.secret_settings() == frozenset()


def test_dagster_gets_no_cause_that_shows_a_secret() -> None:
    from dagster import Failure

    from tidegate.dagster.assets import failures
    from tidegate.masking import conceal

    conceal("someSecretValue")
    for wrong in (ValueError("at someSecretValue"), OSError("other")):
        with pytest.raises(Exception) as caught, failures():
            raise wrong
        if wrong.args[0] == "other":
            assert caught.value is wrong
            continue
        assert isinstance(caught.value, Failure)
        assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
        assert "someSecretValue" not in str(caught.value.description) + str(caught.value.metadata)
        assert "at ***" in str(caught.value.metadata["traceback"].value)
