"""What pyarrow's client of S3 can't do, by the client that Iceberg uses in the JVM: conditional writes, and to remove
objects without leaving others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate.jvm.java import java_class
from tidegate.jvm.spark import has_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.project import Storage
    from tidegate.project.object_store import ConditionalPut

_FACTORIES = "org.apache.iceberg.aws.AwsClientFactories"
_MODEL = "software.amazon.awssdk.services.s3.model"
#: The condition does not hold; or the same file is being written at this moment.
_NOT_HELD = (412, 409)
_REMOVAL = ("Delete", "DeleteObjectsRequest", "ObjectIdentifier")
#: How many objects one request may remove.
_AT_ONCE = 1000


class S3Conditions:
    """The conditional writes of a storage; one client for each."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._known: dict[tuple[tuple[str, str], ...], _S3Client] = {}

    def __call__(self, storage: Storage) -> ConditionalPut | None:
        """None in a Spark without Iceberg's jar for S3."""
        return self._client(storage)

    def serve(self, storage: Storage) -> None:
        """Let files of a storage on S3 be removed by its client, which is made when there is something to remove."""
        from tidegate.s3_files import S3Files

        if not storage.object_store:
            return
        files, _ = storage.filesystem("s3://any")
        assert isinstance(files, S3Files)

        def remove(paths: Sequence[str]) -> bool:
            client = self._client(storage)
            return client is not None and client.remove(paths)

        files.remover = remove

    def _client(self, storage: Storage) -> _S3Client | None:
        key = tuple(sorted(storage.s3_properties().items()))
        if key not in self._known:
            if not has_class(self._spark, _FACTORIES):
                return None
            self._known[key] = _S3Client(self._spark._jvm, dict(key))
        return self._known[key]


class _S3Client:
    """`ConditionalPut` is its call."""

    def __init__(self, jvm: Any, properties: dict[str, str]) -> None:
        settings = java_class(jvm, "java.util.HashMap")()
        for name, value in properties.items():
            settings.put(name, value)
        # `from` is a word of Python's.
        self._client = getattr(java_class(jvm, _FACTORIES), "from")(settings).s3()
        self._jvm = jvm

    def __call__(self, path: str, content: bytes, version: str | None) -> str | None:
        from py4j.protocol import Py4JJavaError

        bucket, _, key = path.partition("/")
        request = java_class(self._jvm, f"{_MODEL}.PutObjectRequest").builder().bucket(bucket).key(key)
        request = request.ifNoneMatch("*") if version is None else request.ifMatch(version)
        body = java_class(self._jvm, "software.amazon.awssdk.core.sync.RequestBody").fromBytes(content)
        try:
            return str(self._client.putObject(request.build(), body).eTag())
        except Py4JJavaError as error:
            java = error.java_exception
            if not java.getClass().getName().startswith(_MODEL) or java.statusCode() not in _NOT_HELD:
                raise
        return self._own(bucket, key, content)

    def _own(self, bucket: str, key: str, content: bytes) -> str | None:
        """The version that is there, if it is what was to be written: an answer was lost, and it was asked again."""
        asked = java_class(self._jvm, f"{_MODEL}.GetObjectRequest").builder().bucket(bucket).key(key).build()
        found = self._client.getObjectAsBytes(asked)
        return str(found.response().eTag()) if bytes(found.asByteArray()) == content else None

    def remove(self, paths: Sequence[str]) -> bool:
        """See `S3Files`; all paths are in one bucket."""
        from py4j.protocol import Py4JError

        bucket, keys = paths[0].partition("/")[0], [path.partition("/")[2] for path in paths]
        model = {name: java_class(self._jvm, f"{_MODEL}.{name}") for name in _REMOVAL}
        try:
            for start in range(0, len(keys), _AT_ONCE):
                objects = java_class(self._jvm, "java.util.ArrayList")()
                for key in keys[start : start + _AT_ONCE]:
                    objects.add(model["ObjectIdentifier"].builder().key(key).build())
                delete = model["Delete"].builder().objects(objects).build()
                request = model["DeleteObjectsRequest"].builder().bucket(bucket).delete(delete).build()
                if self._client.deleteObjects(request).hasErrors():
                    return False
        except Py4JError:
            # Also where this Spark has been stopped, but not the process.
            return False
        return True
