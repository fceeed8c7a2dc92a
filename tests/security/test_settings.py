"""X4: which settings hold secrets, and where they are refused, hidden and masked. No Spark here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.test_environment import read, refused
from tidegate.confidential import blackened, is_secret
from tidegate.errors import TidegateError
from tidegate.jvm import secrecy
from tidegate.project import Project
from tidegate.project.reading.variables import Expanded, expand

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
    *("spark.hadoop.fs.s3a.bucket.lake.encryption.key", "s3.sse.key", "gcs.decryption-key", "header.Cookie"),
    *("spark.hadoop.fs.azure.sas.lake.account.blob.core.windows.net", "adls.sas-token.account"),
    *("spark.hadoop.fs.azure.account.key.my.source", "spark.executorEnv.DB_PASS", "jdbc.pass", "db.pwd"),
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
    *("spark.executorEnv.PWD", "spark.io.encryption.keySizeBits", "encryption.key-id", "bypass.compass"),
    *("parquet.encryption.column.keys", "key.columns", "primary.key", "s3.sse.type"),
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
        # Inside of a value, and beside a variable.
        "spark: {conf: {spark.driver.extraJavaOptions: '-Xss2m -Djavax.net.ssl.keyStorePassword=hunter22'}}",
        "spark: {conf: {spark.executor.extraJavaOptions: '-Dx=${HERE} -Dmy.secret=\"hunter22\"'}}",
        "spark: {conf: {spark.x.Filter.params: 'user=me,password=hunter22'}}",
        "spark: {conf: {spark.x: 'https://store/x?sig=hunter22'}}",
        "warehouse: {catalog: {type: jdbc, uri: 'jdbc:postgresql://${HERE}/x?password=hunter22'}}",
        "warehouse: {catalog: {type: jdbc, uri: 'jdbc:postgresql://me:hunter22@${HERE}/x'}}",
        "warehouse: {catalog: {type: rest, uri: 'https://c', properties: {token: 'hunter22${HERE}'}}}",
        "warehouse: {catalog: {properties: {adls.connection-string: 'AccountKey=hunter22'}}}",
        # Over several lines; and two on one.
        "spark:\n  conf:\n    spark.my.secret: 'hunter22 hunter22\n      and more'",
        "spark: {conf: {spark.a.secret: hunter22, spark.b.secret: hunter22}}",
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(text: str) -> None:
    error = refused(text, HERE="there")
    assert error.code == "TG410"
    assert error.location is not None
    assert "hunter22" not in str(error)
    assert "****" in str(error)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("warehouse: {catalog: {properties: {jdbc.password: hunter22: x}}}", "TG603"),
        (
            "warehouse: {catalog: {properties: {'jdbc.password': 'hunter22', 'jdbc.password': \"hunter22\"}}}",
            "TG603",
        ),
        ("spark: {conf: {spark.my.secret: 'hunter22${GONE}', spark.x: 'https://me:hunter22@h'}}", "TG606"),
    ],
)
def test_no_error_repeats_a_secret_that_stands_on_its_line(text: str, code: str) -> None:
    error = refused(text)
    assert error.code == code
    assert "hunter22" not in str(error)
    assert "********" in str(error)


def test_the_line_of_an_error_keeps_what_is_no_secret() -> None:
    for line in (
        "SELECT token, token::INT, password = other FROM t WHERE secret_id > 3",
        "    password: ${NAME}  # from the environment",
        'properties.sasl.jaas.config = \'x required username="${U}" password="${P}";\',',
        "uri: jdbc:postgresql://me:${PW}@${HOST}/x?password=${PW}",
    ):
        assert blackened(line) == line
    assert blackened("a.password = 'it''s', b = 'c'") == "a.password = '*****', b = 'c'"
    assert blackened('x password="hunter22";\'') == 'x password="********";\''
    error = TidegateError(
        "TG614", "path: s3://me:hunter22@b/x is not allowed", hint="https://h/?sig=hunter22"
    )
    assert (error.message, error.hint) == ("path: s3://me:***@b/x is not allowed", "https://h/?sig=***")


def test_a_password_inside_of_any_variable_is_masked() -> None:
    assert expand("${WHERE}", {"WHERE": "http://me:insideOfAnAddress@registry/"}) != ""
    assert expand("${OPTIONS}", {"OPTIONS": "-Dx.token=true -Dy=plainOption"}) != ""
    error = TidegateError("TG555", "insideOfAnAddress true plainOption")
    assert error.message == "*** true plainOption"


def test_a_variable_may_stand_beside_whose_secret_it_is() -> None:
    for value in ("me:${PW}", "${ID}:${PW}", "Bearer ${PW}", "session=${PW}", "${PW}"):
        text = (
            f"warehouse: {{catalog: {{type: rest, uri: 'https://c', properties: {{credential: '{value}'}}}}}}"
        )
        assert read(text, PW="aPasswordOfIts", ID="me").warehouse.catalog.properties


def test_parts_of_a_secret_of_the_environment_are_masked_each_for_itself() -> None:
    jaas = 'x required username="me" password="insideOfALine";'
    read(
        "spark: {conf: {spark.k.sasl.jaas.config: '${LINE}', spark.driver.extraJavaOptions: '${OPTIONS}'}}\n"
        "warehouse: {catalog: {type: rest, uri: 'https://c', properties: {credential: '${ID}:${KNOWN}'}}}",
        LINE=jaas,
        OPTIONS="-Dmy.password=insideOfOptions -Dx=y",
        ID="client",
        KNOWN="halfOfACredential",
    )
    error = TidegateError("TG605", "insideOfALine insideOfOptions halfOfACredential")
    assert error.message == "*** *** ***"


def test_a_secret_of_the_environment_is_not_refused_and_masked_from_then_on() -> None:
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
