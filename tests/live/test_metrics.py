"""Metrics and HTTP: what Prometheus reads, from committed state and from events."""

from __future__ import annotations

import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.pipeline import wait_until
from tests.store.test_broker import CERTIFICATE, KEY
from tidegate.errors import TidegateError
from tidegate.live import http
from tidegate.live.committed_metrics import unix_seconds
from tidegate.live.http import Access, HttpServer, read_token
from tidegate.live.metrics import Metrics
from tidegate.plan import events
from tidegate.store.sinks import SinkStatus
from tidegate.store.status_values import PartitionStatus, ProjectStatus, RelationStatus, ViewStatus

NOON = 1_767_268_800  # 2026-01-01 12:00:00 UTC
MICROS = NOON * 1_000_000


def partition(name: str, seconds: int, state: str, end: int | None) -> PartitionStatus:
    at = MICROS + seconds * 1_000_000
    waits = None if end is None else end - 90
    return PartitionStatus(name, at, "", 90, 80, 9, 1, state, at + 5_000_000, "", end, lag_rows=waits)


STATUS = ProjectStatus(
    "shop",
    "local",
    "warehouse",
    (
        RelationStatus(
            name="clicks",
            kind="source",
            ran=True,
            raw=180,
            on_time=160,
            late=18,
            rejected=2,
            epoch=4,
            time_column="ts",
            time_kind="TIMESTAMP",
            watermark=MICROS,
            watermark_text="",
            behind_newest=None,
            lag=None,
            holds_back=(),
            partitions=(partition("0", 0, "warming (90 of 250)", 100), partition("1", 30, "idle", None)),
            snapshot_id=1,
            committed_at=None,
        ),
        RelationStatus(
            "ids", "source", True, 1, 1, 0, 0, 1, "id", "EPOCH", 7, "7", None, None, (), (), 1, None
        ),
    ),
    (
        ViewStatus(
            name="per_minute",
            ran=True,
            reads=("clicks",),
            emit_on_window_close=True,
            frontier=MICROS - 60_000_000,
            frontier_text="",
            clock=MICROS,
            clock_text="",
            holds_back=(),
            groups=12,
            open=0,
            current=True,
            behind=60.0,
            snapshot_id=1,
            committed_at=None,
            time_kind="TIMESTAMP",
        ),
    ),
    (SinkStatus("out", ("per_minute",), "kafka", "t", True, 3, 4, 1, 10, 2, False, False, None),),
)
HEALTH = {"status": "ok", "groups": {"clicks": {"state": "running", "healthy": True, "failing": []}}}


class Bench:
    """Metrics over a status that can fail, on a clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.error: Exception | None = None
        self.metrics = Metrics(
            self._read,
            dict,
            lambda: HEALTH,
            fresh=5.0,
            clock=lambda: self.now,
            now=lambda: datetime.fromtimestamp(NOON + 100, UTC),
        )

    def _read(self) -> ProjectStatus:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return STATUS

    def samples(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """(name, label values) -> value."""
        families = self.metrics.registry.collect()
        return {(s.name, tuple(s.labels.values())): s.value for f in families for s in f.samples}


def test_W8_partitions_as_gauges() -> None:
    found = Bench().samples()
    assert found["tidegate_partition_watermark_seconds", ("clicks", "0")] == NOON
    assert found["tidegate_partition_watermark_seconds", ("clicks", "1")] == NOON + 30
    assert found["tidegate_partition_newest_event_seconds", ("clicks", "1")] == NOON + 35
    assert found["tidegate_partition_event_time_lag_seconds", ("clicks", "0")] == 100
    # Where there are no end offsets there is no lag, and not one of 0.
    assert found["tidegate_partition_lag_rows", ("clicks", "0")] == 10
    assert ("tidegate_partition_lag_rows", ("clicks", "1")) not in found
    states = {labels: v for (name, labels), v in found.items() if name == "tidegate_partition_state"}
    assert states == {("clicks", "0", "warming"): 1, ("clicks", "1", "idle"): 1}


def test_W5_rows_by_outcome_and_what_views_and_sinks_have() -> None:
    found = Bench().samples()
    rows = {
        labels[1]: found["tidegate_rows_total", labels]
        for n, labels in found
        if n == "tidegate_rows_total" and labels[0] == "clicks"
    }
    assert rows == {"on_time": 160, "late": 18, "rejected": 2}
    assert found["tidegate_source_batches_total", ("clicks",)] == 4
    assert found["tidegate_source_watermark_seconds", ("clicks",)] == NOON
    assert found["tidegate_view_frontier_seconds", ("per_minute",)] == NOON - 60
    assert found["tidegate_view_behind_seconds", ("per_minute",)] == 60
    assert found["tidegate_view_rows_total", ("per_minute",)] == 12
    assert found["tidegate_sink_rows_total", ("out",)] == 10
    assert found["tidegate_sink_waiting_rows", ("out",)] == 2
    # Nobody knows the unit of an integer time.
    assert ("tidegate_source_watermark_seconds", ("ids",)) not in found


def test_events_become_histograms_and_counters() -> None:
    bench = Bench()
    notify = bench.metrics
    notify.expect("clicks")
    notify("clicks", events.BatchCommitted("clicks", 1, 5, 0, 0, 5, "", 0.4, 0.06))
    notify("clicks", events.SliceCommitted("per_minute", "", 3, 0, 0.2, 0.03))
    notify("clicks", events.SinkDelivered("out", "kafka", 3, 0.1))
    notify("clicks", events.TickFinished("clicks", 1, 5, True, 0.7, 0.09))
    notify("clicks", events.MemberFailed("clicks", "per_minute", "view", "TG507", "no", 1, 1.0))
    notify("clicks", events.WorkerFailed("clicks", None, "boom", None, True))
    notify("clicks", "text that a worker printed")
    notify("clicks", events.WorkerSpawned("clicks", 7, 0))
    found = bench.samples()
    assert found["tidegate_batch_seconds_sum", ("clicks",)] == 0.4
    assert found["tidegate_batch_seconds_bucket", ("clicks", "0.25")] == 0
    assert found["tidegate_batch_seconds_bucket", ("clicks", "0.5")] == 1
    assert found["tidegate_commit_seconds_count", ("per_minute",)] == 1
    assert found["tidegate_view_tick_seconds_sum", ("per_minute",)] == 0.2
    assert found["tidegate_sink_delivery_seconds_sum", ("out",)] == 0.1
    assert found["tidegate_tick_seconds_sum", ("clicks",)] == 0.7
    assert found["tidegate_backlog", ("clicks",)] == 1
    assert found["tidegate_last_tick_timestamp_seconds", ("clicks",)] == NOON + 100
    assert found["tidegate_errors_total", ("clicks", "TG507")] == 1
    assert found["tidegate_errors_total", ("clicks", "none")] == 1
    assert found["tidegate_failing", ("clicks", "per_minute", "view")] == 1
    assert found["tidegate_worker_restarts_total", ("clicks",)] == 0
    assert found["tidegate_worker_up", ("clicks",)] == 1
    assert found["tidegate_worker_running", ("clicks",)] == 1
    notify("clicks", events.MemberRecovered("clicks", "per_minute", "view", 1))
    notify("clicks", events.WorkerSpawned("clicks", 8, 1))
    found = bench.samples()
    assert found["tidegate_failing", ("clicks", "per_minute", "view")] == 0
    assert found["tidegate_worker_restarts_total", ("clicks",)] == 1


def test_a_worker_that_hangs_runs_and_is_not_up() -> None:
    """So says the supervisor of one whose last tick is too old; the alert about it asks for both."""
    for state, healthy in (("running", False), ("backing_off", False), ("running", True)):
        health = {"groups": {"clicks": {"state": state, "healthy": healthy}}}
        metrics = Metrics(lambda: STATUS, dict, lambda health=health: health)  # type: ignore[misc]
        found = {s.name: s.value for family in metrics.registry.collect() for s in family.samples}
        assert found["tidegate_worker_up"] == healthy
        assert found["tidegate_worker_running"] == (state == "running")


def test_the_committed_state_is_read_once_in_a_while_and_never_shown_stale() -> None:
    bench = Bench()
    bench.samples()
    bench.samples()
    assert bench.reads == 1
    bench.now = 5.0
    bench.error = TidegateError("TG620", "the catalog does not answer")
    found = bench.samples()
    assert bench.reads == 2
    assert found["tidegate_status_errors_total", ()] == 1
    assert not [name for name, _ in found if name.startswith("tidegate_partition")]
    bench.error = None
    assert ("tidegate_partition_watermark_seconds", ("clicks", "0")) in bench.samples()


def test_every_metric_says_what_to_do_and_follows_the_conventions() -> None:
    for family in Bench().metrics.registry.collect():
        assert family.name.startswith("tidegate_"), family.name
        assert len(family.documentation) > 20, family.name
        assert family.documentation.endswith("."), family.name


def test_unix_seconds_of_each_kind() -> None:
    assert unix_seconds("TIMESTAMPTZ", 1_500_000) == 1.5
    assert unix_seconds("DATE", 2) == 172_800
    assert unix_seconds("EPOCH", 5) is None
    assert unix_seconds("DATE", None) is None


# -- HTTP ----------------------------------------------------------------------------------------------------------


class Site:
    """A server on a free port, and what its answers are made of."""

    def __init__(self, **access: Any) -> None:
        self.health: dict[str, Any] = dict(HEALTH)
        self.error: TidegateError | None = None
        self.reads = 0
        registry = Bench().metrics.registry
        self.server = HttpServer(
            Access(access.pop("host", "127.0.0.1"), 0, **access), lambda: self.health, self._status, registry
        )

    def _status(self) -> dict[str, Any]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return STATUS.to_dict()

    def get(
        self, path: str, token: str | None = None, method: str = "GET", tls: ssl.SSLContext | None = None
    ) -> tuple[int, str, bytes]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(self.server.url + path, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10, context=tls) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read()


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    yield found
    found.server.close()


def test_health_is_200_while_it_is_well_and_503_otherwise(site: Site) -> None:
    code, kind, body = site.get("/healthz")
    assert (code, kind, json.loads(body)) == (200, "application/json", HEALTH)
    site.health = HEALTH | {"status": "degraded"}
    assert site.get("/healthz")[0] == 200
    site.health = HEALTH | {"status": "unavailable"}
    assert site.get("/healthz?verbose=1")[0] == 503
    # That the supervisor itself lives is another question: to kill it helps no worker.
    assert site.get("/livez")[0] == 200


def test_metrics_and_status_over_http(site: Site) -> None:
    code, kind, body = site.get("/metrics")
    assert (code, kind.partition(";")[0]) == (200, "text/plain")
    assert b'tidegate_rows_total{outcome="late",source="clicks"} 18.0' in body
    code, _, body = site.get("/status")
    assert (code, json.loads(body)["relations"][0]["late"]) == (200, 18)
    site.get("/status")
    assert site.reads == 1, "a status that was read just now is told again"
    assert json.loads(site.get("/")[2]) == {"paths": ["/healthz", "/livez", "/status", "/metrics"]}
    assert site.get("/etc/passwd")[0] == 404


def test_a_status_that_cannot_be_read_is_503_with_the_error(site: Site) -> None:
    site.error = TidegateError("TG620", "the catalog does not answer")
    code, _, body = site.get("/status")
    assert (code, json.loads(body)["error"]["code"]) == (503, "TG620")


def test_head_answers_as_get_does_without_the_body(site: Site) -> None:
    for path in ("/healthz", "/livez", "/status", "/", "/nothing"):
        code, kind, body = site.get(path, method="HEAD")
        assert (code, kind) == site.get(path)[:2]
        assert body == b""


def test_X1_without_the_token_nothing_is_told_but_whether_the_run_is_well() -> None:
    site = Site(token="a long text")
    try:
        for token in (None, "another text", "a long texta", ""):
            assert {site.get(path, token)[0] for path in ("/", "/status", "/metrics", "/nothing")} == {401}
            assert json.loads(site.get("/healthz", token)[2]) == {"status": HEALTH["status"]}
        assert site.reads == 0
        assert site.get("/livez")[0] == 200
        assert {site.get(path, "a long text")[0] for path in ("/", "/status", "/metrics", "/livez")} == {200}
        assert json.loads(site.get("/healthz", "a long text")[2]) == HEALTH
        assert "a long text" not in repr(Access("::", 0, "a long text"))
    finally:
        site.server.close()


def test_tls_serves_with_the_certificate_and_refuses_what_is_none(tmp_path: Path) -> None:
    certificate, key = tmp_path / "own.pem", tmp_path / "key.pem"
    certificate.write_text(CERTIFICATE)
    key.write_text(KEY)
    site = Site(certificate=certificate, key=key)
    try:
        trusting = ssl.create_default_context(cadata=CERTIFICATE)
        trusting.check_hostname = False
        assert site.server.url.startswith("https://")
        assert site.get("/livez", tls=trusting)[0] == 200
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            site.get("/livez")
        with socket.create_connection(("127.0.0.1", int(site.server.url.rpartition(":")[2]))) as silent:
            # One that never begins its handshake holds up nobody.
            assert site.get("/livez", tls=trusting)[0] == 200
            silent.sendall(b"no TLS at all")
        assert site.get("/livez", tls=trusting)[0] == 200
    finally:
        site.server.close()
    key.write_text("no key")
    for wrong in (key, tmp_path / "absent.pem"):
        with pytest.raises(TidegateError) as refused:
            Site(certificate=certificate, key=wrong)
        assert refused.value.code == "TG703"
        assert str(certificate) in refused.value.message


@pytest.mark.medium
def test_clients_beyond_the_bound_are_turned_away_and_the_others_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_CONNECTIONS", 3)
    few = Site()
    address = ("127.0.0.1", int(few.server.url.rpartition(":")[2]))
    try:
        holding = [socket.create_connection(address) for _ in range(3)]
        for each in holding:
            each.sendall(b"GET /livez HTTP/1.1\r\n")  # and never the end of it
        assert wait_until(lambda: few.server._server._free._value == 0, 10)
        # A silent client keeps nobody from asking: the oldest one loses its place.
        assert few.get("/livez")[0] == 200
        assert holding[0].recv(1) == b""
        assert wait_until(lambda: few.server._server._free._value == 1, 10)
        holding[0] = socket.create_connection(address)
        holding[0].sendall(b"GET /livez HTTP/1.1\r\n")
        assert wait_until(lambda: len(few.server._server._silent) == 3, 10)
        # Who is being answered keeps its place.
        few.server._server._silent.clear()
        with socket.create_connection(address) as turned_away:
            assert turned_away.recv(1) == b""
        for each in holding:
            each.close()
        assert wait_until(lambda: few.server._server._free._value == 3, 10)
        assert few.get("/livez")[0] == 200
    finally:
        few.server.close()


def ask(site: Site, sent: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(
        ("127.0.0.1", int(site.server.url.rpartition(":")[2])), timeout=10
    ) as client:
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(4096), b""))


def not_taken(client: socket.socket, sent: bytes) -> bool:
    """Whether the other side has closed; else it has got these bytes, too."""
    try:
        client.sendall(sent)
    except OSError:
        return True
    return False


def test_a_question_that_comes_in_drops_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_PATIENCE", 0.5)
    with socket.create_connection(("127.0.0.1", int(site.server.url.rpartition(":")[2]))) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        assert wait_until(lambda: not_taken(client, b"a"), 5)
    assert wait_until(lambda: site.server._server._free._value == http._CONNECTIONS, 10)


def test_what_was_asked_stands_in_no_answer(site: Site) -> None:
    for sent in (
        b"POST /<img> HTTP/1.1",
        b"<img src=x> / HTTP/1.1",
        b"GET /<img> HTTP/1.1",
        b"GET /<img> HTTP/9.9",
    ):
        answer = ask(site, sent + b"\r\n\r\n")
        assert re.match(rb"HTTP/1.0 (400|404|501|505) ", answer), answer
        assert b"application/json" in answer
        assert b"<img" not in answer


def test_a_mistake_of_ours_is_an_answer_too(site: Site) -> None:
    site.health = {}
    code, kind, body = site.get("/healthz")
    assert (code, kind, json.loads(body)) == (500, "application/json", {"error": "unexpected KeyError"})


def test_live_mode_listens_on_addresses_of_six_parts() -> None:
    site = Site(host="::1")
    try:
        assert site.server.url.startswith("http://[::1]:")
        assert site.get("/livez")[0] == 200
    finally:
        site.server.close()


@pytest.mark.parametrize(
    ("host", "exposed"),
    [
        ("127.0.0.1", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("live", True),
    ],
)
def test_an_address_beyond_this_machine_without_a_token_is_exposed(host: str, exposed: bool) -> None:
    assert Access(host, 0).exposed is exposed
    assert not Access(host, 0, "token").exposed


def test_a_token_is_the_text_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in (None, b"", b" \n", b"\xff", b"one\ntwo\n", "g\u00fcnstig".encode(), b"a\tb"):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(TidegateError) as refused:
            read_token(file)
        assert refused.value.code == "TG703"
    file.write_text("a long text\n")
    assert read_token(file) == "a long text"


def test_a_port_in_use_is_a_clear_error(site: Site) -> None:
    port = int(site.server.url.rpartition(":")[2])
    with pytest.raises(TidegateError) as caught:
        HttpServer(Access("127.0.0.1", port), lambda: HEALTH, dict, Bench().metrics.registry)
    assert caught.value.code == "TG703"
    assert str(port) in caught.value.message


def test_a_partition_without_a_state_or_watermark_is_left_out() -> None:
    bench = Bench()
    bare = replace(partition("0", 0, "", None), watermark=None, max_event_time=None)
    status = replace(STATUS, relations=(replace(STATUS.relations[0], partitions=(bare,)),))
    bench._read = lambda: status  # type: ignore[method-assign]
    bench.metrics = Metrics(lambda: status, dict, lambda: HEALTH)
    assert not [name for name, _ in bench.samples() if name.startswith("tidegate_partition")]
