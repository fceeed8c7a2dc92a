"""Conditional writes to S3, by the client that Iceberg uses in the JVM: pyarrow has none."""

from __future__ import annotations

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


class S3Conditions:
    """The conditional writes of a storage; one client for each."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._known: dict[tuple[tuple[str, str], ...], ConditionalPut] = {}

    def __call__(self, storage: Storage) -> ConditionalPut | None:
        """None in a Spark without Iceberg's jar for S3."""
        key = tuple(sorted(storage.s3_properties().items()))
        if key not in self._known:
            if not has_class(self._spark, _FACTORIES):
                return None
            self._known[key] = _S3Put(self._spark._jvm, dict(key))
        return self._known[key]


class _S3Put:
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
