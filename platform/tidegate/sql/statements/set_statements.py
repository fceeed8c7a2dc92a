"""SET, RESET and SHOW of session settings, resolved: which setting is meant, and whether it can have the value."""

from __future__ import annotations

import re

from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.syntax import SetSyntax, ShowSettingSyntax
from tidegate.sql.settings import SessionSettings, find, hint
from tidegate.sql.statements.statements import SetSetting, ShowSettings

#: What decides where, or as whom, things run.
_OF_SPARK = re.compile(r"(spark|hadoop|hive|fs|javax)\.", re.IGNORECASE)


def analyse_set(text: Text, syntax: SetSyntax) -> SetSetting:
    """The statement. TG408 for a value that a known setting can't have; an unknown name is only warned of, when it
    runs, but for Spark's (TG409): somebody would believe that it was set (X1)."""
    if syntax.name is not None and _OF_SPARK.match(syntax.name.text):
        message = f"{syntax.name.text} is an internal setting, which SQL can't change"
        todo = "set Spark's settings under spark.conf, in the environment's file"
        raise error("TG409", message, text.at(syntax.name.span), todo)
    if syntax.name is None or syntax.value is None:
        return SetSetting(syntax.name.text if syntax.name else None, None)
    SessionSettings().set(syntax.name.text, syntax.value.text, text.at(syntax.value.span))
    return SetSetting(syntax.name.text, syntax.value.text)


def analyse_show_setting(text: Text, syntax: ShowSettingSyntax) -> ShowSettings:
    """Raises TG409 for a setting that there isn't."""
    if syntax.name is None:
        return ShowSettings(None)
    known = find(syntax.name.text)
    if known is None:
        message = f'there is no setting "{syntax.name.text}"'
        raise error("TG409", message, text.at(syntax.name.span), hint(syntax.name.text))
    return ShowSettings(known.name)
