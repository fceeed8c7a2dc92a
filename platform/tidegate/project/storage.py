"""Storage: from one set of credentials, the settings of Spark, of pyarrow and of pyiceberg."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from tidegate.confidential import is_secret, passwords_in
from tidegate.errors import TidegateError
from tidegate.project.environment import StorageSettings, Warehouse
from tidegate.project.object_store import read_whole, s3_filesystem
from tidegate.project.owner import Owner
from tidegate.project.reading.variables import Expanded

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: Name of the Spark catalog, and of the catalog as a jdbc or rest server knows it.
CATALOG = "tidegate"

#: Iceberg's own access to S3, with Amazon's SDK in it.
AWS_BUNDLE = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
S3_FILES = "org.apache.iceberg.aws.s3.S3FileIO"
#: pyiceberg's, by the name of what makes it.
_PYICEBERGS_FILES = "tidegate.store.rows.s3_reading"
#: For sources on S3: Hadoop's file system, which Spark's readers use, and the two parts of the SDK that it needs and
#: Iceberg's bundle does not have. (hadoop-aws depends on a bundle of 600 MB.) The SDK's version is Iceberg's.
S3A_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.4.2",
    "software.amazon.awssdk:apache-client:2.54.17",
    "software.amazon.awssdk:s3-transfer-manager:2.54.17",
)
#: What those would bring along, and is there already: in the bundle, or in Spark. As `spark.jars.excludes` takes it.
EXCLUDED_PACKAGES = (
    "software.amazon.awssdk:bundle",
    "software.amazon.awssdk:s3",
    "software.amazon.awssdk:sdk-core",
    "software.amazon.awssdk:aws-core",
    "software.amazon.awssdk:utils",
    "software.amazon.awssdk:annotations",
    "software.amazon.awssdk:regions",
    "software.amazon.awssdk:json-utils",
    "software.amazon.awssdk:protocol-core",
    "software.amazon.awssdk:auth",
    "software.amazon.awssdk:http-client-spi",
    "software.amazon.awssdk:metrics-spi",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3",
    "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
    "commons-codec:commons-codec",
    "org.wildfly.openssl:wildfly-openssl",
    "org.checkerframework:checker-qual",
)
#: The driver of a catalog in SQLite, which new projects have.
SQLITE_PACKAGE = "org.xerial:sqlite-jdbc:3.50.3.0"
_SQLITE = "jdbc:sqlite:"
_JDBC_DRIVERS = {"jdbc:postgresql:": "org.postgresql:postgresql:42.7.12", _SQLITE: SQLITE_PACKAGE}
#: How long whoever finds SQLite's file locked waits for it. A commit holds the lock for some milliseconds.
BUSY_SECONDS = 30

#: Everything that `Storage.packages` may name: what an image has to hold, so that no container fetches it.
OPTIONAL_PACKAGES = (AWS_BUNDLE, *S3A_PACKAGES, *_JDBC_DRIVERS.values())


#: Options of PostgreSQL's driver for Java, and what libpq calls them, by which `status` connects.
_LIBPQ = {
    **{name: name for name in ("user", "password", "sslmode", "sslrootcert", "sslcert", "sslkey", "options")},
    "ApplicationName": "application_name",
    "channelBinding": "channel_binding",
    "connectTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "kerberosServerName": "krbsrvname",
}
_S3_SECRETS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")


@dataclass(frozen=True)
class Storage:
    """Where an environment's tables are and how to get at them. Picklable: executors get it too.

    `root` is the folder that relative local paths start from; `warehouse` the settings. `lent`: sources, tables
    and views that are in the namespace `lender`, and that are only read here. `owner`: whose tables are that are made
    here. Local paths, `file://` and `s3://` are understood everywhere (TG607 otherwise).
    """

    root: Path
    settings: Warehouse = field(default_factory=Warehouse)
    lender: str | None = None
    lent: frozenset[str] = frozenset()
    owner: Owner | None = None

    @cached_property
    def sqlite(self) -> Path | None:
        """The file of a catalog in SQLite; None for any other catalog. A relative path starts from the project."""
        uri = str(self.settings.catalog.uri or "")
        if self.settings.catalog.type != "jdbc" or not uri.startswith(_SQLITE):
            return None
        path = uri.removeprefix(_SQLITE).removeprefix("file:").partition("?")[0]
        return (self.root / path).absolute()

    @property
    def has_folder_catalog(self) -> bool:
        """Whether the catalog is a folder, where only a lease keeps two writers apart."""
        return self.settings.catalog.type == "hadoop"

    @property
    def on_this_machine(self) -> bool:
        """Whether the catalog is of one machine, a folder or a file. Then leases keep all writers apart, and amendments
        and upkeep take them: a folder has nothing else."""
        return self.has_folder_catalog or self.sqlite is not None

    @cached_property
    def warehouse(self) -> str:
        """URI of the warehouse, without a trailing slash: `file:///…` (not percent-encoded) or `s3://…`."""
        return self.uri(self.settings.path)

    @cached_property
    def local_warehouse(self) -> Path | None:
        """The warehouse as a folder of this machine, or None if it is object storage."""
        return Path(_local(self.warehouse)) if self.warehouse.startswith("file:") else None

    def namespace_of(self, name: str) -> str:
        """The namespace that the table of a source, table or view is in."""
        return self.lender if self.lender is not None and self.is_lent(name) else self.settings.namespace

    def is_lent(self, name: str) -> bool:
        """Whether a source, table (or its `$state`) or view is another environment's, and only read here."""
        return name.removesuffix("$state") in self.lent

    def uri(self, path: str) -> str:
        """`path` (relative to the project, absolute, `file:` or `s3://`) as a full URI."""
        if path.startswith("s3://"):
            return path.rstrip("/")
        if re.match(r"^[A-Za-z][A-Za-z0-9+.-]+:", path) and not path.startswith("file:"):
            raise TidegateError(
                "TG607", f"storage of {path} is not supported", hint="use a folder, file:// or s3://"
            )
        local = Path(_local(path) if path.startswith("file:") else path).expanduser()
        # Hadoop's Path takes the text as it is: a percent-encoded blank would become part of the name.
        return f"file://{(self.root / local).absolute()}"

    def table_uri(self, name: str) -> str:
        """Folder of a table in a hadoop catalog: `<warehouse>/<namespace>/<name>`."""
        return f"{self.warehouse}/{self.namespace_of(name)}/{name}"

    def work_folder(self, name: str) -> str:
        """Where what is not in tables is kept: plans and checkpoint of a source, position of a sink."""
        return f"{self.warehouse}/_streams/{self.settings.namespace}/{name}"

    @property
    def object_store(self) -> bool:
        """Whether Spark is set up for `s3://`: the warehouse is there, or `warehouse.storage` says how to reach it."""
        return self.warehouse.startswith("s3:") or self.settings.storage != StorageSettings()

    @property
    def _tables_on_s3(self) -> bool:
        """Whether tables are, or may be, on S3: a REST server decides where they are, wherever the warehouse is."""
        return self.warehouse.startswith("s3:") or (
            self.settings.catalog.type == "rest" and self.object_store
        )

    def require_object_store(self, what: str, path: str) -> None:
        """TG607 if `path` is on S3, and this environment does not say how Spark gets there."""
        if path.startswith("s3://") and not self.object_store:
            raise TidegateError(
                "TG607",
                f"{what} reads {path}, but this environment has no settings for S3",
                hint="add warehouse.storage to its file; `region` is enough to give Spark the jars",
            )

    def spark_conf(self) -> dict[str, str]:
        """All settings of a session: `spark.sql.catalog.tidegate*`, and Hadoop's for sources on S3."""
        prefix = f"spark.sql.catalog.{CATALOG}"
        catalog = self.settings.catalog
        properties = {"type": catalog.type, **self._told_warehouse}
        if catalog.uri is not None:
            properties["uri"] = self._jdbc_uri()
        if self.sqlite is not None:
            properties["jdbc.busy_timeout"] = str(BUSY_SECONDS * 1000)
        if catalog.type == "jdbc":
            # The layout that pyiceberg, too, can read.
            properties["jdbc.schema-version"] = "V1"
        if self.warehouse.startswith("s3:"):
            properties["io-impl"] = S3_FILES
        if self._tables_on_s3:
            properties |= _s3(self.settings.storage)
            properties["s3.path-style-access"] = "true" if self.settings.storage.path_style else "false"
        properties |= {k: str(v) for k, v in catalog.properties.items()}
        return (
            {prefix: "org.apache.iceberg.spark.SparkCatalog"}
            | {f"{prefix}.{key}": value for key, value in properties.items()}
            | (_s3a(self.settings.storage) if self.object_store else {})
        )

    @property
    def _told_warehouse(self) -> dict[str, str]:
        """What a catalog is told of the warehouse. A REST server has warehouses of its own, and refuses one that it
        does not know, such as a folder of this machine."""
        if self.settings.catalog.type == "rest" and self.local_warehouse is not None:
            return {}
        return {"warehouse": self.warehouse}

    def _jdbc_uri(self) -> str:
        """The catalog's address, in which SQLite's file has its full path: a JVM may run in any folder."""
        uri, file = str(self.settings.catalog.uri), self.sqlite
        if file is None:
            return uri
        _, mark, query = uri.partition("?")
        return f"{_SQLITE}{file}{mark}{query}"

    def secret_settings(self) -> frozenset[str]:
        """Those of `spark_conf` that may hold what nobody should read, and that a catalog needs only when it is loaded:
        Spark hands a session's settings on with every job, and writes them into event logs as they are."""
        prefix, catalog = f"spark.sql.catalog.{CATALOG}", self.settings.catalog
        given = {"uri": catalog.uri, **catalog.properties}
        found = {
            name
            for name, value in given.items()
            if value is not None and (isinstance(value, Expanded) or is_secret(name) or passwords_in(value))
        }
        if self._tables_on_s3:
            found |= {name for name in _s3(self.settings.storage) if name in _S3_SECRETS}
        return frozenset(f"{prefix}.{name}" for name in found)

    def s3_properties(self) -> dict[str, str]:
        """What Iceberg's client for S3 is made from, wherever the warehouse is."""
        prefix = f"spark.sql.catalog.{CATALOG}."
        style = {"s3.path-style-access": "true" if self.settings.storage.path_style else "false"}
        given = {
            k: v for k, v in self.spark_conf().items() if k.startswith((f"{prefix}s3.", f"{prefix}client."))
        }
        return _s3(self.settings.storage) | style | {k.removeprefix(prefix): v for k, v in given.items()}

    def packages(self) -> list[str]:
        """Maven coordinates that Spark needs beyond the Iceberg runtime, each a jar without dependencies."""
        needed = [AWS_BUNDLE, *S3A_PACKAGES] if self.object_store else []
        uri = str(self.settings.catalog.uri or "")
        return needed + [jar for prefix, jar in _JDBC_DRIVERS.items() if uri.startswith(prefix)]

    def filesystem(self, uri: str | None = None) -> tuple[FileSystem, str]:
        """pyarrow's file system for `uri` (the warehouse if None), and the path to use on it."""
        from pyarrow import fs

        target = self.warehouse if uri is None else self.uri(uri)
        if target.startswith("file:"):
            return fs.LocalFileSystem(), _local(target)
        settings = self.settings.storage
        options: dict[str, object] = {"force_virtual_addressing": False}
        if settings.access_key_id is not None and settings.secret_access_key is not None:
            options["access_key"] = str(settings.access_key_id)
            options["secret_key"] = settings.secret_access_key.get_secret_value()
            if settings.session_token is not None:
                options["session_token"] = settings.session_token.get_secret_value()
        if settings.region is not None:
            options["region"] = str(settings.region)
        if settings.endpoint is not None:
            endpoint = str(settings.endpoint)
            scheme, _, address = endpoint.partition("://") if "://" in endpoint else ("https", "", endpoint)
            options |= {"endpoint_override": address, "scheme": scheme}
            options["force_virtual_addressing"] = not settings.path_style
        return s3_filesystem(**options), target.removeprefix("s3://")

    def content(self, uri: str) -> bytes:
        """The bytes of a file: a local path, `file:` or `s3://`. Raises FileNotFoundError."""
        if not uri.startswith("s3:"):
            return Path(_local(uri)).read_bytes()
        return read_whole(*self.filesystem(uri))

    def pyiceberg_properties(self) -> dict[str, str]:
        """For `pyiceberg.catalog.load_catalog(CATALOG, **properties)`; hadoop has those of FileIO only."""
        catalog = self.settings.catalog
        properties = self._told_warehouse | {k: str(v) for k, v in catalog.properties.items()}
        if catalog.type == "jdbc":
            properties |= {"type": "sql", "uri": _sqlalchemy_uri(self._jdbc_uri(), properties)}
            properties["init_catalog_tables"] = "false"
        elif catalog.type == "rest":
            properties |= {"type": "rest", "uri": str(catalog.uri)}
        if self._tables_on_s3:
            settings = self.settings.storage
            properties |= _s3(settings)
            if settings.region is not None:
                properties["s3.region"] = str(settings.region)
            properties.setdefault("py-io-impl", _PYICEBERGS_FILES)
            if settings.endpoint is not None:
                properties["s3.force-virtual-addressing"] = "false" if settings.path_style else "true"
        return properties


def _s3(settings: StorageSettings) -> dict[str, str]:
    """The properties that Iceberg's Java and pyiceberg have in common."""
    values = {
        "s3.endpoint": settings.endpoint,
        "client.region": settings.region,
        "s3.access-key-id": settings.access_key_id,
        "s3.secret-access-key": settings.secret_access_key and settings.secret_access_key.get_secret_value(),
        "s3.session-token": settings.session_token and settings.session_token.get_secret_value(),
    }
    return {key: str(value) for key, value in values.items() if value is not None}


def _s3a(settings: StorageSettings) -> dict[str, str]:
    """The same for Hadoop, under whose own name for S3, `s3a`, its settings are kept."""
    secret, token = settings.secret_access_key, settings.session_token
    values = {
        "access.key": settings.access_key_id,
        "secret.key": secret and secret.get_secret_value(),
        "session.token": token and token.get_secret_value(),
        "endpoint": settings.endpoint,
        "endpoint.region": settings.region,
        "path.style.access": "true" if settings.path_style else "false",
    }
    if settings.access_key_id is None:
        # The chain that Iceberg and pyarrow go through, too; Hadoop's own leaves out profiles.
        chain = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
        values["aws.credentials.provider"] = chain
    found = {f"fs.s3a.{key}": str(value) for key, value in values.items() if value is not None}
    return {"fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem", **found}


def _local(uri: str) -> str:
    """Path of a `file:` URI, whichever number of slashes it was written with."""
    return "/" + uri.removeprefix("file:").lstrip("/")


def _sqlalchemy_uri(jdbc: str, properties: dict[str, str]) -> str:
    """A JDBC URI, with `jdbc.user` and `jdbc.password` of the properties, as SQLAlchemy writes it."""
    if jdbc.startswith(_SQLITE):
        return "sqlite:///" + jdbc.removeprefix(_SQLITE)
    parts = urlsplit(jdbc.removeprefix("jdbc:"))
    user, password = properties.pop("jdbc.user", None), properties.pop("jdbc.password", None)
    login = quote(user, safe="") if user else ""
    if user and password:
        login += ":" + quote(password, safe="")
    at = "@" if login else ""
    given = {k.removeprefix("jdbc."): v for k, v in properties.items() if k.startswith("jdbc.")}
    options = urlencode(_libpq(given | dict(parse_qsl(parts.query, keep_blank_values=True))), quote_via=quote)
    query = f"?{options}" if options else ""
    return f"postgresql+psycopg2://{login}{at}{parts.netloc}{parts.path}{query}"


def _libpq(jdbc: dict[str, str]) -> dict[str, str]:
    """Of the options of PostgreSQL's driver for Java those that libpq has, too; it refuses names that it does not know.
    What is left out says how that driver works, and not with whom it speaks."""
    found = {_LIBPQ[name]: value for name, value in jdbc.items() if name in _LIBPQ}
    if jdbc.get("ssl") in ("", "true"):
        # As that driver does, unless it is told to trust everybody.
        blind = jdbc.get("sslfactory", "").endswith("NonValidatingFactory")
        found.setdefault("sslmode", "require" if blind else "verify-full")
    if schema := jdbc.get("currentSchema"):
        found["options"] = f"{found.get('options', '')} -csearch_path={schema}".strip()
    return found
