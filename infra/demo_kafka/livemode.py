"""`tidegate live` as the demo's user would run it: a process whose events are read, and whose /status is asked."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import urllib.request
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BEGAN, _ENDED = "worker_started", "live_stopped"


class LiveMode:
    """The process. Its events go into `events`, as they are printed; the end of its standard error into `said`."""

    def __init__(self, project: Path, environ: Mapping[str, str], interval: str = "1s") -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "tidegate.cli.main", "live", "--json"),
                *("--project", str(project), "--interval", interval, "--port", "0"),
            ],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is the demo's: it stops the producer first, then this
        )
        self.events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.said: deque[str] = deque(maxlen=20)
        self.began = threading.Event()
        self._url: str | None = None
        self._readers = [
            threading.Thread(target=target, daemon=True) for target in (self._read_events, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def status(self) -> dict[str, Any] | None:
        """What /status says now; None while there is nobody to ask."""
        if self._url is None:
            return None
        try:
            with urllib.request.urlopen(f"{self._url}/status", timeout=10) as answer:
                return json.load(answer)
        except OSError:
            return None

    def stop(self, timeout_s: float = 60.0) -> int:
        """SIGTERM: what is under way is committed. The exit code; killed if it takes longer."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            for reader in self._readers:
                reader.join(5.0)

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: dict[str, Any] = {}
            with contextlib.suppress(ValueError):
                event = json.loads(line)
            self._url = event.get("url") or self._url
            if event.get("event") == _BEGAN:
                self.began.set()
            if event.get("event") in ("worker_output", "worker_failed", "member_failed"):
                self.said.append(str(event.get("message") or event.get("text") or ""))
            self.events.put(event)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said.append(line.rstrip())
