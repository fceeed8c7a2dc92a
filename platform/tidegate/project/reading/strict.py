"""Pydantic models over YAML: unknown keys refused with "did you mean", errors with file and caret."""

from __future__ import annotations

import re
import types
import typing
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, WrapValidator
from pydantic_core import ErrorDetails, PydanticCustomError

from tidegate.confidential import literals_in, passwords_in
from tidegate.errors import TidegateError, did_you_mean
from tidegate.masking import conceal
from tidegate.project.reading.durations import parse_duration
from tidegate.project.reading.variables import Expanded
from tidegate.project.reading.yamlfile import Path_, YamlFile

ModelT = TypeVar("ModelT", bound="StrictModel")


class StrictModel(BaseModel):
    """Base of everything that is read from YAML: frozen, no unknown keys. What stands below a field is for readers of
    the code: for pydantic to have it as a description, every source would be read again, a tenth of `tidegate check`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _keep_expanded(value: Any, handler: Any) -> str:
    text = handler(value)
    # Pydantic returns a plain str; the masking repr of an expanded secret must survive it.
    return Expanded(text) if isinstance(value, Expanded) else text


def _scalar_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Text = Annotated[str, WrapValidator(_keep_expanded)]
"""Text; when it came from `${NAME}` its repr is masked."""

ScalarText = Annotated[str, WrapValidator(_keep_expanded), BeforeValidator(_scalar_text)]
"""Text that may be written as a number or boolean in YAML (`2` -> "2", `true` -> "true")."""


def refuse(message: str, *, code: str = "TG605", hint: str | None = None) -> PydanticCustomError:
    """The error a validator of a strict model raises to choose its own code and hint."""
    escaped = message.replace("{", "{{").replace("}", "}}")
    return PydanticCustomError("tidegate", escaped, {"code": code, "hint": hint})


def _duration(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str):
        raise refuse("a duration needs a unit", hint="write for example 2 hours, 90 seconds, or 1 day")
    try:
        return parse_duration(value)
    except ValueError as error:
        raise refuse(str(error), hint="write for example 2 hours, 90 seconds, or 1 day") from None


Seconds = Annotated[int, BeforeValidator(_duration)]
"""Seconds of wall clock, written with a unit (`2 hours`)."""


def _plain_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise refuse(f'"{name}" may only have letters, digits and _')
    return name


PlainName = Annotated[str, AfterValidator(_plain_name)]
"""A name that Dagster takes for a job or schedule."""


def _zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise refuse(
            f'there is no time zone "{zone}"', hint="write for example UTC, or Europe/Berlin"
        ) from None
    return zone


def _something(select: list[str] | str) -> list[str] | str:
    if not select:
        raise refuse("selects nothing", hint="write the names of assets, or *")
    return select


Selected = Annotated[list[str] | Literal["*"], AfterValidator(_something)]
"""Names, or `*` for everything; not none at all."""

ZoneName = Annotated[str, AfterValidator(_zone)]
"""A time zone, such as `America/New_York`."""


def validate(model: type[ModelT], file: YamlFile) -> ModelT:
    """`model` from the file's data. Raises, with the place in the file, TG410 (secret that is written out), TG604
    (unknown key) and TG605 (bad value)."""
    _no_secrets(file, file.data, ())
    try:
        return model.model_validate(file.data, context={"yaml": True})
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        # An unknown key is usually a typo of the one that is missing: name the typo first.
        details.sort(key=lambda d: d["type"] != "extra_forbidden")
        first = _explain(model, file, details[0], len(details) - 1)
        first.others = tuple(_explain(model, file, detail, 0) for detail in details[1:])
        raise first from None


def _no_secrets(file: YamlFile, value: Any, path: Path_) -> None:
    """TG410 for the first secret that stands in the file itself; those of the environment are told to nobody."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _no_secrets(file, inner, (*path, key))
        return
    if isinstance(value, bool) or value is None:
        return
    text = str.__str__(value) if isinstance(value, str) else str(value)
    if isinstance(value, Expanded):
        conceal(*passwords_in(text))
    written = file.written.get(path, text)
    if not literals_in(str(path[-1]) if path else "", written):
        return
    where = file.locate(path)
    if where is not None:
        # The whole value: of one over several lines, the rest of its first.
        start = where.column - 1
        end = start + where.length if where.length > 1 else len(where.text)
        where = replace(where, text=where.text[:start] + "*" * (end - start) + where.text[end:])
    dotted = ".".join(str(part) for part in path)
    message = f"{dotted}: a secret must not be written into the file"
    raise TidegateError("TG410", message, hint="write ${NAME} and set the variable NAME", location=where)


def _explain(model: type[BaseModel], file: YamlFile, detail: ErrorDetails, more: int) -> TidegateError:
    path = tuple(detail["loc"])
    dotted = ".".join(str(p) for p in path)
    also = f" ({more} more {'problem' if more == 1 else 'problems'} in this file)" if more else ""
    if detail["type"] == "extra_forbidden":
        known = _keys_at(model, path[:-1])
        hint = did_you_mean(str(path[-1]), known) or f"known keys: {', '.join(known)}"
        return TidegateError(
            "TG604", f'unknown key "{dotted}"{also}', hint=hint, location=file.locate(path, key=True)
        )
    if detail["type"] == "missing":
        return TidegateError(
            "TG605", f'"{dotted}" is missing{also}', location=file.locate(path[:-1], key=len(path) > 1)
        )
    context = detail.get("ctx", {})
    if detail["type"] == "tidegate":
        subject = f"{dotted}: " if dotted else ""
        return TidegateError(
            context.get("code", "TG605"),
            f"{subject}{detail['msg']}{also}",
            hint=context.get("hint"),
            location=file.locate(path),
        )
    if detail["type"] in ("model_type", "dict_type"):
        return TidegateError(
            "TG605", f"{dotted}: keys with values must be given here{also}", location=file.locate(path)
        )
    message = detail["msg"][:1].lower() + detail["msg"][1:]
    return TidegateError("TG605", f"{dotted}: {message}{also}", location=file.locate(path))


def _keys_at(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """Names a mapping at `path` may have: walks the field types, through lists and optionals."""
    current: type[BaseModel] = model
    for part in path:
        if isinstance(part, int) or part not in current.model_fields:
            continue
        inner = _model_in(current.model_fields[part].annotation)
        if inner is None:
            break
        current = inner
    return [f.alias or name for name, f in current.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for argument in typing.get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
