"""Style, types and imports of the whole tree. In `make test` they are checked beside the other tests."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_the_tree_passes_make_lint() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "lint"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
