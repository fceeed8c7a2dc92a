"""Iceberg's own REST adapter, over HTTP, as a process that ends with this one.

The adapter and its servlet are in the tests' jar of Iceberg; Jetty and what else they need are among Spark's jars. The
JVM runs Py4J's gateway and nothing else: what is made in it is made from here, so there is no Java to compile.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from infra.ivy import SPARK_JARS, Unresolved, fetch
from tidegate.errors import TidegateError
from tidegate.jvm.jars import read_sums, verify_folder
from tidegate.jvm.packages import ICEBERG_PACKAGE, cached_jar
from tidegate.project.java import require_java
from tidegate.project.storage import AWS_BUNDLE, BUSY_SECONDS, S3_FILES, SQLITE_PACKAGE, Storage

HOST = "127.0.0.1"
_ICEBERG = "1.11.0"
#: The adapter, and what it needs that Spark's jars do not have. The release is the newest whose tests' jar can be had
#: by name; the protocol is the same.
ARTIFACTS = (
    *(f"org.apache.iceberg:iceberg-{part}:{_ICEBERG}" for part in ("core", "api", "common", "bundled-guava")),
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}:tests",
    "com.github.ben-manes.caffeine:caffeine:2.9.3",
    "org.apache.httpcomponents.core5:httpcore5:5.4",
)
#: Apart from Spark's jars: those hold another release of Iceberg.
FOLDER = Path(sys.prefix) / "share" / "tidegate" / "rest_catalog"
#: What tables on S3 need in addition. Their release is another one, so they come after everything else.
S3_PACKAGES = (AWS_BUNDLE, ICEBERG_PACKAGE)
SUMS = Path(__file__).with_name("jars.sha256")
_OPTIONS = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class CatalogError(Exception):
    """What went wrong with the server, in words for people."""


class RestCatalogs:
    """One JVM with any number of catalogs, each of which listens on a port of its own. It logs into `folder`.
    `packages`: `S3_PACKAGES`, where tables are on S3."""

    def __init__(self, folder: Path, packages: Sequence[str] = ()) -> None:
        self._folder, self._packages = folder, packages
        self.log = folder / "rest_catalog.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: Any = None

    def start(self, notify: Callable[[str], None] = lambda line: None) -> None:
        """Start the JVM; it ends with this process, even if that is killed. Raises CatalogError if the jars are not to
        be had, TG608 without Java."""
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("w") as log:
            port, token, self._process = launch_gateway(
                jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
                classpath=os.pathsep.join([*map(str, jars(notify)), f"{SPARK_JARS}/*", *self._further()]),
                java_path=require_java().path,
                javaopts=list(_OPTIONS),
                die_on_exit=True,
                enable_auth=True,
                return_proc=True,
                redirect_stderr=log,
            )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)

    def _further(self) -> list[str]:
        found = {package: cached_jar(package) for package in self._packages}
        if missing := [package for package, jar in found.items() if jar is None]:
            raise CatalogError(f"{missing[0]} is not on this machine")
        return [str(jar) for jar in found.values()]

    def serve(self, name: str, warehouse: str | None = None, storage: Storage | None = None) -> int:
        """A new catalog, with nothing in it, on the port that is returned. `warehouse`: the URI of the folder for its
        tables, by default one beside its file of SQLite. `storage`: how S3 is reached, if it is there."""
        home = self._folder / name
        home.mkdir(parents=True, exist_ok=True)
        java = self._gateway.jvm
        catalog = java.org.apache.iceberg.jdbc.JdbcCatalog()
        catalog.setConf(java.org.apache.hadoop.conf.Configuration())
        settings = {
            "uri": f"jdbc:sqlite:{home / 'catalog.db'}",
            "warehouse": warehouse or f"file://{home / 'warehouse'}",
            "jdbc.schema-version": "V1",
            "jdbc.busy_timeout": str(BUSY_SECONDS * 1000),
            # As the protocol has it: a table can't be made in a namespace that is not there.
            "jdbc.strict-mode": "true",
        }
        if storage is not None:
            settings |= {"io-impl": S3_FILES, **storage.s3_properties()}
        catalog.initialize(name, settings)
        rest, jetty = java.org.apache.iceberg.rest, java.org.sparkproject.jetty
        servlet = rest.RESTCatalogServlet(rest.RESTCatalogAdapter(catalog))
        handler = jetty.servlet.ServletContextHandler()
        handler.addServlet(jetty.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(java.java.net.InetSocketAddress(HOST, 0))
        server.setHandler(handler)
        server.start()
        return int(server.getConnectors()[0].getLocalPort())

    @property
    def process(self) -> int:
        """The id of the JVM, while it runs."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End it as this process's end would: its standard input is closed."""
        if self._process is None:
            return
        self._gateway.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def jars(notify: Callable[[str], None]) -> list[Path]:
    """What goes before Spark's jars; fetched the first time, and compared with its sums."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = FOLDER / ".fetched"
    driver = cached_jar(SQLITE_PACKAGE)
    if driver is None:
        raise CatalogError(f"{SQLITE_PACKAGE} is not on this machine: make java fetches it")
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_file() or done.read_text() != " ".join(ARTIFACTS):
            notify("Fetching the jars of Iceberg's REST adapter (9 MB, once) …")
            try:
                fetch(ARTIFACTS, FOLDER)
                verify_folder((FOLDER / "jars").glob("*.jar"), read_sums(SUMS))
            except (Unresolved, TidegateError) as error:
                raise CatalogError(str(error)) from error
            done.write_text(" ".join(ARTIFACTS))
    return [*sorted((FOLDER / "jars").glob("*.jar")), driver]
