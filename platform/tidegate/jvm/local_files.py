"""Files of a local warehouse: what Hadoop does for each file that it makes, and that costs more than to write it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.jvm.compiled import compiled
from tidegate.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A folder may have more bits than these (the group of its files), which `chmod` leaves as they are.
_BY_ITSELF = """
package tidegate;

import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(Path path, FsPermission rights) throws java.io.IOException {
        java.nio.file.Path file = pathToFile(path).toPath();
        PosixFileAttributeView view = (PosixFileAttributeView) Files.getFileAttributeView(
            file, PosixFileAttributeView.class, new LinkOption[0]);
        if (view == null || rights.getStickyBit() || Files.isDirectory(file, new LinkOption[0])) {
            super.setPermission(path, rights);
        } else {
            view.setPermissions(PosixFilePermissions.fromString(rights.toString()));
        }
    }
}
"""


def without_sums(spark: SparkSession) -> None:
    """Have Hadoop write no file of checksums beside each file on a local disk. Nobody but Hadoop would read the sums,
    and data files, which tasks write, have none."""
    _local(spark).setWriteChecksum(False)


def without_processes(spark: SparkSession) -> None:
    """Have the JVM set the access rights of each file on a local disk by itself. Hadoop starts a process (`chmod`) for
    that, which is half of what a small commit costs. The class for it is compiled by what Spark compiles its own with:
    that costs as much as fifteen commits save, so it is for a Spark that lasts. With another Hadoop, where this is not
    possible, everything stays as it is."""
    from py4j.protocol import Py4JError

    jvm = spark._jvm
    with suppress(Py4JError, TypeError):
        files = compiled(jvm, "tidegate.LocalFiles", _BY_ITSELF)
        local = _local(spark)
        files.initialize(local.getUri(), spark._jsc.hadoopConfiguration())
        wrapped = java_class(jvm, "java.lang.Class").forName("org.apache.hadoop.fs.FilterFileSystem")
        field = wrapped.getDeclaredField("fs")
        field.setAccessible(True)
        field.set(local, files)


def _local(spark: SparkSession) -> Any:
    """Hadoop's file system of local disks, the same one for the whole JVM."""
    files = java_class(spark._jvm, "org.apache.hadoop.fs.FileSystem")
    return files.getLocal(spark._jsc.hadoopConfiguration())
