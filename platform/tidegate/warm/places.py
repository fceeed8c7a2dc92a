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
        if _foreign(state_dir, env) or stat.S_IMODE(folder.lstat().st_mode) & 0o077:
            return []
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for kind in KINDS for name in names if name.startswith(f"{kind}-")]


@contextmanager
def listening(state_dir: Path, env: str, kind: str) -> Iterator[socket.socket]:
    """A socket to accept on, for this process. Raises OSError where there can be none."""
    folder = folder_of(state_dir, env)
    for each in (state_dir, folder.parent, folder):
        each.mkdir(mode=_OWNER_ONLY, exist_ok=True)
    if (other := _foreign(state_dir, env)) is not None:
        raise PermissionError(f"{other} belongs to another user, or is a link")
    folder.chmod(_OWNER_ONLY)
    _clear(folder)
    path = folder / f"{kind}-{socket.gethostname()}-{os.getpid()}"
    # Nobody looks for it, to ask or to remove it, before it listens.
    early = path.with_name(f".{path.name}")
    _remove(early)
    _remove(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(early) as name:
            made.bind(name)
        early.chmod(0o600)
        made.listen(16)
        early.rename(path)
        yield made
    finally:
        for each in (early, path):
            with suppress(OSError):
                _remove(each)
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


def _foreign(state_dir: Path, env: str) -> Path | None:
    """The first of the folders in which somebody else could put something in the place of a socket. The project's own
    one may be a link, or the system's, as where it is mounted. Raises OSError if there is none."""
    if state_dir.stat().st_uid not in (os.geteuid(), 0):
        return state_dir
    folder = folder_of(state_dir, env)
    for each in (folder.parent, folder):
        facts = each.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return each
    return None


def _remove(path: Path) -> None:
    """Remove a socket, if there is one. Raises FileExistsError for anything else."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(f"{path} is no socket")
    path.unlink(missing_ok=True)


def _clear(folder: Path) -> None:
    """Remove what processes of this machine have left that were killed."""
    here = socket.gethostname()
    for path in folder.iterdir():
        if not path.name.startswith(KINDS):
            continue
        host, _, pid = path.name.partition("-")[2].rpartition("-")
        if host != here or not pid.isdecimal():
            continue
        try:
            connected(path, 1.0).close()
        except ConnectionRefusedError:
            with suppress(OSError):
                _remove(path)
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
