"""`${NAME}` in text: the one place where a variable of the environment gets its value."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from tidegate.confidential import MALFORMED, MALFORMED_HINT, VARIABLE, is_secret, passwords_in
from tidegate.errors import Location, TidegateError
from tidegate.masking import conceal


class Expanded(str):
    """Text that came out of the environment. It may be a secret, so its repr shows none of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Listed(dict[str, str]):
    """The environment's variables for those of whom the operator says which they may use (X1): `names`, and in the
    targets of alerts `alerts`, too. `file`: which file says so."""

    def __init__(
        self, environ: Mapping[str, str], names: Collection[str], file: str, alerts: Collection[str] = ()
    ) -> None:
        super().__init__(environ)
        self.names, self.file, self.alerts = names, file, alerts

    def refused(
        self, name: str, location: Location | None = None, of_alerts: bool = False
    ) -> TidegateError | None:
        """TG614 for a variable that is not listed."""
        if name in self.names or (of_alerts and name in self.alerts):
            return None
        who, key = ("targets of alerts", "alerts") if of_alerts else ("files of a project", "variables")
        return TidegateError(
            "TG614",
            f"{who} may not use the environment variable {name}",
            hint=f'the operator of tidegate can allow it in {self.file}, allow: {{{key}: ["{name}"]}}',
            location=location,
        )


def expand(
    text: str,
    environ: Mapping[str, str] | None = None,
    location: Location | None = None,
    secret: bool = False,
) -> str:
    """The text with every `${NAME}` replaced, and `$${` as a literal `${`; an `Expanded` if a variable was in it.

    `environ` defaults to the process environment. `secret`: nobody may read the values, as they may not where a
    variable's own name says so. Raises TG606, at `location`, for a variable that is not set and for
    a `${` that is no variable, TG614 for one that is not `Listed`; no value is part of the error.
    """
    if "${" not in text:
        return text
    known = os.environ if environ is None else environ
    found = False

    def replace(match: re.Match[str]) -> str:
        nonlocal found
        escaped, name, malformed = match.groups()
        if escaped:
            return "${"
        if malformed:
            raise TidegateError("TG606", MALFORMED, hint=MALFORMED_HINT, location=location)
        if name not in known:
            raise TidegateError(
                "TG606",
                f"environment variable {name} is not set",
                hint=f"export {name}=… before running tidegate, or remove the line",
                location=location,
            )
        if isinstance(known, Listed) and (refused := known.refused(name, location)) is not None:
            raise refused
        found = True
        conceal(*passwords_in(known[name]))
        if secret or is_secret(name):
            conceal(known[name])
        return known[name]

    result = VARIABLE.sub(replace, text)
    return Expanded(result) if found else result
