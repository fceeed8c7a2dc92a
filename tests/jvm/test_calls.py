"""Calls of Java's that are one question (`jvm/calls.py`), on classes that every JVM has."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError

from tests.conftest import Workbench
from tidegate.jvm import calls as module
from tidegate.jvm.calls import Calls
from tidegate.jvm.java import java_class

LIST = "java.util.ArrayList"


@pytest.fixture(params=["one by one", "at once"])
def jvm(workbench: Workbench, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The JVM's view, to which calls are sent in this way."""
    found = workbench.session().spark._jvm
    # (Once for a JVM: Py4J knows methods by the names of their classes.)
    maker = vars(found).get(module._MAKER) or module._compiled(found)
    assert maker is not None
    vars(found)[module._MAKER] = maker
    if request.param == "one by one":
        monkeypatch.setitem(vars(found), module._MAKER, None)
    return found


@pytest.fixture
def asked(jvm: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The commands that the JVM was given since the last question; those that let go of an object begin with an m."""
    client, sent = jvm._gateway_client, list[str]()
    send = client.send_command

    def counted(command: str, *given: object, **named: object) -> object:
        sent.append(command)
        return send(command, *given, **named)

    monkeypatch.setattr(client, "send_command", counted)

    def found() -> list[str]:
        gc.collect()
        taken = list(sent)
        sent.clear()
        return taken

    return found


@pytest.mark.parametrize(
    "given",
    [
        "",
        "a",
        "two\nlines\r\n",
        "\\n \\\\ \\",
        "?0",
        "e",
        "z:java.lang.String",
        "ünï 🦊 \u2028 \x85",
        0,
        -1,
        2**31 - 1,
        2**31,
        -(2**63),
        0.1,
        True,
        False,
        None,
        b"\x00\n\xff",
    ],
    ids=repr,
)
def test_values_come_back_as_they_are(jvm: Any, given: object) -> None:
    calls = Calls(jvm)
    made = calls.new(java_class(jvm, LIST))
    calls.call(made, "add", given)
    got = calls.call(made, "get", 0)
    calls.call(made, "add", got)
    assert calls.run(got, calls.call(made, "get", 1)) == [given, given]


def test_calls_are_made_of_what_earlier_ones_give(jvm: Any) -> None:
    calls = Calls(jvm)
    made = calls.new(java_class(jvm, LIST), [3, 1, 2])
    calls.call(java_class(jvm, "java.util.Collections"), "sort", made)
    text = calls.call(java_class(jvm, "java.lang.String"), "valueOf", made)
    other = calls.new(java_class(jvm, LIST), made)
    calls.call(other, "add", calls.call(made, "size"))
    found = calls.run(text, other, calls.call(other, "get", 3), calls.call(made, "clear"))
    assert list(found[1]) == [1, 2, 3, 3]
    assert (found[0], *found[2:]) == ("[1, 2, 3]", 3, None)
    assert calls.run() == []


def test_what_needs_something_is_not_done_without_it(jvm: Any) -> None:
    for known, expected in (({"a": [7]}, [1, True]), ({}, [None, None])):
        calls = Calls(jvm)
        found = calls.call(calls.new(java_class(jvm, "java.util.HashMap"), known), "get", "a")
        size = calls.call(found, "size", needs=found)
        assert calls.run(size, calls.call(found, "contains", 7, needs=size)) == expected


def test_the_first_error_ends_them_and_is_java_s_own(jvm: Any) -> None:
    made, calls = java_class(jvm, LIST)(), Calls(jvm)
    calls.call(made, "add", "before")
    calls.call(made, "get", 7)
    calls.call(made, "add", "behind")
    with pytest.raises(Py4JJavaError) as raised:
        calls.run()
    assert raised.value.java_exception.getClass().getName() == "java.lang.IndexOutOfBoundsException"
    assert list(made) == ["before"]
    calls = Calls(jvm)
    calls.call(made, "get", "no such method")
    with pytest.raises(Py4JError):
        calls.run()


def test_they_are_one_question_and_leave_nothing(jvm: Any, asked: Callable[[], list[str]]) -> None:
    known = JavaObject("GATEWAY_SERVER", jvm._gateway_client).getGateway().getBindings()
    kind = java_class(jvm, LIST)
    Calls(jvm).run()
    asked()
    before = known.size()
    asked()
    calls = Calls(jvm)
    made = calls.new(kind)
    for number in range(10):
        calls.call(made, "add", number)
    assert calls.run(calls.call(made, "size")) == [10]
    sent = [command for command in asked() if not command.startswith("m\n")]
    if vars(jvm)[module._MAKER] is None:
        assert len(sent) == 12
    else:
        assert len(sent) == 1
        assert known.size() <= before


def test_a_class_is_compiled_when_it_is_worth_it(jvm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()
    monkeypatch.delitem(vars(jvm), module._MAKER)
    monkeypatch.setitem(vars(jvm), module._ASKED, 0)
    monkeypatch.setattr(module, "_compiled", lambda jvm: made.append("tried"))
    for number in range(module._WORTH + 5):
        calls = Calls(jvm)
        assert calls.run(calls.call(java_class(jvm, "java.lang.Math"), "abs", -number)) == [number]
        assert len(made) == (number >= module._WORTH)
    # One that can't be compiled is not tried again.
    monkeypatch.delitem(vars(jvm), module._MAKER)
