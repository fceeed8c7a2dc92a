"""Steps of Java's that are one (`jvm/handles.py`), on classes that every JVM has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Workbench
from tidegate.jvm.handles import class_of, counted_up, emptied, field, getter, method, setter
from tidegate.jvm.java import java_class, once

TEXT, LIST, ANY_LIST = "java.lang.String", "java.util.ArrayList", "java.util.AbstractList"


@pytest.fixture
def jvm(workbench: Workbench) -> Any:
    return workbench.session().spark._jvm


@pytest.fixture
def asked(jvm: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many commands the JVM was given since the last question, without those that only let go of objects."""
    client, sent = jvm._gateway_client, list[str]()
    send = client.send_command

    def counted(command: str, *given: object, **named: object) -> object:
        sent.append(command)
        return send(command, *given, **named)

    monkeypatch.setattr(client, "send_command", counted)

    def count() -> int:
        found = [command for command in sent if not command.startswith("m\n")]
        sent.clear()
        return len(found)

    return count


def test_methods_are_put_together(jvm: Any, asked: Callable[[], int]) -> None:
    text = class_of(jvm, TEXT)
    concat, length = method(jvm, TEXT, "concat", [text]), method(jvm, TEXT, "length")
    upper, value = (
        method(jvm, TEXT, "toUpperCase"),
        method(jvm, TEXT, "valueOf", [class_of(jvm, "java.lang.Object")]),
    )
    assert (concat("a", "b"), length("abc"), value("static")) == ("ab", 3, "static")
    for made, given, expected in (
        (concat.then(length), ("ab", "c"), 3),
        (concat.of(1, upper), ("a", "b"), "aB"),
        (concat.of(0, upper).of(1, upper).of_one(), ("ab",), "ABAB"),
    ):
        asked()
        assert made(*given) == expected
        assert asked() == len(given) + 1
    # What is done to one object again and again is one command.
    found = java_class(jvm, LIST)()
    found.add("a")
    size = method(jvm, LIST, "size")
    assert size.on(found)() == 1
    found.add("b")
    asked()
    assert (size.on(found)(), asked()) == (2, 1)
    assert size.on(java_class(jvm, LIST)())() == 0


def test_fields_are_set_together_and_the_last_step_comes_last(jvm: Any) -> None:
    found = java_class(jvm, LIST)()
    found.add("a")
    changes = getter(jvm, ANY_LIST, "modCount")
    before = changes(found)
    counted_up(jvm, ANY_LIST, "modCount")(found)
    assert changes(found) == before + 1
    emptied(jvm, LIST, "size")(found)
    assert (found.size(), getter(jvm, LIST, "size")(found)) == (0, 0)
    # What is there twice is set by the last of them.
    other = java_class(jvm, LIST)()
    for text in ("b", "c"):
        other.add(text)
    elements = getter(jvm, LIST, "elementData")
    setter(jvm, LIST, "elementData").behind(emptied(jvm, LIST, "elementData"), counted_up(jvm, LIST, "size"))(
        found, elements(other)
    )
    assert (found.size(), found.get(0)) == (1, "b")
    assert field(jvm, LIST, "size") is field(jvm, LIST, "size")


def test_what_is_always_the_same_is_asked_for_once(jvm: Any, asked: Callable[[], int]) -> None:
    options = java_class(jvm, "java.util.Optional")
    once(options, "empty")
    asked()
    assert once(options, "empty") is once(options, "empty")
    assert asked() == 0
    assert once(options, "empty").isPresent() is False
