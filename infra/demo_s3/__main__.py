"""`make demo-s3`: the flights of `make demo` on an S3 server and a REST catalog, which begin and end with the demo."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector

import tidegate
from infra.demo import ROOT, report
from infra.demo_s3.s3 import make_bucket, s3_server
from infra.ivy import Unresolved, resolve
from infra.rest_catalog.server import HOST, S3_PACKAGES, CatalogError, RestCatalogs
from tidegate.console import Console, choose_console
from tidegate.jvm.packages import cached_jars
from tidegate.project import Project, Storage
from tidegate.project.java import require_java
from tidegate.project.storage import EXCLUDED_PACKAGES
from tidegate.session.session import Session

ENVIRONMENT = "demo-s3"


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 0 if all counts agree."""
    parser = argparse.ArgumentParser(prog="python -m infra.demo_s3", description=__doc__)
    parser.add_argument("--project", type=Path, default=ROOT, help="a project with the demo's assets")
    project = parser.parse_args(arguments).project.resolve()
    started = time.monotonic()
    console = choose_console()
    try:
        require_java()
        with tempfile.TemporaryDirectory() as folder, servers(project, Path(folder), console) as variables:
            os.environ |= variables
            console.note("336,776 flights from New York in 2013; starting Spark …")
            with tidegate.connect(project=project, env=ENVIRONMENT) as session:
                session.run(on_event=console.event)
                well = report(session, console)
                show_store(session, console)
    except (CatalogError, Unresolved) as error:
        console.note(str(error))
        return 2
    except tidegate.TidegateError as error:
        console.error(error)
        return 2
    console.note(
        f"\nDone in {time.monotonic() - started:.0f} s; both servers have ended, and their data with them"
    )
    return 0 if well else 1


@contextmanager
def servers(project: Path, folder: Path, console: Console) -> Iterator[Mapping[str, str]]:
    """Both servers, while the block runs: the variables of `resources/demo-s3.yaml`. The catalog logs into `folder`."""
    with s3_server() as url:
        names = ("TIDEGATE_DEMO_S3", "TIDEGATE_DEMO_S3_SECRET", "TIDEGATE_DEMO_CATALOG")
        # Where the catalog listens is known only once it knows the store.
        variables = dict(zip(names, (url, secrets.token_urlsafe(24), f"http://{HOST}"), strict=True))
        storage = Project.load(project, ENVIRONMENT, variables).storage
        make_bucket(storage, urlsplit(storage.warehouse).netloc)
        if cached_jars(storage.packages()) is None:
            console.note("Fetching the jars for S3 (70 MB, once) …")
            resolve(storage.packages(), exclude=EXCLUDED_PACKAGES)
        catalogs = RestCatalogs(folder, S3_PACKAGES)
        catalogs.start(console.note)
        try:
            port = catalogs.serve("demo", f"{storage.warehouse}/tables", storage)
            console.note(f"An S3 server runs at {url}, and a REST catalog at http://{HOST}:{port}")
            yield variables | {"TIDEGATE_DEMO_CATALOG": f"http://{HOST}:{port}"}
        finally:
            catalogs.stop()


def show_store(session: Session, console: Console) -> None:
    """What is in the bucket, and what the catalog knows."""
    storage = session.project.storage
    tables = [row["tableName"] for row in session.spark.sql("SHOW TABLES IN tidegate.main").collect()]
    objects, size = stored(storage)
    console.document(
        {},
        f"\n{storage.warehouse}: {objects:,} objects, {size / 1e6:.1f} MB. "
        f"The catalog knows {', '.join(sorted(tables))}",
    )


def stored(storage: Storage) -> tuple[int, int]:
    """The objects of a warehouse, and their bytes."""
    filesystem, path = storage.filesystem()
    found = [file for file in filesystem.get_file_info(FileSelector(path, recursive=True)) if file.is_file]
    return len(found), sum(file.size for file in found)


if __name__ == "__main__":
    sys.exit(main())
