"""When a worker may answer for a command: of the same files, settings and variables (`warm/likeness.py`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.warm.likeness import likeness_of

NONCE = "00" * 16
ENVIRON = {"PASSWORD": "hunter2", "AWS_PROFILE": "shop", "TERM": "xterm", "PWD": "/here"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, text in {
        "assets/orders.sql": "CREATE SOURCE orders () WITH (schema.location = 'schemas/o.avsc', p = '${PASSWORD}')",
        "assets/more/notes.txt": "x",
        "schemas/o.avsc": "{}",
        "resources/local.yaml": "spark: {}\nwarehouse: {path: '${PLACE}'}",
        "resources/other.yaml": "",
        ".tidegate/definitions/local/made.sql": "CREATE TABLE made (id INT)",
        "jobs/live.yaml": "",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


CHANGES: dict[str, tuple[str | None, Callable[[Path, dict[str, str]], object]]] = {
    "nothing": (None, lambda root, environ: None),
    "a definition": ("definitions", lambda root, environ: (root / "assets/orders.sql").write_text("--")),
    "another file": ("definitions", lambda root, environ: (root / "assets/more/notes.txt").write_text("y")),
    "a new file": ("definitions", lambda root, environ: (root / "assets/b.sql").write_text("")),
    "a file that is gone": ("definitions", lambda root, environ: (root / "assets/more/notes.txt").unlink()),
    "a schema": ("definitions", lambda root, environ: (root / "schemas/o.avsc").write_text("[]")),
    "a statement's definition": (
        "definitions",
        lambda root, environ: (root / ".tidegate/definitions/local/made.sql").unlink(),
    ),
    "the environment's file": (
        "settings",
        lambda root, environ: (root / "resources/local.yaml").write_text("spark: {master: x}"),
    ),
    "a file that it may read": (
        "settings",
        lambda root, environ: (root / "resources/other.yaml").write_text("reads: local"),
    ),
    "a secret in SQL": ("definitions", lambda root, environ: environ.update(PASSWORD="hunter3")),
    "a variable of the environment's file": ("settings", lambda root, environ: environ.update(PLACE="")),
    "credentials of a library": ("settings", lambda root, environ: environ.update(AWS_PROFILE="other")),
    "credentials that are new": ("settings", lambda root, environ: environ.update(AWS_SESSION_TOKEN="t")),
    "where libraries look for credentials": ("settings", lambda root, environ: environ.update(HOME="/other")),
    "options of the JVM": ("settings", lambda root, environ: environ.update(JAVA_TOOL_OPTIONS="-Da=b")),
    "a proxy": ("settings", lambda root, environ: environ.update(https_proxy="http://proxy:1")),
    "a variable that nobody reads": (None, lambda root, environ: environ.update(TERM="dumb")),
    "a file that no run reads": (None, lambda root, environ: (root / "jobs/live.yaml").write_text("a: b")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_R4_what_a_command_would_read_differently_is_noticed(change: str, root: Path) -> None:
    environ = dict(ENVIRON)
    before = likeness_of(root, "local", environ)
    expected, make = CHANGES[change]
    make(root, environ)
    assert before.differs(NONCE, likeness_of(root, "local", environ).proof(NONCE)) == expected


def test_another_environment_folder_or_release_is_another_one(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = likeness_of(root, "local", ENVIRON)
    (tmp_path / "link").symlink_to(root)
    # By its path a project owns its tables (X3).
    assert likeness_of(tmp_path / "link", "local", ENVIRON).settings != here.settings
    assert likeness_of(tmp_path / "link" / ".", "local", ENVIRON) == likeness_of(
        tmp_path / "link", "local", ENVIRON
    )
    assert likeness_of(root, "other", ENVIRON).settings != here.settings
    copied = tmp_path / "copy"
    os.rename(root, copied)
    assert likeness_of(copied, "local", ENVIRON).settings != here.settings
    os.rename(copied, root)
    monkeypatch.setattr("tidegate.__version__", "9")
    assert likeness_of(root, "local", ENVIRON).settings != here.settings


def test_X4_a_proof_is_of_one_connection_and_shows_no_value(root: Path) -> None:
    here = likeness_of(root, "local", ENVIRON)
    one, two = here.proof(NONCE), here.proof("01" * 16)
    assert not set(one.values()) & set(two.values())
    assert here.differs("01" * 16, one) == "settings"
    assert here.differs(NONCE, {}) == "settings"
    assert here.settings.hex() not in str(one)
    assert here.definitions.hex() not in str(one)
