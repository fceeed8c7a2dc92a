"""Options as they were written: each once, and errors at their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.confidential import literals_in, written_out
from tidegate.errors import Location, TidegateError
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.syntax import OptionSyntax
from tidegate.sql.options.option_types import Problem


def once(text: Text, options: tuple[OptionSyntax, ...]) -> dict[str, OptionSyntax]:
    """The options by their names in lower case. Raises TG405 for one that is given twice, and TG410 for a secret that
    is written out, whether there is an option of its name or not: before anything else is said of the options."""
    given: dict[str, OptionSyntax] = {}
    for option in options:
        name = option.name.text.lower()
        if name in given:
            raise error("TG405", f"{name} is given twice", text.at(option.name.span))
        given[name] = option
    for name, option in given.items():
        if literals_in(name, option.value):
            raise located(
                text, given, text.at(option.value_span), secret_problem(option.name.text, option.value)
            )
    return given


def secret_problem(option: str, value: str) -> Problem:
    """The error for a secret that stands in the SQL itself; it shows nothing of it."""
    variable = "".join(c if c.isalnum() else "_" for c in option.removeprefix("properties.")).upper()
    what, hint = "is a secret", f"{option} = '${{{variable}}}', and export {variable}=… where tidegate runs"
    if "jaas" in option.lower():
        hint = (
            'write its passwords as environment variables: username="${KAFKA_USER}" '
            'password="${KAFKA_PASSWORD}"'
        )
    elif not written_out(option, value):
        what = "contains a password"
        hint = "write ${NAME} in place of the password, and export NAME=… where tidegate runs"
        if option.lower() == "schema.registry":
            hint = f"{option}.username = '…', {option}.password = '${{REGISTRY_PASSWORD}}'"
    message = f"{option} {what}, which everybody who reads this file can see"
    return Problem("TG410", option, message, hint, at_name=True)


def located(text: Text, given: Mapping[str, OptionSyntax], whole: Location, wrong: Problem) -> TidegateError:
    """The error for what options say of themselves, at the option's value or name, else at the whole WITH (…)."""
    option = given.get(wrong.option.lower())
    where = whole
    if option is not None:
        where = text.at(option.name.span if wrong.at_name else option.value_span)
    if option is not None and wrong.code == "TG410":
        # Errors are logged and pasted into tickets: the line is shown without what it should not have had.
        value = text.slice(option.value_span)
        for part in value.split("\n"):
            where = replace(
                where, text=where.text.replace(part, "*" * len(part)) if part.strip() else where.text
            )
    # A guard of the project has codes of the project.
    return TidegateError(wrong.code, wrong.message, hint=wrong.hint, location=where)
