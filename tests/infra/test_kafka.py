"""The broker that `make kafka` starts: it keeps its messages, and says what is wrong."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.kafka.broker import BrokerError, LocalBroker, free_port
from tests.conftest import ROOT
from tests.support.kafka import Broker


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, as a person types it."""
    command = [sys.executable, "-m", "infra.kafka", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.long_run
@pytest.mark.jvm
def test_messages_outlive_stop_kill_and_restart(kafka: Broker) -> None:
    folder = str(kafka.local.folder)
    topic = kafka.topic("orders", partitions=2, max_message_bytes="15000000")
    kafka.send(topic, [(0, "a", "1", 0), (1, None, b"\xff\x00", 253_402_300_799_000, [("h", "x")])])
    kafka.stop()
    kafka.start()
    kafka.send(topic, [(0, "a", None, 1), (0, None, None, 2)])
    kafka.kill()
    assert not kafka.local.status().running
    kafka.start()
    assert kafka.read(topic) == {0: [(b"a", b"1"), (b"a", None), (None, None)], 1: [(None, b"\xff\x00")]}

    again = run("start", "--dir", folder)
    assert (again.returncode, again.stderr) == (0, "")
    assert f"runs already at {kafka.bootstrap}" in again.stdout
    elsewhere = run("start", "--dir", folder, "--port", str(free_port()))
    assert elsewhere.returncode == 1
    assert f"runs already, on port {kafka.port}" in elsewhere.stderr

    told = run("status", "--json", "--dir", folder)
    assert told.returncode == 0
    status = json.loads(told.stdout)
    assert status == {**status, "running": True, "port": kafka.port, "bootstrap": kafka.bootstrap}
    topics = json.loads(run("topics", "--json", "--dir", folder).stdout)
    assert topics[topic] == {"0": 3, "1": 1}


@pytest.mark.long_run
@pytest.mark.jvm
def test_topics_grow_and_lose_their_beginning(kafka: Broker) -> None:
    topic = kafka.topic(partitions=1)
    started = time.monotonic()
    kafka.send(topic, ((0, None, f'{{"n": {n}}}', 1_357_000_000_000 + n) for n in range(10_000)))
    assert 10_000 / (time.monotonic() - started) > 1_000, "rows per second"
    kafka.send(topic, [(0, None, b"x" * 10_000_000, 0)])
    kafka.add_partitions(topic, 2)
    kafka.delete_before(topic, {0: 9_999})
    assert kafka.ends(topic) == {0: 10_001, 1: 0, 2: 0}
    assert kafka.starts(topic) == {0: 9_999, 1: 0, 2: 0}


@pytest.mark.medium
def test_a_port_in_use_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused = run("start", "--dir", str(tmp_path), "--port", port)
    assert refused.returncode == 1
    assert f"port {port} is in use" in refused.stderr
    assert "Traceback" not in refused.stderr
    told = run("status", "--dir", str(tmp_path))
    assert (told.returncode, told.stdout) == (1, f"no broker of {tmp_path} runs\n")
    assert "start it with" in run("topics", "--dir", str(tmp_path)).stderr


@pytest.mark.jvm
def test_a_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    data = tmp_path / "logs"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=somebody-elses-broker0\n")
    with pytest.raises(BrokerError, match=r"(?s)the broker ended with 1; the end of .*Stored node id 7"):
        LocalBroker(tmp_path).start(free_port(), with_parent=True)
    assert not LocalBroker(tmp_path).status().running
