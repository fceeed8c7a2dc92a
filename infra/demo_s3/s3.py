"""A real S3 server on loopback, moto's, in this process: it ends with it, and what it holds is in its memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.project import Storage


@contextmanager
def s3_server() -> Iterator[str]:
    """URL of an S3 server without any bucket, while the block runs."""
    from moto.server import ThreadedMotoServer

    # A line for each request would hide everything else.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def make_bucket(storage: Storage, name: str) -> None:
    """Make a bucket; the file systems of projects may not."""
    filesystem, _ = storage.filesystem()
    settings = filesystem.__reduce__()[1][0]
    type(filesystem)(**(settings | {"allow_bucket_creation": True})).create_dir(name)
