"""A Spark standalone cluster on this machine: a master and workers, each a process of its own, on loopback.

PySpark's wheel has Spark's jars, but none of the scripts in `sbin/` that start a cluster, so Java is called here as
those scripts would. Process ids and logs are in one folder; `stop` ends the workers with their executors, then the
master.

    python infra/cluster.py start --workers 2 --cores 1 --memory 1g
    tidegate run --env cluster
    python infra/cluster.py stop
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tidegate.errors import TidegateError
from tidegate.project.java import require_java

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
START_SECONDS, STOP_SECONDS = 60, 15
#: What Spark's own launcher adds on Java 17 and later.
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.net",
    "java.nio",
    "java.util",
    "sun.nio.ch",
    "sun.security.action",
)


class ClusterError(Exception):
    """What went wrong, and what to do, in one line."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that keeps its process ids, logs and the executors' folders in `folder`; `port` is the master's.

    `ui`: port of the master's web page, which also answers how many workers have registered.
    """

    folder: Path
    port: int = 7077
    ui: int = 8080

    @property
    def master(self) -> str:
        """What an environment file calls `spark.master`."""
        return f"spark://{HOST}:{self.port}"

    def start(self, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        """Start master and workers, and wait until all have registered. Raises ClusterError, with nothing left behind,
        if one does not."""
        if running := self._running():
            raise ClusterError(f"it runs already ({', '.join(sorted(running))}): stop it first")
        for port in (self.port, self.ui):
            if _answers(port):
                raise ClusterError(
                    f"port {port} of this machine is taken: choose another with --port or --ui-port"
                )
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = ["--port", str(self.port), "--webui-port", str(self.ui)]
        try:
            self._spawn("master", _MASTER, ["--host", HOST, *ports])
            self._wait(
                lambda: _answers(self.port) and _answers(self.ui), "the master does not answer", "master"
            )
            for number in range(1, workers + 1):
                resources = ["--cores", str(cores), "--memory", memory, "--webui-port", "0"]
                place = ["--host", HOST, "--work-dir", str(self.folder / "work")]
                self._spawn(
                    f"worker-{number}",
                    _WORKER,
                    [*place, *resources, self.master],
                )
            self._wait(
                lambda: self.registered() == workers, f"not all {workers} workers have registered", "worker-1"
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> list[str]:
        """End every process of the cluster, executors included; the names of those that ran."""
        running = self._running()
        # Workers first: they end their executors, which would otherwise look for a new master.
        for name in sorted(running, reverse=True):
            _end(running[name])
        for file in self.folder.glob("*.pid"):
            file.unlink()
        return sorted(running)

    def status(self) -> dict[str, int]:
        """The processes that run: name and process id."""
        return self._running()

    def registered(self) -> int:
        """How many workers the master has, and has heard of lately."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.ui}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError, KeyError):
            return 0

    def _spawn(self, name: str, main: str, arguments: list[str]) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        # Processes that tell others what to do need no compiler and no collector with threads of their own.
        opened += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        # The page and the port are enough; the second port that takes applications by HTTP stays shut.
        settings = [*opened, "-Dspark.master.rest.enabled=false"]
        command = [require_java().path, "-Xmx512m", *settings, "-cp", f"{jars}/*", main, *arguments]
        environment = os.environ | {
            # Every port that Spark opens, web pages included, on loopback only.
            "SPARK_LOCAL_IP": HOST,
            "SPARK_PUBLIC_DNS": HOST,
            "SPARK_HOME": str(jars.parent),
            # Without it a worker looks for a build tree before it starts an executor.
            "SPARK_SCALA_VERSION": next(jars.glob("spark-core_*.jar")).name.split("_")[1].split("-")[0],
            # The default is the user's home folder.
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            # A session of its own: Ctrl-C in the terminal does not reach it, and its executors end with it.
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (self.folder / f"{name}.pid").write_text(str(process.pid))

    def _running(self) -> dict[str, int]:
        """Processes of the pid files that are alive, and are what we started (a number may have been given anew)."""
        found = {}
        for file in self.folder.glob("*.pid"):
            with contextlib.suppress(ValueError, OSError):
                pid = int(file.read_text())
                if _is_spark(pid):
                    found[file.stem] = pid
        return found

    def _wait(self, ready: Callable[[], bool], complaint: str, name: str) -> None:
        until = time.monotonic() + START_SECONDS
        while not ready():
            alive = self._running()
            if name not in alive or time.monotonic() > until:
                log = self.folder / f"{name}.log"
                tail = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
                raise ClusterError(f"{complaint}; {log} ends with: {tail}")
            time.sleep(0.1)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _is_spark(pid: int) -> bool:
    """Whether the process is there, is no zombie, and is Java with a class of Spark's standalone cluster."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        done = subprocess.run(
            ["ps", "-o", "stat=,command=", "-p", str(pid), "-ww"], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    text = done.stdout.strip()
    return bool(text) and not text.startswith("Z") and any(name in text for name in (_MASTER, _WORKER))


def _end(pid: int) -> None:
    """SIGTERM, and SIGKILL to the whole group of what has not ended in time."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while _is_spark(pid) and time.monotonic() < until:
        time.sleep(0.05)
    # What is left of the group: executors that outlived their worker.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A Spark standalone cluster on this machine, on loopback.")
    parser.add_argument("action", choices=("start", "stop", "status"))
    parser.add_argument("--workers", type=int, default=2, help="how many (2)")
    parser.add_argument("--cores", type=int, default=1, help="cores of each worker (1)")
    parser.add_argument("--memory", default="1g", help="memory of each worker for executors (1g)")
    parser.add_argument("--port", type=int, default=7077, help="of the master (7077)")
    parser.add_argument("--ui-port", type=int, default=8080, help="of the master's web page (8080)")
    parser.add_argument(
        "--dir", type=Path, default=ROOT / ".tidegate" / "cluster", help="process ids and logs"
    )
    options = parser.parse_args(arguments)
    cluster = Cluster(options.dir.absolute(), options.port, options.ui_port)
    try:
        if options.action == "start":
            cluster.start(options.workers, options.cores, options.memory)
            what = f"{options.workers} workers of {options.cores} core(s) and {options.memory}"
            print(
                f"{cluster.master} with {what}; web page http://{HOST}:{cluster.ui}; logs in {cluster.folder}"
            )
            print("Next: tidegate run --env cluster")
        elif options.action == "stop":
            ended = cluster.stop()
            print(f"stopped {', '.join(ended)}" if ended else "no cluster was running")
        else:
            running = cluster.status()
            for name, pid in sorted(running.items()):
                print(f"{name:<10} {pid}")
            print(f"{cluster.master}: {cluster.registered()} workers" if running else "not running")
            return 0 if running else 1
    except (ClusterError, TidegateError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
