"""Owner-only folders, and one clear error for each way in which a disk refuses."""

from __future__ import annotations

import ast
import errno
import os
import resource
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.jvm import spark as spark_room
from tidegate.jvm.failures import failed
from tidegate.jvm.spark import _scratch
from tidegate.live.logs import FileLog
from tidegate.project import Project
from tidegate.project.disk import private_folder, temporary_space, trouble
from tidegate.runtime.lease import lease
from tidegate.session.session import Session

REFUSALS = [
    (OSError(errno.ENOSPC, "No space left on device", "/w/x"), "/w/x can't be used: the disk is full"),
    (OSError(errno.EDQUOT, "Disk quota exceeded", "/w/x"), "/w/x can't be used: the disk is full"),
    (
        OSError(errno.EROFS, "Read-only file system", "/w/x"),
        "/w/x can't be used: the file system is read-only",
    ),
    (PermissionError(errno.EACCES, "Permission denied", "/w/x"), "/w/x can't be used: permission is denied"),
    (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "no space for temporary files"),
    (
        RuntimeError("java.io.FileNotFoundException: /w/x.avro (Read-only file system)"),
        "/w/x.avro can't be used: the file system is read-only",
    ),
    (
        RuntimeError("java.io.FileNotFoundException: /w/x (Permission denied)"),
        "/w/x can't be used: permission is denied",
    ),
    (RuntimeError("java.io.IOException: No space left on device"), "the disk is full"),
    (
        RuntimeError("Failed to create a temp directory (under /t) after 10 attempts!"),
        "no space for temporary files",
    ),
    (RuntimeError("[Errno 28] Error writing bytes to file '/w/x'. Detail: No space left on device"), "/w/x"),
]


@pytest.mark.parametrize(("error", "said"), REFUSALS, ids=lambda value: str(value)[:60])
def test_a_refusal_of_the_disk_is_one_error_that_says_what_to_do(error: Exception, said: str) -> None:
    for seen in (trouble(error), failed("a batch", error)):
        assert seen is not None
        assert seen.code == "TG623"
        assert said in seen.message
        assert "when this is repaired, run the same command again" in (seen.hint or "")


def test_other_errors_are_what_they_were() -> None:
    assert trouble(FileNotFoundError(2, "No such file", "/x")) is None
    assert trouble(ValueError("permission of Kafka was denied")) is None
    assert trouble(TidegateError("TG502", "No space left on device")) is None


def test_what_an_error_comes_from_counts() -> None:
    with pytest.raises(RuntimeError) as caught:
        _raise_from(OSError(errno.ENOSPC, "No space left on device", "/w/x"))
    found = trouble(caught.value)
    assert found is not None
    assert found.message == "/w/x can't be used: the disk is full"


def _raise_from(error: Exception) -> None:
    raise RuntimeError("task failed") from error


class _Java:
    """An exception of the JVM. As with Py4J, each answer is another object, which equals the others."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Java) and other.name == self.name

    def getCause(self) -> _Java:
        return _Java({"one": "other", "other": "one"}[self.name])

    def getClass(self) -> _Java:
        return self

    def getName(self) -> str:
        return self.name

    toString = getName


def test_errors_that_name_each_other_as_their_cause_are_looked_at_once() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__context__ = other, one
    assert trouble(one) is None
    one.java_exception = _Java("one")  # type: ignore[attr-defined]
    assert trouble(other) is None
    other.__context__ = full = OSError(errno.ENOSPC, "No space left on device", "/w/x")
    full.__context__ = one
    found = trouble(one)
    assert found is not None
    assert found.message == "/w/x can't be used: the disk is full"


def test_a_command_says_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "/shop/.tidegate")

    (tmp_path / "assets").mkdir()
    monkeypatch.setattr(Project, "catalog", refuse)
    result = CliRunner().invoke(app, ["check", "--project", str(tmp_path)])
    assert result.exit_code == 2
    assert "error TG623: /shop/.tidegate can't be used: the file system is read-only" in result.stderr


def test_folders_of_data_and_settings_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        project = Project(tmp_path)
        with lease(project.state_dir / "locks", "t"):
            pass
        project.save_definition("t", "CREATE TABLE t (id INT)")
        FileLog(project.state_dir / "logs" / "live.log").close()
        for folder in (project.state_dir, *(path for path in project.state_dir.rglob("*") if path.is_dir())):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
        # What is there already is its owner's decision.
        (shared := tmp_path / "shared").mkdir(mode=0o755)
        private_folder(shared / "inside")
        assert stat.S_IMODE(shared.stat().st_mode) == 0o755
        assert stat.S_IMODE((shared / "inside").stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.jvm
def test_no_temporary_space_is_one_error_before_anything_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop" / "assets").mkdir(parents=True)
    (tmp_path / "shop" / "assets" / "a.sql").write_text("CREATE TABLE t (id INT) APPEND ONLY;")
    (tmp_path / "file").write_text("")
    (tmp_path / "a.slt").write_text("statement ok\nSELECT 1\n")
    monkeypatch.setattr(spark_room.secrecy, "launch", None)
    before = [p for p in tmp_path.rglob("*") if p.is_file()]
    for folder, why in ((tmp_path / "gone", "No such file"), (tmp_path / "file", "Not a directory")):
        monkeypatch.setenv("TMPDIR", str(folder))
        commands = (
            ["run", "--project", str(tmp_path / "shop")],
            ["sql", "-c", "SELECT 1"],
            ["test", str(tmp_path / "a.slt")],
        )
        for command in commands:
            result = CliRunner().invoke(app, command)
            assert result.exit_code == 2
            said = f"error TG623: {folder} can't be used: there is no space for temporary files: {why}"
            assert said in result.stderr
            assert "set TMPDIR" in result.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == before


def test_a_temporary_folder_without_room_is_known_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert temporary_space() == str(tmp_path)
    # What TMPDIR says is meant for the JVM, too, unless it has folders of its own; one of these is enough.
    assert _scratch(None) == {"spark.local.dir": str(tmp_path)}
    (tmp_path / "file").write_text("")
    assert _scratch(f"{tmp_path}/file/x, {tmp_path}/made") == {}
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    with pytest.raises(TidegateError, match="Not a directory") as caught:
        _scratch(f"{tmp_path}/file/x")
    assert caught.value.code == "TG623"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(TidegateError, match="no space for temporary files: File too large") as caught:
            temporary_space()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.code == "TG623"
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["file"]
    monkeypatch.delenv("TMPDIR")
    assert _scratch(None) == {}


@pytest.mark.medium
def test_every_temporary_file_is_where_there_is_room() -> None:
    for path in sorted((ROOT / "platform" / "tidegate").rglob("*.py")):
        calls = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
        for call in calls:
            if ast.unparse(call.func).startswith("tempfile.") and "gettempdir" not in ast.unparse(call.func):
                assert "dir" in {k.arg for k in call.keywords}, f"{path}:{call.lineno}"


def test_a_warehouse_of_this_machine_is_made_before_spark_and_for_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp")

    (tmp_path / "assets").mkdir()
    monkeypatch.setattr(spark_room, "start", full)
    with pytest.raises(OSError, match="No space"):
        Session.open(tmp_path)
    assert stat.S_IMODE((tmp_path / ".tidegate" / "warehouse").stat().st_mode) == 0o700
