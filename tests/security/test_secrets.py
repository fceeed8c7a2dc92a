"""X4: secrets of every kind, used by a real run with everything logged, are in nothing that it leaves or prints."""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import markupsafe
import pytest
import yaml
from pyarrow.fs import FileSelector

from tests.conftest import ROOT
from tests.support.s3 import bucket
from tests.support.s3 import s3_server as s3_server
from tests.support.s3 import store as store
from tidegate.errors import Location, TidegateError
from tidegate.masking import conceal, masked, masked_traceback
from tidegate.project import Project
from tidegate.testing.runner import QUICK

#: By the variable that holds it. Each has its own letters, so that one that is found says where it came from.
SECRETS = {
    "LAKE_SECRET": "s3Secret+Planted/zqxj",
    "CATALOG_PASSWORD": "jdbcPlanted&zqxj'%",
    "ADDRESS_PASSWORD": "addressPlantedzqxj",
    "REST_TOKEN": "restTokenPlantedzqxj",
    "KAFKA_PASSWORD": 'kafkaPlanted\\"zqxj',
    "REGISTRY_PASSWORD": "registryPlanted zqxj",
    "ALERT_PATH": "alertPathPlantedzqxj",
    "AZURE": "azureAccountPlantedzqxj==",
    "SETTING_SECRET": "someSettingPlantedzqxj",
    "REPOSITORY_PASSWORD": "repositoryPlantedzqxj",
    "OPTION_SECRET": "optionPlanted #zqxj",
}
TOKEN = "liveTokenPlantedzqxj"

SQL = """
CREATE SOURCE readings (id INT, meter VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second')
WITH (connector = 'filesystem', path = 's3://lake/in', partition.columns = 'meter',
    max_files_per_batch = '1') FORMAT PLAIN ENCODE JSON;

CREATE SOURCE orders (id INT) WITH (connector = 'kafka', topic = 'orders', properties.bootstrap.server = '{broker}',
    properties.security.protocol = 'SASL_PLAINTEXT', properties.sasl.mechanism = 'PLAIN',
    properties.default.api.timeout.ms = '1000', properties.request.timeout.ms = '900',
    properties.sasl.jaas.config = 'org.apache.kafka.common.security.plain.PlainLoginModule required
        username="me" password="${KAFKA_PASSWORD}";')
FORMAT PLAIN ENCODE AVRO (schema.registry = '{hostile}', schema.registry.username = 'me',
    schema.registry.password = '${REGISTRY_PASSWORD}');

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, meter, count(*) AS n FROM TUMBLE(readings, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE SINK to_files FROM per_minute WITH (connector = 'filesystem', path = 's3://lake/out')
FORMAT PLAIN ENCODE CSV (without_header = true);
"""


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_what_is_concealed_is_found_in_every_notation(name: str) -> None:
    secret = SECRETS[name]
    conceal(secret)
    escaped = quote(secret, safe="")
    for text in (secret, escaped, quote_plus(secret), json.dumps(secret), repr({"a": secret})):
        assert masked(f"x{text}y").count("***") == 1, text
    in_lower_case = re.sub("%..", lambda code: code[0].lower(), escaped)
    in_sql, in_bytes = secret.replace("'", "''"), secret.encode()
    for text in (in_lower_case, in_sql, html.escape(secret), str(markupsafe.escape(secret)), repr(in_bytes)):
        assert masked(f"x{text}y").count("***") == 1, text
    for text in (ascii(secret), in_bytes.hex()):
        assert masked(f"x{text}y").count("***") == 1, text
    for user in ("", "u", "us", "use"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            login = encode(f"{user}:{secret}".encode()).decode()
            shown = masked(f"Basic {login}")
            assert "***" in shown
            assert not any(login[at : at + 8] in shown for at in range(8, len(login) - 8))
    error = TidegateError("TG605", secret, hint=secret, location=Location("f", 1, 1, 1, secret))
    assert secret not in str(error) + json.dumps(error.to_dict()) + masked_traceback(error)


def test_logs_of_all_libraries_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    conceal(TOKEN)
    logger = logging.getLogger("some.library")
    logger.warning("sent %s and %d", TOKEN, 3)
    logger.warning({"a": TOKEN})
    logger.warning("%s", "nothing")
    try:
        raise ValueError(TOKEN)
    except ValueError:
        logger.exception("it failed")
    assert "sent *** and 3" in caplog.text
    assert "ValueError: ***" in caplog.text
    assert TOKEN not in caplog.text


class Unprintable:
    """As a library's object may be that is half made when it is logged."""

    def __repr__(self) -> str:
        raise RuntimeError(TOKEN)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("a message without a place for it", (TOKEN,)),
        ("a number %d", (TOKEN,)),
        ("%(name)s", ({"other": TOKEN},)),
        ("%s", (Unprintable(),)),
    ],
)
def test_X4_a_library_that_logs_wrongly_tells_no_secret_and_goes_on(
    text: str, arguments: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    conceal(TOKEN)
    logger = logging.Logger("some.library")
    logger.addHandler(logging.StreamHandler(sys.stderr))
    logger.warning(text, *arguments)
    said = capsys.readouterr().err
    assert said
    assert TOKEN not in said


PRINTING = """
import threading, warnings
from tidegate.masking import conceal
conceal("{token}")
warnings.warn("sent {token}", stacklevel=1)
warnings.warn("sent nothing", stacklevel=1)
def fail(said):
    raise ValueError(said)
for said in ("{token}", "another"):
    thread = threading.Thread(target=fail, args=(said,))
    thread.start()
    thread.join()
class Closed:
    def __del__(self):
        raise ValueError("{token}")
Closed()
fail("{token}")
"""


def test_what_python_prints_by_itself_is_masked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTING.replace("{token}", TOKEN)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "platform")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert TOKEN not in done.stdout + done.stderr
    assert done.stderr.count("ValueError: ***") == 3
    for said in ("UserWarning: sent ***", "UserWarning: sent nothing", "ValueError: another"):
        assert said in done.stderr


@contextmanager
def hostile() -> Iterator[str]:
    """A server that refuses everybody, and repeats what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = (
                f"you sent {self.headers.get('Authorization')} {self.path} {os.environ['REGISTRY_PASSWORD']}"
            )
            body = json.dumps({"error": {"message": said, "type": said, "code": 401}}).encode()
            self.send_response(401, said.replace("\n", " "))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Not on the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def plant(root: Path, s3: str, other: str) -> Project:
    """The project, with rows in its bucket."""
    conf = {
        **QUICK,
        "spark.driver.memory": "1g",
        "spark.log.level": "DEBUG",
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": f"file://{root}/events",
        "spark.eventLog.compress": False,
        "spark.ui.enabled": True,
        "spark.ui.port": 0,
        "spark.hadoop.fs.azure.account.key.x.example": "${AZURE}",
        "spark.planted": "${SETTING_SECRET}",
        # Spark's launcher reads these, and puts the options of the JVM on its command line.
        "spark.jars.repositories": "https://me:${REPOSITORY_PASSWORD}@127.0.0.1:9/maven",
        "spark.driver.extraJavaOptions": f"{QUICK['spark.driver.extraJavaOptions']} -Dplanted='${{OPTION_SECRET}}'",
    }
    storage = {
        "endpoint": s3,
        "region": "us-east-1",
        "access_key_id": "${LAKE_KEY}",
        "secret_access_key": "${LAKE_SECRET}",
        "path_style": True,
    }
    jdbc = {"jdbc.user": "me", "jdbc.password": "${CATALOG_PASSWORD}"}
    address = f"jdbc:sqlite:{root}/catalog.db?password=${{ADDRESS_PASSWORD}}"
    lake = {"type": "jdbc", "uri": address, "properties": jdbc}
    rest = {"type": "rest", "uri": other, "properties": {"token": "${REST_TOKEN}"}}
    for name, catalog in (("lake", lake), ("rest", rest)):
        warehouse = {"path": "s3://lake/tidegate", "catalog": catalog, "storage": storage}
        settings = {"spark": {"master": "local[2]", "conf": conf}, "warehouse": warehouse}
        settings["allow"] = {
            "variables": ["KAFKA_PASSWORD", "REGISTRY_PASSWORD"],
            "folders": [".", "s3://lake/in", "s3://lake/out"],
            "alerts": ["ALERT_PATH"],
        }
        (root / "resources").mkdir(exist_ok=True)
        (root / "resources" / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    (root / "jobs").mkdir()
    target = {"name": "team", "url": f"{other.replace('http', 'json')}/${{ALERT_PATH}}"}
    alerts = {"targets": [target], "routes": [{"to": ["team"]}]}
    (root / "jobs" / "alerts.yaml").write_text(yaml.safe_dump({"alerts": alerts}))
    (root / "token").write_text(TOKEN)
    (root / "events").mkdir()
    (root / "assets").mkdir()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        sql = SQL.replace("{broker}", f"127.0.0.1:{closed.getsockname()[1]}").replace("{hostile}", other)
    (root / "assets" / "all.sql").write_text(sql)
    project = Project.load(root, "lake")
    bucket(project.storage, "lake")
    for minute in (0, 1):
        row = {"id": minute, "meter": "a", "ts": f"2026-01-01 00:0{minute}:30"}
        with project.storage.filesystem()[0].open_output_stream(f"lake/in/{minute}.json") as file:
            file.write(json.dumps(row).encode() + b"\n")
    return project


@pytest.mark.jvm
def test_no_secret_is_in_anything_that_a_run_leaves_or_prints(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**SECRETS, "LAKE_KEY": "key"}.items():
        monkeypatch.setenv(name, value)
    with hostile() as other:
        project = plant(tmp_path, store, other)
        done = subprocess.run(
            [sys.executable, "-m", "tests.security.planted"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}"},
            capture_output=True,
            text=True,
            timeout=400,
        )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "ROWS 1" in said
    assert "OPTION True" in said
    assert "REFUSED 7 of 7" in said
    token = tmp_path / ".tidegate" / "logs" / "spark.ui-token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert "COMPACTED (4, 2)" in said
    assert [line.split()[1] for line in said.splitlines() if line.startswith("TOLD")] == [
        *("kafka", "registry", "rest", "alert")
    ]
    left = {"what was printed": said.encode()}
    given = {tmp_path / name for name in ("token", "assets/all.sql")}
    left |= {
        str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path not in given
    }
    filesystem, _ = project.storage.filesystem()
    for info in filesystem.get_file_info(FileSelector("lake", recursive=True)):
        if info.is_file:
            left[f"s3://{info.path}"] = filesystem.open_input_stream(info.path).read()
    kinds = ("events/", "python.log", "logs/spark.log", "ui.txt", "processes.txt", "/metadata/", "catalog.db")
    for kind in kinds:
        assert any(kind in name and content for name, content in left.items()), kind
    # The key of the UI's token is 32 random bytes in base64.
    keys = re.findall(rb"JWSFilter\.param\.secretKey.{,200}", b"".join(left.values()), re.DOTALL)
    assert any(b"*********(redacted)" in key for key in keys)
    assert not [key for key in keys if re.search(rb"[\w-]{43}", key.split(b"secretKey")[1])]
    found = {
        (variable, name, content[max(0, at - 150) : at + 60])
        for variable, secret in {**SECRETS, "TOKEN": TOKEN}.items()
        for needle in needles(secret)
        for name, content in left.items()
        if (at := content.find(needle)) >= 0
    }
    assert not found


def needles(secret: str) -> set[bytes]:
    """A secret as it stands, and its part that no notation changes."""
    letters = max(secret.replace("\\", " ").replace("+", " ").replace("/", " ").split('"'), key=len)
    return {secret.encode(), letters.split()[0].encode(), base64.b64encode(secret.encode())}
