"""Class data sharing: a second JVM starts from the classes of a first one, and nothing depends on it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tidegate.jvm.class_archive import Purpose, archive_folder, java_options
from tidegate.jvm.packages import spark_jars
from tidegate.project.java import find_java


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_CLASS_ARCHIVES", str(tmp_path / "archives"))
    return tmp_path / "archives"


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "one.jar"
    path.write_bytes(b"PK")
    return path


def made_by(options: str) -> Path:
    return Path(options.split("-XX:ArchiveClassesAtExit=")[1])


@pytest.mark.long_run
@pytest.mark.jvm
def test_a_second_jvm_takes_its_classes_from_the_first_ones_archive(folder: Path) -> None:
    java, jars = find_java(), spark_jars()

    def start(*more: str) -> subprocess.CompletedProcess[str]:
        command = [
            java,
            *java_options(java, jars, Purpose()).split(),
            *more,
            "org.apache.spark.deploy.SparkSubmit",
            "--version",
        ]
        environ = os.environ | {"CLASSPATH": os.pathsep.join(map(str, jars))}
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=True)

    first, second = start(), start("-Xlog:class+load:stderr")
    loaded = [line for line in second.stderr.splitlines() if " org.apache.spark.deploy." in line]
    assert loaded
    from_jars = [line for line in loaded if "source: file:" in line]
    assert not from_jars, from_jars
    assert any("shared objects file (top)" in line for line in loaded)
    for process in (first, second):
        assert "cds" not in process.stdout + process.stderr, "nothing is said of archives"


def test_where_it_is_and_how_to_do_without(
    tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_CLASS_ARCHIVES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert archive_folder() == tmp_path / "cache" / "tidegate" / "jvm"
    assert made_by(java_options("/bin/sh", [jar], Purpose())).parent == archive_folder()
    for text in ("off", "OFF", ""):
        monkeypatch.setenv("TIDEGATE_CLASS_ARCHIVES", text)
        assert archive_folder() is None
        assert java_options("/bin/sh", [jar], Purpose()) == ""


def test_other_jars_and_other_work_have_archives_of_their_own(folder: Path, jar: Path) -> None:
    archive = made_by(java_options("/bin/sh", [jar], Purpose()))
    assert made_by(java_options("/bin/sh", [jar], Purpose())) == archive
    assert made_by(java_options("/bin/sh", [], Purpose())) != archive
    assert made_by(java_options("/bin/cat", [jar], Purpose())) != archive
    assert made_by(java_options("/bin/sh", [jar], Purpose("KafkaOptions"))) != archive
    jar.write_bytes(b"PKPK")
    assert made_by(java_options("/bin/sh", [jar], Purpose())) != archive


def test_an_archive_that_is_being_made_or_was_broken_off_is_not_used(folder: Path, jar: Path) -> None:
    archive = made_by(java_options("/bin/sh", [jar], Purpose()))
    archive.write_bytes(bytes(4096))
    assert java_options("/bin/sh", [jar], Purpose()) == "", "another JVM writes it"
    long_ago = time.time() - 3600
    os.utime(archive, (long_ago, long_ago))
    assert made_by(java_options("/bin/sh", [jar], Purpose())) == archive, "whoever wrote it was killed"
    archive.write_bytes(b"\xa8\xba\x0b\xf0" + bytes(4092))
    assert f"-XX:SharedArchiveFile={archive}" in java_options("/bin/sh", [jar], Purpose())


def test_a_folder_that_is_named_is_for_all_users_and_that_in_the_cache_for_one(
    tmp_path: Path, folder: Path, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o022)
    try:
        java_options("/bin/sh", [jar], Purpose())
        monkeypatch.delenv("TIDEGATE_CLASS_ARCHIVES")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        java_options("/bin/sh", [jar], Purpose())
    finally:
        os.umask(before)
    cache = tmp_path / "cache" / "tidegate"
    assert [one.stat().st_mode & 0o777 for one in (folder, cache, cache / "jvm")] == [0o755, 0o700, 0o700]


def test_what_nothing_starts_from_any_more_goes(folder: Path, jar: Path) -> None:
    old, used = folder / "old.jsa", folder / "used.jsa"
    folder.mkdir()
    for file in (old, used):
        file.write_bytes(b"CDS.")
    days = 30 * 86_400
    os.utime(old, (time.time() - days - 60,) * 2)
    os.utime(used, (time.time() - days + 60,) * 2)
    made_by(java_options("/bin/sh", [jar], Purpose()))
    assert not old.exists()
    assert used.exists()


def test_what_runs_for_long_starts_from_an_archive_and_makes_none(folder: Path, jar: Path) -> None:
    lasting = Purpose(lasting=True)
    assert java_options("/bin/sh", [jar], lasting) == ""
    made_by(java_options("/bin/sh", [jar], Purpose())).write_bytes(b"CDS.")
    assert "-XX:SharedArchiveFile=" in java_options("/bin/sh", [jar], lasting)


def test_a_folder_that_is_only_read_gives_archives_and_gets_none(
    folder: Path, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = made_by(java_options("/bin/sh", [jar], Purpose()))
    monkeypatch.setenv("TIDEGATE_CLASS_ARCHIVES", f"{folder}:ro")
    assert archive_folder() == folder
    assert java_options("/bin/sh", [jar], Purpose()) == ""
    archive.write_bytes(b"CDS.")
    assert f"-XX:SharedArchiveFile={archive}" in java_options("/bin/sh", [jar], Purpose())
    assert java_options("/bin/sh", [jar], Purpose("KafkaOptions")) == ""


def test_a_folder_that_can_not_be_made_or_named_is_no_error(
    tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "below", tmp_path / "with a blank"):
        monkeypatch.setenv("TIDEGATE_CLASS_ARCHIVES", str(place))
        assert java_options("/bin/sh", [jar], Purpose()) == ""
