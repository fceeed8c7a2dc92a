"""Where workers listen, and who may put something there (`warm/places.py`, `warm/channel.py`)."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.console import Table
from tidegate.console.port import Shape
from tidegate.warm import channel, places
from tidegate.warm.channel import Channel, peer_user
from tidegate.warm.places import folder_of, found, listening
from tidegate.warm.relay import RelayConsole


@pytest.mark.parametrize("which", ["workers", "workers/local"])
def test_X4_no_folder_is_a_link(tmp_path: Path, which: str) -> None:
    state, elsewhere = tmp_path / ".tidegate", tmp_path / "elsewhere"
    (elsewhere / "local").mkdir(mode=0o700, parents=True)
    elsewhere.chmod(0o700)
    (elsewhere / "local" / "live-x-1").touch()
    (elsewhere / "live-x-1").touch()
    (state / which).parent.mkdir(mode=0o700, parents=True)
    (state / which).symlink_to(elsewhere)
    assert found(state, "local") == []
    with pytest.raises(PermissionError), listening(state, "local", "live"):
        pass


def test_X4_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / ".tidegate"
    with listening(state, "local", "live"):
        assert len(found(state, "local")) == 1
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert found(state, "local") == []
        with pytest.raises(PermissionError), listening(state, "local", "warm"):
            pass


def test_only_sockets_are_removed(tmp_path: Path) -> None:
    state = tmp_path / ".tidegate"
    folder = folder_of(state, "local")
    folder.mkdir(mode=0o700, parents=True)
    kept = [f"live-{socket.gethostname()}-7", "notes"]
    for name in kept:
        (folder / name).write_text("mine")
    with listening(state, "local", "warm"):
        pass
    assert sorted(os.listdir(folder)) == kept
    (folder / f"warm-{socket.gethostname()}-{os.getpid()}").write_text("mine")
    with pytest.raises(FileExistsError), listening(state, "local", "warm"):
        pass


def test_a_worker_is_found_once_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, seen = tmp_path / ".tidegate", list[Any]()

    class Slow(socket.socket):
        def listen(self, *backlog: int) -> None:
            # Somebody who starts at this moment, and somebody who asks.
            places._clear(folder_of(state, "local"))
            seen.append(found(state, "local"))
            super().listen(*backlog)

    monkeypatch.setattr(socket, "socket", Slow)
    with listening(state, "local", "live"):
        monkeypatch.undo()
        (path,) = found(state, "local")
        places.connected(path, 5.0).close()
    assert seen == [[]]
    assert os.listdir(folder_of(state, "local")) == []


def test_X4_whom_the_system_can_t_name_is_nobody(pair: tuple[socket.socket, socket.socket]) -> None:
    assert peer_user(pair[0]) == os.geteuid()
    closed = socket.socket(socket.AF_UNIX)
    closed.close()
    assert peer_user(closed) == -1


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_a_long_line_is_looked_at_once(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, sends = Channel(pair[0]), Channel(pair[1])
    line = json.dumps({"written": "x" * (1 << 20)}).encode() + b"\n"
    monkeypatch.setattr(channel, "_CHUNK", 1 << 10)
    sending = threading.Thread(
        target=lambda: [sends.send({"written": "x" * (16 << 20)}), sends.send({"end": 0})]
    )
    sending.start()
    began = time.process_time()
    assert len(reads.receive(60)["written"]) == 16 << 20
    assert reads.receive(60) == {"end": 0}
    sending.join(30)
    # It takes 0.1 s of CPU, and took several seconds when each of the 16,384 parts copied all that had come before.
    took = time.process_time() - began
    assert took < 1.5
    # A sign of life in the middle of a line: it goes on where it was.
    pair[1].setblocking(True)
    pair[1].sendall(line[:3000])
    with pytest.raises(channel.Silent):
        reads.receive(0.01)
    sending = threading.Thread(target=pair[1].sendall, args=(line[3000:],))
    sending.start()
    assert reads.receive(60) == json.loads(line)
    sending.join(30)


def test_a_drawn_table_is_sent_in_pieces() -> None:
    table = Table(["n", "text"], [(i, "y" * 100) for i in range(5000)], ["int", "string"])
    sent: list[dict[str, Any]] = []
    RelayConsole(sent.append, Shape(False, None)).table(table)
    assert len(sent) > 5
    assert max(len(one["written"]) for one in sent) < 1 << 17
    assert "\n".join(one["written"] for one in sent).endswith("(5000 rows)")
