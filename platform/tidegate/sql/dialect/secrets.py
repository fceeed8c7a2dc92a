"""`${NAME}` in options, and which options are secrets: those must be written so, and stay so wherever they are kept."""

from __future__ import annotations

import re

#: `$${` is a literal `${`; `${NAME}` a variable of the environment; any other `${` a mistake.
VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|(\$\{)")
MALFORMED = "`${` is not followed by a variable name and `}`"
MALFORMED_HINT = "write ${NAME}; for a literal ${ write $${"

_SECRET = re.compile(
    r"password|passwd|passphrase|jaas|secret|token|oauth|credential|authorization|basic\.auth|keystore\.key$"
    r"|(access|account|api|private)[._-]?key\b|sasl\.plain\.username"
)
#: Beside a secret, but none: where it comes from, how often, by which class. (Kubernetes' `secrets` are names.)
_NO_SECRET = re.compile(
    r"([._-](url|uri|ms|seconds|class|source|name|algorithm|location|audience|issuer|urlencode|enabled|mechanism|regex)"
    r"|provider(\.path)?|file|endpoint|ratio|interval|timeout|bitlength)$|\.secrets\.|secretkeyref|key[._-]id$"
    r"|security\.credentials\."
)
#: A password inside an address: of its login, or among its parameters.
_IN_ADDRESS = re.compile(
    r"//[^/@\s]*:([^/@\s]+)@|[?&;](?:[\w.-]*(?:password|passwd|secret|token|api_?key))=([^&;\s]+)",
    re.IGNORECASE,
)
_IN_JAAS = re.compile(
    r"""(\w*(?:password|passwd|secret|token|key)\w*)\s*=\s*("[^"]*"|'[^']*'|[^\s;]+)""", re.IGNORECASE
)
_NOT_IN_JAAS = ("usekeytab", "storekey", "keytab", "useticketcache", "tokenauth")


def variables(text: str) -> list[str]:
    """The names of the variables in a text."""
    return [match[2] for match in VARIABLE.finditer(text) if match[2]]


def passwords_in(address: str) -> list[str]:
    """The passwords that stand in an address, as they are written."""
    return [first or second for first, second in _IN_ADDRESS.findall(address)]


def is_malformed(text: str) -> bool:
    """Whether it has a `${` that is no variable."""
    return any(match[3] for match in VARIABLE.finditer(text))


def is_secret(name: str) -> bool:
    """Whether the property of this name (Java's) holds a secret."""
    lowered = name.lower()
    return _SECRET.search(lowered) is not None and _NO_SECRET.search(lowered) is None


def written_out(name: str, value: str) -> bool:
    """Whether a secret stands in the value itself. In a JAAS line each password must be a variable, and one thing at
    least: what a login module of one's own calls its secret can't be known."""
    if not is_secret(name):
        return False
    if "jaas" not in name.lower():
        return not _only_variables(value)
    literal = [v.strip("\"'") for k, v in _IN_JAAS.findall(value) if k.lower() not in _NOT_IN_JAAS]
    return not variables(value) or not all(_only_variables(v) for v in literal)


def _only_variables(value: str) -> bool:
    return bool(variables(value)) and not VARIABLE.sub("", value).strip()
