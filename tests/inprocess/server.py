"""The server that answers PySpark's questions in this process (Sail), and sessions on it.

A question to the server costs a millisecond and more, whatever it is. So settings are kept here, and sessions with the
same settings share one connection, for nothing but settings tells them apart: temporary views are kept here, too
(`views.py`).
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark._globals import _NoValue
from pyspark.sql.connect.dataframe import DataFrame as Frame
from pyspark.sql.connect.session import SparkSession as Connect

from tests.inprocess.frames import adapt
from tests.inprocess.held import held
from tests.inprocess.requests import Stub
from tests.inprocess.views import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.tidegate.cores": "2",
}
#: Settings of which Sail knows nothing: tidegate's own, and those of how Spark executes.
_UNKNOWN = ("spark.tidegate.", "spark.sql.adaptive.", "spark.sql.codegen.")

#: Settings that say how Spark computes a result, not which.
_WITHOUT_EFFECT = ("spark.sql.adaptive.", "spark.sql.codegen.", "spark.sql.execution.arrow.")

_connecting = threading.Lock()


@cache
def _address() -> str:
    # One partition: what there is in a test is too little for two, and comes in the same order each time.
    os.environ.setdefault("SAIL_EXECUTION__DEFAULT_PARALLELISM", "1")
    # Room for as many rows as in Spark would be made, and filled with nothing, by each part of each plan.
    os.environ.setdefault("SAIL_EXECUTION__BATCH_SIZE", "256")
    # Of each query with a hint it would say that hints do nothing there.
    os.environ.setdefault("RUST_LOG", "off")
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    _address.kept = server  # type: ignore[attr-defined]  # it ends with its last reference
    return f"sc://{host}:{port}"


def _client(settings: frozenset[tuple[str, str]]) -> Any:
    """The connection for sessions with these settings."""
    with _connecting:
        return _connected(settings)


@cache
def _connected(settings: frozenset[tuple[str, str]]) -> Any:
    from grpc.experimental import ChannelOptions
    from pyspark.sql.connect import proto
    from pyspark.sql.connect.client import SparkConnectClient

    # Answers are read by the thread that asks: one of its own for each question costs more than most questions.
    alone: Any = [(ChannelOptions.SingleThreadedUnaryStream, 1)]
    client: Any = SparkConnectClient(connection=_address(), channel_options=alone)
    # An answer that breaks off isn't asked for again: the server is this process. What asks again needs threads, which
    # a session that is collected as garbage waits for, while it may itself be what they wait for.
    client.disable_reattachable_execute()
    client._stub = Stub(client._stub)
    pairs = [proto.KeyValue(key=key, value=value) for key, value in sorted(settings)]
    client.config(proto.ConfigRequest.Operation(set=proto.ConfigRequest.Set(pairs=pairs)))
    return client


@cache
def _default(key: str, *default: str | None) -> str | None:
    """What the server has for a setting that nobody has set. Raises as Spark if that is nothing."""
    from pyspark.sql.connect.conf import RuntimeConf

    return RuntimeConf(_client(_sent(_SETTINGS))).get(key, *default)


def _sent(settings: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in settings.items() if not key.startswith(_UNKNOWN))


class _Settings:
    """As PySpark's `spark.conf`."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given
        #: What of it the server is told.
        self.sent = _sent(given)

    @property
    def answers(self) -> bool:
        """Whether questions may be answered here: as Spark does with these settings, and others that change no rows."""
        known = all(self.given.get(key) == value for key, value in _SETTINGS.items())
        return known and all(
            key in _SETTINGS or key.startswith(_WITHOUT_EFFECT) or not key.startswith("spark.sql.")
            for key in self.given
        )

    def get(self, key: str, default: Any = _NoValue) -> str | None:
        if key in self.given:
            return self.given[key]
        return _default(key) if default is _NoValue else _default(key, default)

    def set(self, key: str, value: str | int | bool) -> None:
        self.given[key] = str(value).lower() if isinstance(value, bool) else str(value)
        self.sent = _sent(self.given)

    def unset(self, key: str) -> None:
        self.given.pop(key, None)
        self.sent = _sent(self.given)


class Session(Connect):
    """A session of Spark Connect with settings and temporary views of its own."""

    def __init__(self) -> None:
        self._settings = _Settings(dict(_SETTINGS))
        self._session_id = self.client._session_id
        self.tidegate_views = Views(self)  # type: ignore[arg-type]  # of Spark Connect
        vars(self).update(sql=self.tidegate_views.query, table=self.tidegate_views.table)

    @property
    def client(self) -> Any:
        return _client(self._settings.sent)

    @property
    def _client(self) -> Any:
        return self.client

    @property
    def conf(self) -> Any:
        return self._settings

    def range(
        self, start: int, end: int | None = None, step: int = 1, numPartitions: int | None = None
    ) -> Any:
        import pyarrow as pa

        frame: Any = super().range(start, end, step, numPartitions)
        numbers = range(start, end, step) if end is not None else range(0, start, step)
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
        return held(frame, pa.table([pa.array(numbers, pa.int64())], schema=schema))

    def stop(self) -> None:
        """Others go on."""

    def __del__(self) -> None:
        """Nothing of it is on the server."""


def parsed_type(text: str) -> Any:
    """Spark's type of its text."""
    return _client(_sent(_SETTINGS))._analyze(method="ddl_parse", ddl_string=text).parsed


def connect() -> SparkSession:
    """A session of Spark Connect with settings and temporary views of its own."""
    adapt(Frame)
    spark = Session()
    # What asks for the session of this thread, or of the process, finds the newest one.
    Connect._set_default_and_active_session(spark)
    return spark  # type: ignore[return-value]  # of Spark Connect
