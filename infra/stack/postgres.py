"""A private PostgreSQL on loopback: the distribution's programs, a data folder of our own, a password of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

HOST = "127.0.0.1"
USER = "dagster"
#: Where distributions put the server's programs, which are not in PATH.
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")


class StackError(Exception):
    """What went wrong, in words for people, with the end of a log where that helps."""


class Postgres:
    """The server of one folder: `data`, `password`, `postgres.log`. It runs as the user `postgres` if we are root, whom
    it refuses; else as we do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._data = self.folder / "data"
        self.log = self.folder / "postgres.log"
        self._password = self.folder / "password"

    def start(self, port: int, notify: Callable[[str], None]) -> None:
        """Make the data folder the first time, and start the server on `port`. StackError if there is no PostgreSQL, or
        it does not start."""
        programs = find_programs()
        self._make_folder()
        if not (self._data / "PG_VERSION").is_file():
            notify("making PostgreSQL's data folder …")
            self._initialise(programs)
        if self.is_running():
            return
        options = f"-h {HOST} -p {port} -c unix_socket_directories='' -c max_connections=100"
        command = [str(programs / "pg_ctl"), "start", "-w", "-t", "60", "-D", str(self._data)]
        self._run([*command, "-l", str(self.log), "-o", options], "PostgreSQL does not start")
        self._make_database(programs, port)

    def stop(self) -> bool:
        """Stop it in order; False if it did not run."""
        if not self.is_running():
            return False
        command = [str(find_programs() / "pg_ctl"), "stop", "-w", "-m", "fast", "-D", str(self._data)]
        self._run(command, "PostgreSQL does not stop")
        return True

    def is_running(self) -> bool:
        """Asks pg_ctl, which asks the process."""
        if not (self._data / "PG_VERSION").is_file():
            return False
        command = [str(find_programs() / "pg_ctl"), "status", "-D", str(self._data)]
        return self._call(command).returncode == 0

    def url(self, port: int) -> str:
        """For DAGSTER_PG_URL: with the password, so it belongs into no log. The driver is named, since SQLAlchemy 2.1
        means another one by `postgresql://` alone."""
        password = quote(self._password.read_text().strip(), safe="")
        return f"postgresql+psycopg2://{USER}:{password}@{HOST}:{port}/{USER}"

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        owner = _owner()
        if owner is None:
            return
        # The server has to get at its folder, by a path whose parents it may not read.
        for parent in self.folder.parents:
            if not parent.stat().st_mode & 0o001:
                raise StackError(
                    f"PostgreSQL runs as the user {owner}, who can't enter {parent}: "
                    "run this as an ordinary user, or give another --dir"
                )
        shutil.chown(self.folder, owner, owner)

    def _initialise(self, programs: Path) -> None:
        # Read by initdb, which runs as somebody else if we are root.
        self._password.write_text(secrets.token_urlsafe(24))
        self._password.chmod(0o600)
        if (owner := _owner()) is not None:
            shutil.chown(self._password, owner, owner)
        command = [str(programs / "initdb"), "-D", str(self._data), "-U", USER, "-E", "UTF8", "--locale=C"]
        command += ["--auth=scram-sha-256", f"--pwfile={self._password}"]
        self._run(command, "initdb failed")

    def _make_database(self, programs: Path, port: int) -> None:
        login = {
            "PGPASSWORD": self._password.read_text().strip(),
            "PGHOST": HOST,
            "PGPORT": str(port),
            "PGUSER": USER,
        }
        known = self._call(
            [str(programs / "psql"), "-d", "postgres", "-Atc", "SELECT datname FROM pg_database"], login
        )
        if known.returncode:
            raise StackError(f"PostgreSQL does not answer: {known.stderr.strip()}")
        if USER not in known.stdout.split():
            self._run([str(programs / "createdb"), USER], "createdb failed", login)

    def _run(self, command: list[str], failed: str, environment: dict[str, str] | None = None) -> None:
        done = self._call(command, environment)
        if done.returncode:
            end = self.log.read_text(errors="replace")[-800:] if self.log.is_file() else ""
            raise StackError(f"{failed}: {(done.stderr or done.stdout).strip()}\n{end}".rstrip())

    def _call(
        self, command: list[str], environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        owner = _owner()
        # pg_ctl's child keeps what it inherits: without a file of its own our output would never end.
        out, err = self.folder / "out", self.folder / "err"
        with out.open("w") as stdout, err.open("w") as stderr:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, "LC_ALL": "C", **(environment or {})},
                cwd=self.folder,
                user=owner,
                group=owner,
                extra_groups=[] if owner is not None else None,
                start_new_session=True,
                check=False,
            )
        return subprocess.CompletedProcess(command, done.returncode, out.read_text(), err.read_text())


def find_programs() -> Path:
    """The folder of initdb and pg_ctl, of the newest version there is. StackError if there is none."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else []
    found += [
        p for pattern in _PLACES for p in Path("/").glob(pattern.lstrip("/")) if (p / "initdb").is_file()
    ]
    if not found:
        raise StackError(
            "there is no PostgreSQL on this machine: install it (Debian: apt-get install postgresql)"
        )
    return max(found, key=_version)


def _version(programs: Path) -> tuple[int, ...]:
    return tuple(
        int(part) for part in programs.parent.name.split("-")[-1].split("@")[-1].split(".") if part.isdigit()
    )


def _owner() -> str | None:
    """As whom PostgreSQL's programs run, if not as we do."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise StackError(
            "PostgreSQL refuses to run as root, and there is no user postgres: run this as an ordinary user"
        ) from None
