"""Types: `make lint` holds the package to mypy's strict rules; here is what mypy does not look at."""

from __future__ import annotations

import re

from tests.test_architecture import PACKAGE, modules

_EXCUSE = re.compile(r"# type: ignore\[[a-z, -]+\]  # \S")


def test_what_a_type_checker_is_to_ignore_has_a_code_and_a_reason() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "type: ignore" in line and not _EXCUSE.search(line)
    ]
    assert not wrong


def test_those_who_use_the_package_see_its_types() -> None:
    assert (
        PACKAGE / "py.typed"
    ).is_file()  # and what is in the package is in the wheel: tests/infra/test_wheel.py
