"""A real single-node Kafka (KRaft) on loopback, without Docker: a folder, a Java process, and what it says."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.ivy import SPARK_JARS, Unresolved, resolve
from tidegate.errors import TidegateError
from tidegate.jvm.jars import read_sums, verify_folder
from tidegate.project.java import require_java

#: What a broker is made of. Kafka itself logs through slf4j and brings no logger along.
BROKER_PACKAGES = ("org.apache.kafka:kafka_2.13:4.1.2", "org.slf4j:slf4j-simple:1.7.36")
#: Apart from Spark's jars: those hold another version of Kafka's client.
BROKER_IVY = Path(sys.prefix) / "share" / "tidegate" / "broker"
BROKER_SUMS = Path(__file__).with_name("jars.sha256")

HOST = "127.0.0.1"
_READY = "Kafka Server started"
_FORMATTED = Path("logs") / "meta.properties"
# Event times of any age are accepted, nothing is ever deleted by age, and a value may have 10 MB and some more.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
log.retention.bytes=-1
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
message.max.bytes=20000000
replica.fetch.max.bytes=20000000
log.cleaner.dedupe.buffer.size=4194304
metadata.max.idle.interval.ms=30000
group.share.enable=false
"""


class BrokerError(Exception):
    """What went wrong with the broker, in words for people, with the end of its log where that helps."""


@dataclass(frozen=True)
class Status:
    """What is known of a broker's folder. `pid` is None unless the process runs; `bootstrap` is where it listens."""

    running: bool
    pid: int | None
    port: int | None
    bootstrap: str | None
    folder: str
    formatted: bool

    def document(self) -> dict[str, object]:
        return asdict(self)


class LocalBroker:
    """The broker of one folder: `properties`, `broker.json` (pid, port), `broker.log`, and the data in `logs`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._settings = self.folder / "broker.properties"
        self._state = self.folder / "broker.json"
        self.log = self.folder / "broker.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    def status(self) -> Status:
        """Whether it runs, and where; asks the operating system, not the broker."""
        pid, port = self._recorded()
        running = pid is not None and self._is_mine(pid)
        return Status(
            running,
            pid if running else None,
            port,
            f"{HOST}:{port}" if running else None,
            str(self.folder),
            (self.folder / _FORMATTED).is_file(),
        )

    def start(
        self,
        port: int | None = None,
        *,
        wait: bool = True,
        timeout_s: float = 60.0,
        with_parent: bool = False,
        notify: Callable[[str], None] = lambda line: None,
    ) -> bool:
        """Start it on `port` (default: the last one, or 9092) and wait until it serves; False if it ran already.

        `with_parent`: it ends with this process, even if that is killed. `notify` gets a line per slow step.
        Raises BrokerError if the port is taken, the jars are not to be had, or it ends or does not answer in time.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder / "lock"):
            found = self.status()
            if found.running:
                if port not in (None, found.port):
                    raise BrokerError(
                        f"the broker of {self.folder} runs already, on port {found.port}: "
                        f"stop it before you start it on port {port}, or give another --dir"
                    )
                return False
            port = port or found.port or 9092
            if not is_free(port):
                raise BrokerError(
                    f"port {port} is in use, and not by the broker of {self.folder}: "
                    "stop what uses it, or choose another with --port"
                )
            java = [require_java().path, *_jars(notify)]
            # The controller listens for this process only: it needs no port that anybody knows.
            self._settings.write_text(
                _SETTINGS.format(
                    host=HOST, port=port, controller=free_port(but=port), logs=self.folder / "logs"
                )
            )
            if not (self.folder / _FORMATTED).is_file():
                self._format(java)
            self._launch(java, port, with_parent)
            if wait:
                self._wait(port, timeout_s)
        return True

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Stop it as an operator would (SIGTERM); kill it if it does not end in time. False if it did not run."""
        return self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> bool:
        """SIGKILL: what a power cut does to the process, for chaos tests. False if it did not run."""
        return self._end(signal.SIGKILL, 10.0)

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        if not self.log.is_file():
            return ""
        return "\n".join(self.log.read_text("utf-8", errors="replace").splitlines()[-lines:])

    def _recorded(self) -> tuple[int | None, int | None]:
        try:
            state = json.loads(self._state.read_text())
            return int(state["pid"]), int(state["port"])
        except (OSError, ValueError, KeyError):
            return None, None

    def _is_mine(self, pid: int) -> bool:
        """Whether this process is the broker of this folder: numbers are used again after a reboot."""
        if self._child is not None and self._child.pid == pid:
            return self._child.poll() is None
        proc = Path("/proc") / str(pid) / "cmdline"
        if proc.parent.parent.joinpath("self").exists():
            try:
                words = proc.read_bytes().split(
                    b"\0"
                )  # empty for a process that ended and was not waited for
            except OSError:
                return False
            return str(self._settings).encode() in words
        asked = subprocess.run(
            ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return str(self._settings) in asked.stdout

    def _format(self, java: list[str]) -> None:
        # A cluster id must not begin with "-": the tool takes it for an option.
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        command = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"cannot format {self.folder}:\n{(done.stdout + done.stderr)[-2000:]}")

    def _launch(self, java: list[str], port: int, with_parent: bool) -> None:
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(
                [*java, "kafka.Kafka", str(self._settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if with_parent:
            # Its standard input ends when this process does, however that ends.
            self._watch = subprocess.Popen(
                ["/bin/sh", "-c", f"read line; kill -9 {self._child.pid}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._state.write_text(json.dumps({"pid": self._child.pid, "port": port}))

    def _wait(self, port: int, timeout_s: float) -> None:
        """Until it says that it has started and takes connections."""
        assert self._child is not None
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._child.poll() is not None:
                raise BrokerError(
                    f"the broker ended with {self._child.returncode}; the end of {self.log}:\n{self.tail()}"
                )
            if _READY in self.log.read_text("utf-8", errors="replace") and not is_free(port):
                return
            time.sleep(0.1)
        self.kill()
        raise BrokerError(
            f"the broker did not start within {timeout_s:.0f} s and was ended; the end of {self.log}:\n{self.tail()}"
        )

    def _end(self, how: signal.Signals, timeout_s: float) -> bool:
        status = self.status()
        if status.pid is None:
            return False
        os.kill(status.pid, how)
        deadline = time.monotonic() + timeout_s
        while self._is_mine(status.pid):
            if time.monotonic() > deadline:
                if how == signal.SIGKILL:
                    raise BrokerError(f"process {status.pid} does not end")
                return self._end(signal.SIGKILL, 10.0)
            time.sleep(0.05)
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate()
            self._watch = None
        return True


def free_port(but: int = 0) -> int:
    """A port that nobody uses, below those that the system hands out to clients, so that it is free after a stop."""
    while True:
        port = 20_000 + int.from_bytes(os.urandom(2), "big") % 12_000
        if port != but and is_free(port):
            return port


def is_free(port: int) -> bool:
    """Whether a port of this machine can be listened on."""
    with socket.socket() as probe:
        # As the broker itself does: connections that are closed already do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _jars(notify: Callable[[str], None]) -> list[str]:
    """Java's options and class path; the jars are fetched the first time."""
    BROKER_IVY.mkdir(parents=True, exist_ok=True)
    folder, done = BROKER_IVY / "jars", BROKER_IVY / ".fetched"
    with _locked(BROKER_IVY / "lock"):
        if not done.is_file() or done.read_text() != " ".join(BROKER_PACKAGES):
            notify("Fetching the broker's jars (38 MB, once) …")
            try:
                resolve(BROKER_PACKAGES, BROKER_IVY)
                verify_folder(folder.glob("*.jar"), read_sums(BROKER_SUMS))
            except (Unresolved, TidegateError) as error:
                raise BrokerError(str(error)) from error
            done.write_text(" ".join(BROKER_PACKAGES))
    scala = next(SPARK_JARS.glob("scala-library-2.13.*.jar"))
    options = ["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    log = {"defaultLogLevel": "warn", "showDateTime": "true", "dateTimeFormat": "HH:mm:ss.SSS"}
    log |= {"log.kafka.server.KafkaRaftServer": "info", "logFile": "System.out"}
    options += [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in log.items()]
    return [*options, "-cp", f"{folder}/*{os.pathsep}{scala}"]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
