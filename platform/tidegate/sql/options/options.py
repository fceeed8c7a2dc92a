"""Options as they were written: each once, and errors at their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.errors import Location, TidegateError
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.syntax import OptionSyntax
from tidegate.sql.options.option_types import Problem


def once(text: Text, options: tuple[OptionSyntax, ...]) -> dict[str, OptionSyntax]:
    """The options by their names in lower case. Raises TG405 for one that is there twice."""
    given: dict[str, OptionSyntax] = {}
    for option in options:
        name = option.name.text.lower()
        if name in given:
            raise error("TG405", f"{name} is given twice", text.at(option.name.span))
        given[name] = option
    return given


def located(text: Text, given: Mapping[str, OptionSyntax], whole: Location, wrong: Problem) -> TidegateError:
    """The error for what options say of themselves, at the option's value or name, else at the whole WITH (…)."""
    option = given.get(wrong.option.lower())
    where = whole
    if option is not None:
        where = text.at(option.name.span if wrong.at_name else option.value_span)
    if option is not None and wrong.code == "TG410":
        # Errors are logged and pasted into tickets: the line is shown without what it should not have had.
        value = text.slice(option.value_span)
        where = replace(where, text=where.text.replace(value, "*" * len(value)))
    # A guard of the project has codes of the project.
    return TidegateError(wrong.code, wrong.message, hint=wrong.hint, location=where)
