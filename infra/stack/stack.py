"""What belongs to the stack, in the order in which it starts, and the processes that were started."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.kafka.broker import LocalBroker, free_port, is_free
from infra.stack.postgres import HOST, Postgres, StackError

_SETTINGS = Path(__file__).resolve().parent.parent / "dagster" / "dagster.yaml"
Ports = Mapping[str, int]
#: What a first start asks for; a port that is taken is another one then, and stays the same from there on.
_WANTED = {"webserver": 3000, "code": 4000, "postgres": 5433}


@dataclass(frozen=True)
class Service:
    """One process of Dagster. `ready`: whether it serves, asked until it does."""

    name: str
    command: list[str]
    ready: Callable[[], bool]


class Stack:
    """The stack of one project. Everything that it keeps is in `folder`: `stack.json` (ports, process ids), logs, the
    database, DAGSTER_HOME."""

    def __init__(self, project: Path, env: str, folder: Path, kafka: bool = True) -> None:
        self.project, self.env, self.folder = project.resolve(), env, folder.resolve()
        self.home = self.folder / "dagster"
        self.postgres = Postgres(self.folder / "postgres")
        self.broker = LocalBroker(self.project / ".tidegate" / "kafka") if kafka else None
        self._state = self.folder / "stack.json"

    def start(self, notify: Callable[[str], None], timeout_s: float = 180.0) -> Ports:
        """Start what does not run yet, each when the one before serves; the ports. Raises StackError or BrokerError
        with what went wrong; what runs by then goes on running."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = self._read()
        ports = state["ports"] = self._ports(state.get("ports", {}))
        self._write(state)
        notify(f"PostgreSQL on {HOST}:{ports['postgres']} …")
        self.postgres.start(ports["postgres"], notify)
        if self.broker is not None:
            notify("Kafka …")
            self.broker.start(notify=notify)
        self._prepare(ports)
        for service in self._services(ports):
            if self._pid(state, service.name) is None:
                notify(f"{service.name} …")
                state["pids"] = {**state.get("pids", {}), service.name: self._spawn(service, ports)}
                self._write(state)
            self._wait(state, service, timeout_s)
        return ports

    def stop(self, notify: Callable[[str], None], timeout_s: float = 60.0) -> bool:
        """Stop everything, in the opposite order; False if nothing ran. Data stays."""
        state = self._read()
        stopped = False
        for name in reversed(list(state.get("pids", {}))):
            pid = self._pid(state, name)
            if pid is not None:
                notify(f"stopping {name} …")
                self._end(pid, timeout_s)
                stopped = True
        state["pids"] = {}
        if self._state.is_file():
            self._write(state)
        if self.broker is not None:
            stopped |= self.broker.stop()
        return self.postgres.stop() or stopped

    def status(self) -> dict[str, object]:
        """What runs: by name its process id, or None; and the ports."""
        state = self._read()
        running: dict[str, int | bool | None] = {"postgres": self.postgres.is_running()}
        if self.broker is not None:
            running["kafka"] = self.broker.status().running
        running |= {name: self._pid(state, name) for name in ("code", "daemon", "webserver")}
        return {"running": all(running.values()), "services": running, "ports": state.get("ports", {})}

    # -- parts -------------------------------------------------------------------------------------------------

    def _ports(self, known: Ports) -> dict[str, int]:
        """Those of the last time; else what is usual, or what is free."""
        return {
            name: known.get(name) or (port if is_free(port) else free_port())
            for name, port in _WANTED.items()
        }

    def _prepare(self, ports: Ports) -> None:
        """DAGSTER_HOME: settings as for any deployment, and where the code server is."""
        self.home.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_SETTINGS, self.home / "dagster.yaml")
        server = f"{{host: {HOST}, port: {ports['code']}, location_name: tidegate}}"
        (self.home / "workspace.yaml").write_text(f"load_from:\n  - grpc_server: {server}\n")

    def _services(self, ports: Ports) -> Iterator[Service]:
        """Code server first: the others ask it what there is."""
        python, workspace = sys.executable, str(self.home / "workspace.yaml")
        code = ["-m", "dagster", "api", "grpc", "-m", "tidegate.dagster.definitions", "-h", HOST]
        yield Service("code", [python, *code, "-p", str(ports["code"])], lambda: not is_free(ports["code"]))
        daemon = [python, "-m", "dagster._daemon", "run", "-w", workspace]
        yield Service(
            "daemon", daemon, lambda: self._says("daemon", "Instance is configured with the following")
        )
        web = [python, "-m", "dagster_webserver", "-h", HOST, "-p", str(ports["webserver"]), "-w", workspace]
        yield Service("webserver", web, lambda: _answers(f"http://{HOST}:{ports['webserver']}/server_info"))

    def environment(self, ports: Ports) -> dict[str, str]:
        """Of Dagster's processes, and of the runs that they start."""
        return {
            **os.environ,
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_PG_URL": self.postgres.url(ports["postgres"]),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "TIDEGATE_PROJECT": str(self.project),
            "TIDEGATE_ENV": self.env,
        }

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _spawn(self, service: Service, ports: Ports) -> int:
        with self._log(service.name).open("wb") as log:
            child = subprocess.Popen(
                service.command,
                env=self.environment(ports),
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # For a moment after it was started a process has no environment, by which `_pid` knows it.
        while child.poll() is None and not _environment(child.pid):
            time.sleep(0.01)
        return child.pid

    def _wait(self, state: dict, service: Service, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not service.ready():
            ended = self._pid(state, service.name) is None
            if ended or time.monotonic() > deadline:
                what = "ended" if ended else f"does not serve after {timeout_s:.0f} s"
                end = self._log(service.name).read_text(errors="replace")[-1500:]
                raise StackError(f"{service.name} {what}; the end of {self._log(service.name)}:\n{end}")
            time.sleep(0.2)

    def _says(self, name: str, text: str) -> bool:
        return text in self._log(name).read_text(errors="replace")

    def _pid(self, state: Mapping, name: str) -> int | None:
        """Its process, if that is still ours: a number alone may be somebody else's by now."""
        pid = state.get("pids", {}).get(name)
        if pid is None:
            return None
        # A child of this very process that has ended stays until somebody asks for it.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return pid if f"DAGSTER_HOME={self.home}".encode() in _environment(pid).split(b"\0") else None

    def _end(self, pid: int, timeout_s: float) -> None:
        """SIGTERM to the process and what it started; SIGKILL to what is left."""
        os.killpg(pid, signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        while _group_alive(pid):
            if time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                return
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.1)

    def _read(self) -> dict:
        return json.loads(self._state.read_text()) if self._state.is_file() else {}

    def _write(self, state: Mapping) -> None:
        self._state.write_text(json.dumps(state, indent=2) + "\n")


def _environment(pid: int) -> bytes:
    """What a process was started with; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _group_alive(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False
