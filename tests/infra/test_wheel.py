"""A wheel built from the tree works where the tree is not."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.environments import without_tidegate
from tests.support.quick import quick

pytestmark = pytest.mark.slow


def test_wheel_holds_the_package_and_works_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.glob("tidegate-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {
        p.relative_to(ROOT / "platform").as_posix() for p in (ROOT / "platform" / "tidegate").rglob("*")
    }
    files = {name for name in shipped if (ROOT / "platform" / name).is_file() and "__pycache__" not in name}
    assert files <= set(names)
    assert not [n for n in names if n.startswith(("platform/", "tests/", "assets/"))]

    home = tmp_path / "elsewhere"
    python = without_tidegate(home)
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(home / "own"),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True, text=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "PYTHONPATH": str(home / "own")
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(python), "-m", "tidegate.cli.main", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [str(python), "-c", "import tidegate; print(tidegate.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert str(home / "own") in found.stdout
    run("init", "shop")
    run("check", "--project", "shop")
    quick(tmp_path / "shop")
    run("run", "--project", "shop")
    assert '"on_time"' in run("status", "--json", "--project", "shop")
