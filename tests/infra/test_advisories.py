"""`make audit`: known vulnerabilities are found, those that have a reason pass, and no answer is an error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.advisories.__main__ import main
from infra.advisories.accepted import read
from infra.advisories.page import PAGE, page
from infra.ivy import SPARK_JARS
from infra.jar_parts import GROUPS, SUMS, packed, part_of_ivy_name, part_of_spark_s_jar
from infra.kafka.broker import BROKER_SUMS
from tests.conftest import ROOT
from tests.infra.osv_server import StoredOsv, advisory, serve
from tidegate.jvm.packages import ivy_jars

LZ4 = advisory("GHSA-vqf4-7m7x-wgfc", "org.lz4:lz4-java", ["1.8.0"], "1.8.1", "CVE-2025-12183")
LEAK = advisory("GHSA-cmp6-m4wj-q63q", "org.lz4:lz4-java", ["1.8.0"], "1.10.1", "CVE-2025-66566")
NETTY = advisory(
    "GHSA-pwqr-wmgm-9rr8", "io.netty:netty-codec-http", ["4.2.7.Final"], "4.2.10.Final", "CVE-2026-33870"
)
FORMS = advisory("PYSEC-2026-248", "starlette", ["1.0.0"], "1.3.1")
PAGES = advisory("PYSEC-2026-161", "starlette", ["1.0.0"], "1.0.1", "CVE-2026-48710", "GHSA-86qp-5c8j-p5mr")

ACCEPTED = """
[[accepted]]
what = "lz4-java"
why = "only friends write to our topics"
parts = ["pkg:maven/org.lz4/lz4-java@{version}"]
ids = ["CVE-2025-12183"]
"""
#: The real program, where `make audit` or `make sbom` has installed it.
PIP_AUDIT = ROOT / ".tidegate" / "audit" / "bin" / "pip-audit"


@pytest.fixture
def osv() -> Iterator[StoredOsv]:
    with serve(StoredOsv(LZ4, LEAK, NETTY, PAGES)) as served:
        yield served


@pytest.fixture
def bill(tmp_path: Path) -> Path:
    """A bill of materials: a package, a jar of its own, and one in which another is packed."""
    inner = {"purl": "pkg:maven/io.netty/netty-codec-http@4.2.7.Final"}
    components = [
        {"purl": "pkg:pypi/starlette@1.0.0"},
        {"purl": "pkg:maven/org.lz4/lz4-java@1.8.0"},
        {"purl": "pkg:maven/com.example/bundle@1.0?classifier=all", "components": [inner]},
    ]
    file = tmp_path / "sbom.json"
    file.write_text(json.dumps({"components": components}))
    return file


@pytest.fixture
def nothing_accepted(tmp_path: Path) -> list[str]:
    file = tmp_path / "accepted.toml"
    file.write_text("accepted = []\n")
    return ["--accepted", str(file)]


def test_vulnerable_jars_are_named_with_what_they_are_packed_in_and_what_mends_them(
    osv: StoredOsv, bill: Path, nothing_accepted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(bill), "--osv-url", osv.url, *nothing_accepted]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "not accepted: GHSA-pwqr-wmgm-9rr8 CVE-2026-33870: io.netty:netty-codec-http 4.2.7.Final,"
        " packed in bundle@1.0: io.netty:netty-codec-http is vulnerable",
        "  mended in: 4.2.10.Final",
        "not accepted: GHSA-cmp6-m4wj-q63q CVE-2025-66566: org.lz4:lz4-java 1.8.0: org.lz4:lz4-java is vulnerable",
        "  mended in: 1.10.1",
        "not accepted: GHSA-vqf4-7m7x-wgfc CVE-2025-12183: org.lz4:lz4-java 1.8.0: org.lz4:lz4-java is vulnerable",
        "  mended in: 1.8.1",
        "3 known vulnerabilities: 0 accepted, 3 not",
    ]
    assert f"Asking {osv.url} about 3 artifacts of Maven …" in said.err
    assert "pkg:maven/com.example/bundle@1.0" in osv.asked, "without the classifier, which OSV does not know"


def test_the_accepted_pass_by_any_of_their_ids_and_for_one_version_only(
    osv: StoredOsv, bill: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    osv.advisories = {"GHSA-vqf4-7m7x-wgfc": LZ4}
    accepted = tmp_path / "accepted.toml"
    for version, code in (("1.8.0", 0), ("1.8.1", 1)):
        accepted.write_text(ACCEPTED.format(version=version))
        assert main([str(bill), "--osv-url", osv.url, "--accepted", str(accepted), "--json"]) == code
        (found,) = json.loads(capsys.readouterr().out)
        assert found["id"] == "GHSA-vqf4-7m7x-wgfc"
        assert found["part"] == "pkg:maven/org.lz4/lz4-java@1.8.0"
        assert found["accepted"] == (None if code else "only friends write to our topics")


def test_what_is_accepted_of_a_part_says_nothing_of_its_other_vulnerabilities(
    osv: StoredOsv, bill: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    osv.advisories = {"GHSA-vqf4-7m7x-wgfc": LZ4, "GHSA-cmp6-m4wj-q63q": LEAK}
    accepted = tmp_path / "accepted.toml"
    accepted.write_text(ACCEPTED.format(version="1.8.0"))
    assert main([str(bill), "--osv-url", osv.url, "--accepted", str(accepted)]) == 1
    assert "2 known vulnerabilities: 1 accepted, 1 not" in capsys.readouterr().out


def test_jars_of_a_file_of_sums_are_asked_about_too(
    osv: StoredOsv, bill: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bill.write_text('{"components": []}')
    sums = tmp_path / "jars.sha256"
    sums.write_text(f"{'0' * 64}  org.lz4_lz4-java-1.8.0.jar\n")
    assert main([str(bill), "--sums", str(sums), "--osv-url", osv.url, "--json"]) == 0
    assert [found["id"] for found in json.loads(capsys.readouterr().out)] == [
        "GHSA-cmp6-m4wj-q63q",
        "GHSA-vqf4-7m7x-wgfc",
    ], "both are on the list that we ship"


def test_all_pages_of_an_answer_are_read_and_withdrawn_advisories_are_left_out(
    osv: StoredOsv, bill: Path, nothing_accepted: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    more = [advisory(f"GHSA-{n}", "org.lz4:lz4-java", ["1.8.0"], "2.0") for n in range(5)]
    more.append(advisory("GHSA-gone", "org.lz4:lz4-java", ["1.8.0"], "2.0", withdrawn="2026-01-01T00:00:00Z"))
    osv.advisories = {each["id"]: each for each in more}
    osv.page = 2
    assert main([str(bill), "--osv-url", osv.url, "--json", *nothing_accepted]) == 1
    assert [found["id"] for found in json.loads(capsys.readouterr().out)] == [f"GHSA-{n}" for n in range(5)]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ((503, "later"), "answers 503"),
        ((200, "<html>Log in</html>"), "did not answer as OSV does: no JSON object"),
        ((200, '{"results": []}'), "did not answer as OSV does: no result for each question"),
        ((200, '{"results": [{"next_page_token": "a"}, {}, {}]}'), "did not answer as OSV does"),
    ],
)
def test_an_answer_that_is_none_is_an_error_and_not_a_clean_bill(
    osv: StoredOsv, bill: Path, capsys: pytest.CaptureFixture[str], broken: tuple[int, str], said: str
) -> None:
    osv.broken = broken
    assert main([str(bill), "--osv-url", osv.url]) == 2
    out, err = capsys.readouterr()
    assert not out
    (error,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert said in error
    assert "nothing is known of what it was asked" in error


def test_a_service_that_is_away_or_silent_is_an_error_in_one_line(
    osv: StoredOsv, bill: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    osv.may_answer.clear()
    assert main([str(bill), "--osv-url", osv.url, "--timeout", "0.1"]) == 2
    with serve(StoredOsv()) as gone:
        pass
    assert main([str(bill), "--osv-url", gone.url]) == 2
    assert main([str(bill), "--osv-url", "file:///etc"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert [error.split("; ")[0].split(": ")[1] for error in errors] == [
        f"{osv.url} cannot be reached",
        f"{gone.url} cannot be reached",
        "file:///etc is no address of a service",
    ]


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "requirements.lock"
    file.write_text(f"starlette==1.0.0 \\\n    --hash=sha256:{'0' * 64}\n")
    return file


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, printed: str, code: int) -> None:
    """A pip-audit that prints what the real one has printed, beside the interpreter."""
    program = folder / "pip-audit"
    program.write_text(f"#!{sys.executable}\nprint({printed!r})\nraise SystemExit({code})\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


FOUND = """{"dependencies": [{"name": "starlette", "version": "1.0.0", "vulns": [{"id": "PYSEC-2026-161",
"fix_versions": ["1.0.1"], "aliases": ["CVE-2026-48710", "GHSA-86qp-5c8j-p5mr"], "description": "starlette is …"}]}],
"fixes": []}"""
SKIPPED = """{"dependencies": [{"name": "starlette", "skip_reason": "Dependency not found on PyPI and could not be
audited: starlette (1.0.0)"}], "fixes": []}""".replace("\n", " ")


@pytest.mark.parametrize(
    ("printed", "ends", "code", "said"),
    [
        (FOUND, 1, 1, "not accepted: PYSEC-2026-161 CVE-2026-48710 GHSA-86qp-5c8j-p5mr: starlette 1.0.0"),
        (SKIPPED, 0, 2, "pip-audit could not ask about 1 packages"),
        ("", 1, 2, "pip-audit has no answer for"),
        ('{"dependencies": []}', 0, 2, "pip-audit found no packages in"),
    ],
    ids=["found", "skipped", "failed", "empty"],
)
def test_packages_that_pip_audit_skipped_are_no_clean_bill_although_it_ends_well(
    osv: StoredOsv,
    bill: Path,
    lock: Path,
    tmp_path: Path,
    nothing_accepted: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    printed: str,
    ends: int,
    code: int,
    said: str,
) -> None:
    stand_in(tmp_path, monkeypatch, printed, ends)
    osv.advisories = {}
    assert main([str(bill), str(lock), "--osv-url", osv.url, *nothing_accepted]) == code
    assert said in "".join(capsys.readouterr())


@pytest.mark.medium
def test_the_real_pip_audit_asks_the_service_that_was_given(
    osv: StoredOsv,
    bill: Path,
    lock: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert PIP_AUDIT.exists(), "`make test` and `make sbom` install pip-audit, in an environment of its own"
    monkeypatch.setattr(sys, "executable", str(PIP_AUDIT.with_name("python")))
    osv.advisories = {"PYSEC-2026-161": PAGES, "PYSEC-2026-248": FORMS}
    accepted = tmp_path / "accepted.toml"
    ids = 'parts = ["pkg:pypi/starlette@1.0.0"]\nids = ["GHSA-86qp-5c8j-p5mr"]'
    accepted.write_text(f'[[accepted]]\nwhat = "starlette"\nwhy = "not used"\n{ids}\n')
    assert main([str(bill), str(lock), "--osv-url", osv.url, "--accepted", str(accepted)]) == 1
    first, mended, second, why, summary = capsys.readouterr().out.splitlines()
    assert first == "not accepted: PYSEC-2026-248: starlette 1.0.0: starlette is vulnerable"
    assert mended == "  mended in: 1.3.1"
    assert second.startswith("accepted: PYSEC-2026-161 ")
    assert why == "  why: not used"
    assert summary == "2 known vulnerabilities: 1 accepted, 1 not"
    assert "pkg:pypi/starlette@1.0.0" in osv.asked


def shipped() -> set[str]:
    """The addresses of all that is in PySpark's jars, in those that tidegate adds, and in the broker's."""
    here = [*SPARK_JARS.glob("*.jar"), *(f for name in _ivy_names(SUMS) if (f := ivy_jars() / name).exists())]
    parts = {part for jar in here for part in packed(jar)}
    parts |= {part_of_spark_s_jar(jar) for jar in SPARK_JARS.glob("*.jar")}
    parts |= {part_of_ivy_name(name) for file in (SUMS, BROKER_SUMS) for name in _ivy_names(file)}
    return {part.purl.partition("?")[0] for part in parts}


def _ivy_names(file: Path) -> list[str]:
    return [line.split()[1] for line in file.read_text().splitlines()]


@pytest.mark.medium
def test_what_is_accepted_is_shipped() -> None:
    """An entry for a version that is gone would be read as if it were still so."""
    parts = {part for entry in read() for part in entry.parts}
    assert parts - shipped() == set()
    assert all(entry.ids and entry.what and entry.why for entry in read())


def test_a_vulnerability_is_accepted_once_for_each_part() -> None:
    pairs = [(part, id_) for entry in read() for part in entry.parts for id_ in entry.ids]
    assert len(pairs) == len(set(pairs))


def test_the_page_says_what_is_accepted_and_why() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, read()) == text, "run: python -m infra.advisories.page"


@pytest.mark.medium
def test_every_jar_of_spark_is_known_by_its_group_and_no_group_is_for_none() -> None:
    jars = sorted(SPARK_JARS.glob("*.jar"))
    assert jars
    assert all(part_of_spark_s_jar(jar).group for jar in jars)
    assert [start for start in GROUPS if not any(jar.name.startswith(start) for jar in jars)] == []


def test_make_audit_asks_about_every_lock() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\naudit: sbom")[2].partition("\n\n")[0]
    locks = {f"infra/{file.name}" for file in (ROOT / "infra").glob("*.lock")}
    assert {word for word in recipe.split() if word.endswith(".lock")} == locks - {"infra/image.lock"}
    pins = re.compile(r"^[a-z0-9-]+==\S+", re.MULTILINE)
    image, all_ = (
        set(pins.findall((ROOT / "infra" / f"{name}.lock").read_text())) for name in ("image", "requirements")
    )
    assert image
    assert image <= all_, "the image has nothing else"
