"""`${NAME}`: one expansion for YAML files and for the options of connectors, and nothing of a secret on the way."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import TidegateError
from tidegate.project import kafka
from tidegate.project.reading.variables import Expanded, expand
from tidegate.sql import load_catalog

ENVIRON = {"WORD": "hunter2", "TOPIC": "orders"}


def test_variables_and_their_escape() -> None:
    assert expand("a ${WORD} b ${TOPIC}$${WORD}", ENVIRON) == "a hunter2 b orders${WORD}"
    assert expand("nothing $ {to} do", ENVIRON) == "nothing $ {to} do"
    found = expand("${WORD}", ENVIRON)
    assert isinstance(found, Expanded)
    assert repr(found) == "'***'"


@pytest.mark.parametrize(
    ("text", "message"), [("${NOT_SET}", "NOT_SET is not set"), ("${WORD} ${1", "not followed")]
)
def test_what_can_not_be_expanded_is_an_error_without_values(text: str, message: str) -> None:
    with pytest.raises(TidegateError) as caught:
        expand(text, ENVIRON)
    assert caught.value.code == "TG606"
    assert message in caught.value.message
    assert "hunter2" not in str(caught.value)


def test_java_properties_are_expanded_under_javas_names() -> None:
    sql = """CREATE SOURCE s (id INT) WITH (connector = 'kafka', topic = '${TOPIC}',
        properties.bootstrap.server = 'a:1', properties.ssl.key.password = '${WORD}', properties.my.own = '$${x}')
        FORMAT PLAIN ENCODE JSON"""
    options: Any = load_catalog([("s.sql", sql)]).get("s").connector  # type: ignore[union-attr]
    assert kafka.java_properties(options, ENVIRON) == {
        "bootstrap.servers": "a:1",
        "ssl.key.password": "hunter2",
        "my.own": "${x}",
    }
    assert kafka.topic(options, ENVIRON) == "orders"
    assert "hunter2" not in repr(options)
