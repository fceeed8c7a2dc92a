"""Files that Hadoop makes on a local disk in a Spark that lasts (`jvm.local_files`)."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from tidegate.jvm.local_files import without_processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def files(spark: SparkSession) -> Any:
    """What Iceberg, Spark and everything else of this JVM gets for `file:`."""
    location = spark._jvm.java.net.URI("file:///")
    return spark._jvm.org.apache.hadoop.fs.FileSystem.get(location, spark._jsc.hadoopConfiguration())


def _path(spark: SparkSession, path: Path) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(str(path))


def _rights(spark: SparkSession, mode: int) -> Any:
    return spark._jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}")


def test_a_file_gets_its_rights_without_a_process(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    assert files.getRawFileSystem().getClass().getName() == "tidegate.LocalFiles"
    file = tmp_path / "made"
    files.create(_path(spark, file)).close()
    assert S_IMODE(file.stat().st_mode) == 0o644
    assert [one.name for one in tmp_path.iterdir()] == ["made"], "no sums"
    for mode in (0o600, 0o777, 0o400, 0o640):
        files.setPermission(_path(spark, file), _rights(spark, mode))
        assert S_IMODE(file.stat().st_mode) == mode


def test_what_has_more_bits_keeps_them_as_chmod_does(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    folder = tmp_path / "of a group"
    folder.mkdir()
    folder.chmod(0o2750)
    files.setPermission(_path(spark, folder), _rights(spark, 0o755))
    assert S_IMODE(folder.stat().st_mode) == 0o2755
    files.setPermission(_path(spark, folder), _rights(spark, 0o1777))
    assert S_IMODE(folder.stat().st_mode) & 0o1777 == 0o1777


def test_a_link_gives_the_rights_to_what_it_leads_to(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to("there")
    files.setPermission(_path(spark, tmp_path / "link"), _rights(spark, 0o600))
    assert S_IMODE((tmp_path / "there").stat().st_mode) == 0o600


def test_a_file_that_is_not_there_is_an_error_of_input_and_output(
    spark: SparkSession, files: Any, tmp_path: Path
) -> None:
    with pytest.raises(Py4JJavaError) as refused:
        files.setPermission(_path(spark, tmp_path / "nothing"), _rights(spark, 0o600))
    assert spark._jvm.java.lang.Class.forName("java.io.IOException").isInstance(refused.value.java_exception)


def test_with_another_hadoop_everything_stays_as_it_is(
    spark: SparkSession, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files.getRawFileSystem()
    monkeypatch.setattr(
        "tidegate.jvm.local_files._BY_ITSELF", "public class Other extends org.gone.Nothing {}"
    )
    without_processes(spark)
    assert files.getRawFileSystem().equals(before)
