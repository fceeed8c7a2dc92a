"""pyiceberg's access to files, by the client of S3 that asks again where an answer breaks off (`s3_files.py`)."""

from __future__ import annotations

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from tidegate.s3_files import S3Files


class S3Reading(PyArrowFileIO):
    """For the tables of a catalog, as pyiceberg is told of it in `Storage.pyiceberg_properties`."""

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        return S3Files.like(super()._initialize_s3_fs(netloc))
