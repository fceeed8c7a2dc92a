"""Settings of a session: names, values, and what is said about others."""

from __future__ import annotations

import pytest

from tidegate.errors import TidegateError
from tidegate.sql.settings import SETTINGS, SessionSettings


@pytest.mark.parametrize(
    "name", ["implicit_flush", "IMPLICIT_FLUSH", "RW_IMPLICIT_FLUSH", "rw_implicit_flush"]
)
def test_names_are_found_whatever_their_case_and_under_risingwaves(name: str) -> None:
    settings = SessionSettings()
    assert not settings.implicit_flush
    assert settings.set(name, "on") is None
    assert settings.implicit_flush
    assert settings.reset(name) is None
    assert not settings.implicit_flush


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("implicit_flush", "TRUE", "true"),
        ("implicit_flush", "0", "false"),
        ("max_rows_per_batch", "500", "500"),
        ("max_rows_per_batch", "none", "none"),
        ("timezone", "Etc/UTC", "UTC"),
        ("TIME ZONE", "+00:00", "UTC"),
    ],
)
def test_values(name: str, text: str, shown: str) -> None:
    settings = SessionSettings()
    settings.set(name, text)
    assert shown in [value for _, value, _ in settings.rows()]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("implicit_flush", "maybe", "neither true nor false"),
        ("max_rows_per_batch", "0", "not a number of rows"),
        ("max_rows_per_batch", "-1", "not a number of rows"),
        ("timezone", "Europe/Paris", "must not depend on the user"),
    ],
)
def test_bad_values_are_refused_and_change_nothing(name: str, text: str, said: str) -> None:
    settings = SessionSettings()
    before = list(settings.rows())
    with pytest.raises(TidegateError, match=said) as caught:
        settings.set(name, text)
    assert caught.value.code == "TG408"
    assert list(settings.rows()) == before


def test_others_settings_are_warned_of() -> None:
    settings = SessionSettings()
    assert 'did you mean "implicit_flush"?' in (settings.set("implicit_flsh", "true") or "")
    assert all(name in (settings.set("search_path", "public") or "") for name in SETTINGS)
    assert "no setting" in (settings.reset("search_path") or "")
    settings.set("max_rows_per_batch", "3")
    assert settings.reset(None) is None
    assert settings.max_rows_per_batch is None
