"""One environment: `resources/<env>.yaml`, where Spark runs and where tables live."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from tidegate.errors import Location, TidegateError
from tidegate.project.reading.sizes import Bytes
from tidegate.project.reading.strict import ScalarText, StrictModel, Text, refuse
from tidegate.project.reading.variables import Expanded

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
#: What Iceberg shows of a table, by the names under which its clients ask for it.
_METADATA_TABLES = frozenset(
    [
        "all_data_files",
        "all_delete_files",
        "all_entries",
        "all_files",
        "all_manifests",
        "data_files",
        "delete_files",
        "entries",
        "files",
        "history",
        "manifests",
        "metadata_log_entries",
        "partitions",
        "position_deletes",
        "refs",
        "snapshots",
    ]
)


class SparkSettings(StrictModel):
    """How Spark is started."""

    master: Text = "local[2]"
    """Spark master URL: `local[N]` for N cores of this machine, or `spark://host:7077`, `yarn`."""

    conf: dict[str, ScalarText] = Field(default_factory=dict)
    """Any Spark settings; they override tidegate's own. Values are text, numbers or booleans."""


class CatalogSettings(StrictModel):
    """The Iceberg catalog that knows which snapshot of a table is the current one."""

    type: Literal["hadoop", "jdbc", "rest"] = "hadoop"
    """`hadoop`: plain folders, on one machine. `jdbc`: a database. `rest`: an Iceberg REST server."""

    uri: Text | None = None
    """Address: `jdbc:postgresql://host/db` for jdbc, `https://host/…` for rest. Not for hadoop."""

    properties: dict[str, ScalarText] = Field(default_factory=dict)
    """More properties of the catalog (`jdbc.user`, `jdbc.password`, `credential`, …), for all readers."""

    @field_validator("type", mode="before")
    @classmethod
    def _known_type(cls, kind: object) -> object:
        """The catalogs that only Iceberg's Java has a client for have a REST endpoint, too."""
        if str(kind) in ("glue", "hive", "nessie"):
            raise refuse(
                f"a {kind} catalog is not supported",
                code="TG607",
                hint="use its REST endpoint: type: rest (docs/cluster.md has the settings)",
            )
        return kind

    @model_validator(mode="after")
    def _uri_where_needed(self) -> CatalogSettings:
        if self.type == "hadoop" and self.uri is not None:
            raise refuse(
                "a hadoop catalog must not have a uri", hint="set type to jdbc or rest, or remove uri"
            )
        if self.type != "hadoop" and not self.uri:
            raise refuse(f"a {self.type} catalog needs a uri", hint="add uri: … under catalog")
        if self.type == "jdbc" and not str(self.uri).startswith("jdbc:"):
            raise refuse(
                "the uri of a jdbc catalog must start with jdbc:", hint="jdbc:postgresql://host:5432/db"
            )
        if self.type == "rest" and not str(self.uri).startswith(("http://", "https://")):
            raise refuse("the uri of a rest catalog must start with http:// or https://")
        return self

    @model_validator(mode="after")
    def _commits_are_everybodys(self) -> CatalogSettings:
        """What commits go through has to be known to all who read and write: Spark, `status`, and other processes."""
        kind, uri = self.type, str(self.uri or "")
        if kind == "jdbc" and not uri.startswith(("jdbc:postgresql:", "jdbc:sqlite:")):
            raise refuse(
                f"a catalog in {':'.join(uri.split(':')[:2])} is not supported",
                code="TG607",
                hint="use jdbc:postgresql: for several machines, jdbc:sqlite: for one, or a rest catalog",
            )
        if kind == "jdbc" and re.match(r"jdbc:sqlite:(file:)?(:memory:|\?|$)|.*[?&]mode=memory", uri):
            raise refuse(
                "a catalog in memory would be another one for every process, and its tables would be lost",
                code="TG607",
                hint="name a file: jdbc:sqlite:.tidegate/warehouse/catalog.db",
            )
        own = [name for name in ("type", "catalog-impl") if name in self.properties]
        if own:
            raise refuse(
                f"{own[0]} under properties would be a catalog that only Spark knows",
                code="TG607",
                hint="set type to jdbc or rest; Glue, Hive and Nessie have a REST endpoint",
            )
        return self

    def require_name(self, name: str, location: Location | None = None) -> None:
        """TG607 for an object whose table a REST catalog may not find. Asked for `main.files`, Iceberg's client looks
        for the files of a table `main` that is in no namespace, and servers call that a malformed request."""
        if self.type == "rest" and name.lower() in _METADATA_TABLES:
            raise TidegateError(
                "TG607",
                f'"{name}" can\'t be in a rest catalog: it is the name of a metadata table of Iceberg',
                hint=f"give it another name, such as {name}_1",
                location=location,
            )


class StorageSettings(StrictModel):
    """Object storage: one set of credentials that Spark, pyarrow and pyiceberg all use.

    Only for `s3://` warehouses and sources. Without keys, each uses the ordinary AWS chain (environment,
    profile, instance role).
    """

    endpoint: Text | None = None
    """URL of an S3-compatible service (`https://minio.example:9000`); leave it out for AWS itself."""

    region: Text | None = None
    """Region, such as `eu-central-1`."""

    access_key_id: Text | None = None
    """Access key; together with `secret_access_key`."""

    secret_access_key: SecretStr | None = None
    """Secret key. Only as `${NAME}`: a secret written into the file is refused."""

    session_token: SecretStr | None = None
    """Token of temporary credentials. Only as `${NAME}`."""

    path_style: bool = False
    """Address buckets as `endpoint/bucket` instead of `bucket.endpoint`; MinIO and similar services need it."""

    @field_validator("endpoint")
    @classmethod
    def _full_url(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            raise refuse("the endpoint must be a URL", hint="write https://host:port")
        return endpoint

    @field_validator("secret_access_key", "session_token", mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        # SecretStr masks the value itself; it wants plain text.
        return str.__str__(value) if isinstance(value, Expanded) else value

    @model_validator(mode="after")
    def _keys_in_pairs(self) -> StorageSettings:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise refuse(
                "access_key_id and secret_access_key must be set together", hint="set both, or neither"
            )
        return self


class Warehouse(StrictModel):
    """Where tables are stored."""

    path: Text = ".tidegate/warehouse"
    """A folder (relative to the project), a `file://` URI, or `s3://bucket/prefix`."""

    namespace: Text = "main"
    """Iceberg namespace that holds the project's tables."""

    catalog: CatalogSettings = Field(default_factory=CatalogSettings)
    """Which catalog; a hadoop catalog in the folder by default."""

    storage: StorageSettings = Field(default_factory=StorageSettings)
    """Credentials and address of object storage."""

    @field_validator("path")
    @classmethod
    def _known_scheme(cls, path: str) -> str:
        scheme = _SCHEME.match(path)
        if scheme and scheme.group(1).lower() not in ("file", "s3"):
            hint = "write s3://" if scheme.group(1).lower() in ("s3a", "s3n") else None
            raise refuse(
                f"storage {scheme.group(1)}: is not supported",
                code="TG607",
                hint=hint or "use a folder, file:// or s3://",
            )
        if path.startswith("file:") and not path.startswith("file:///"):
            raise refuse("a file URI must have an absolute path", hint="write file:///folder/…")
        if not path.strip():
            raise refuse("the path is empty")
        return path

    @field_validator("namespace")
    @classmethod
    def _plain_name(cls, namespace: str) -> str:
        if not _NAME.match(namespace):
            raise refuse("a namespace may only have letters, digits and _")
        return namespace

    @model_validator(mode="after")
    def _atomic_commits(self) -> Warehouse:
        if self.path.startswith("s3:") and self.catalog.type == "hadoop":
            raise refuse(
                "a hadoop catalog cannot commit safely on s3 (it needs an atomic rename)",
                code="TG607",
                hint="set warehouse.catalog.type to rest or jdbc",
            )
        return self


class DecodingSettings(StrictModel):
    """How much one row may be, whatever its encoding; what is beyond is rejected, with the reason (X2)."""

    depth: Annotated[int, Field(ge=10, le=500)] = 500
    """How deeply the values of a row may be nested."""

    values: Annotated[int, Field(ge=1_000)] = 1_000_000
    """How many values a row may have, those in arrays and nested ones included."""

    row_bytes: Annotated[Bytes, Field(ge=1 << 10, le=256 << 20)] = 16 << 20
    """How many bytes a row may have, as it is stored: `16 MB`. At most 256 MB."""

    page_bytes: Annotated[Bytes, Field(ge=1 << 20, le=(2 << 30) - 1)] = 256 << 20
    """How many bytes a page of a Parquet file may have, without its compression: a worker has all of it in memory."""

    group_rows: Annotated[int, Field(ge=1_000)] = 100_000_000
    """How many rows a row group of a Parquet file may have."""

    seconds: Annotated[int, Field(ge=1)] = 60
    """Processor time that the decoding of about 65,000 rows may take."""

    elapsed_seconds: Annotated[int, Field(ge=1)] = 300
    """Wall-clock time that it may take: this ends a decoder that waits for ever."""


class AllowSettings(StrictModel):
    """What SQL may reach beside tables (X1). Each list, where it is given, is the whole list."""

    variables: list[Text] = Field(default_factory=list)
    """Names of the variables that `${NAME}` in SQL may use."""

    alerts: list[Text] = Field(default_factory=lambda: ["TIDEGATE_ALERT_URL"])
    """Names of further variables that only the targets of alerts may use: nothing else needs their secrets."""

    folders: list[Text] = Field(default_factory=lambda: ["."])
    """Where sources read and file sinks write: folders (`.` is the project's), or `s3://bucket/prefix`."""

    endpoints: list[Text] = Field(default_factory=lambda: ["localhost"])
    """Brokers and schema registries: `host` (any port), `host:port`, `*.domain`, or what a URL begins with.
    `localhost` is all of loopback."""

    code: list[Text] = Field(default_factory=list)
    """Java classes beside Kafka's own, and programs, that properties of Kafka's client may name."""

    python: bool = False
    """Whether `assets/*.py` is run, which brings the data sets of `dataset:NAME/…`."""


class Environment(StrictModel):
    """Everything an environment file may say. Every key is optional; an empty file is the local default."""

    spark: SparkSettings = Field(default_factory=SparkSettings)
    """How Spark is started."""

    warehouse: Warehouse = Field(default_factory=Warehouse)
    """Where tables are stored."""

    allow: AllowSettings = Field(default_factory=AllowSettings)
    """What SQL may reach beside tables."""

    decoding: DecodingSettings = Field(default_factory=DecodingSettings)
    """How large one row of a source may be."""

    reads: Text | None = None
    """Name of another environment, such as `production`: its sources and tables are read from its warehouse, and never
    written; views go into this environment's own namespace of it, and sinks deliver nothing. For branches."""

    project: Text | None = None
    """Name of the project in the record of who owns a table (X3); the name of its folder by default."""

    @model_validator(mode="after")
    def _a_namespace_of_its_own(self) -> Environment:
        if self.reads is None:
            return self
        extra = sorted(self.warehouse.model_fields_set - {"namespace"})
        if extra:
            raise refuse(
                (
                    f"an environment with reads: uses the warehouse of the other one: {extra[0]} can't be "
                    "set here"
                ),
                hint="under warehouse, set only namespace:",
            )
        if "namespace" not in self.warehouse.model_fields_set:
            raise refuse(
                "an environment with reads: needs a namespace of its own",
                hint="add warehouse: {namespace: dev_NAME}; it may hold ${VARIABLES}",
            )
        return self
