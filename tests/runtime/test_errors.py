"""Every error code of the engine: registered, raised somewhere, and (where no other test does) failing here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Workbench
from tests.session.test_session import EVENTS
from tests.test_architecture import SPARK
from tidegate import TidegateError
from tidegate.advise.advice import advise
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.jvm import failures
from tidegate.jvm.jars import ivy_name, verify
from tidegate.jvm.packages import ICEBERG_PACKAGE
from tidegate.runtime.codes import CODES, is_curable


def test_every_code_is_registered_raised_and_tested() -> None:
    def codes(*folders: str) -> set[str]:
        files = [p for folder in folders for p in (ROOT / folder).rglob("*.py") if p.name != "codes.py"]
        return set(re.findall(r"\bTG5\d\d\b", "".join(p.read_text(encoding="utf-8") for p in files)))

    assert codes(*(f"platform/tidegate/{room}" for room in (*SPARK, "audit")), "assets") == set(CODES)
    assert set(CODES) <= codes(*(f"tests/{room}" for room in (*SPARK, "cli")))


def test_TG518_another_jar_under_the_name_of_ours_is_not_loaded(tmp_path: Path) -> None:
    (jar := tmp_path / ivy_name(ICEBERG_PACKAGE)).write_bytes(b"another")
    with pytest.raises(TidegateError) as refused:
        verify({jar.name: jar})
    assert refused.value.code == "TG518"


@pytest.mark.medium
def test_the_page_of_errors_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import error_page; print(error_page.page(), end='')"],
        cwd=ROOT / "infra",
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == done.stdout


def test_TG509_and_TG512_questions_to_the_wrong_thing(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(EVENTS)
    for code, ask in (
        ("TG509", lambda: session.relation("per_hour")),
        ("TG512", lambda: audit_view(session, "events")),
        ("TG512", lambda: audit_view(session, "per_hour")),
        ("TG512", lambda: audit_source(session, "events")),
        ("TG512", lambda: advise(session, "events")),
    ):
        with pytest.raises(TidegateError) as caught:
            ask()
        assert caught.value.code == code
        assert caught.value.hint


def refused(code: str, tmp_path: Path) -> str:
    """Standard output of a Python process that is to end with a TidegateError, and prints it."""
    script = f"import tidegate\ntry:\n    {code}\nexcept tidegate.TidegateError as error:\n    print(error)\n"
    environment = os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout + done.stderr


@pytest.mark.jvm
def test_TG501_a_session_without_iceberg(tmp_path: Path) -> None:
    session = (
        "__import__('pyspark').sql.SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".config('spark.driver.host', '127.0.0.1').config('spark.driver.bindAddress', '127.0.0.1').getOrCreate()"
    )
    text = refused(f"import pyspark.sql; tidegate.connect(spark={session})", tmp_path)
    assert "error TG501: this Spark session has no Iceberg runtime" in text
    assert "spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime" in text


def test_TG514_a_query_is_not_blamed_for_a_jvm_that_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("pyspark.SparkContext._gateway", type("Gateway", (), {"jvm": property(killed)})())
    error = failures.refused('the query of "v"', ConnectionRefusedError(111, "Connection refused"))
    assert (error.code, is_curable(error)) == ("TG514", True), "a worker that is started anew fares better"


@pytest.mark.jvm
def test_TG514_a_spark_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "local.yaml").write_text("spark:\n  conf:\n    spark.driver.memory: plenty\n")
    text = refused("tidegate.connect(project='.')", tmp_path)
    assert "error TG514: Spark does not start" in text
    assert "spark.log ends with:" in text
