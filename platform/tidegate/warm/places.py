"""Where workers listen: a socket of each in the project's own folder, which only its owner enters."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

#: First those that have groups of live mode.
KINDS = ("live", "warm")
_OWNER_ONLY = 0o700


def folder_of(state_dir: Path, env: str) -> Path:
    """The folder of the sockets of an environment."""
    return state_dir / "workers" / quote(env, safe="")


def found(state_dir: Path, env: str) -> list[Path]:
    """The sockets that there are, whoever listens; none where anybody but this user could have put one."""
    folder = folder_of(state_dir, env)
    try:
        facts = folder.stat()
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        return []
    return [folder / name for kind in KINDS for name in names if name.startswith(f"{kind}-")]


@contextmanager
def listening(state_dir: Path, env: str, kind: str) -> Iterator[socket.socket]:
    """A socket to accept on, for this process. Raises OSError where there can be none."""
    folder = folder_of(state_dir, env)
    for each in (state_dir, folder.parent, folder):
        each.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    folder.chmod(_OWNER_ONLY)
    _clear(folder)
    path = folder / f"{kind}-{socket.gethostname()}-{os.getpid()}"
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            made.bind(name)
        path.chmod(0o600)
        made.listen(16)
        yield made
    finally:
        with suppress(OSError):
            path.unlink()
        made.close()


def connected(path: Path, seconds: float) -> socket.socket:
    """A connection to who listens at `path`. Raises OSError if nobody does."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(seconds)
    try:
        with _short(path) as name:
            made.connect(name)
    except OSError:
        made.close()
        raise
    return made


def _clear(folder: Path) -> None:
    """Remove what processes of this machine have left that were killed."""
    here = socket.gethostname()
    for path in folder.iterdir():
        host, _, pid = path.name.partition("-")[2].rpartition("-")
        if host != here or not pid.isdecimal():
            continue
        try:
            connected(path, 1.0).close()
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
        except OSError:
            continue


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for the socket that is short enough: the system takes 100 bytes, and projects can lie deeper."""
    plain = os.fsencode(path)
    if len(plain) < 100 or not Path("/proc/self/fd").is_dir():
        yield os.fsdecode(plain)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
