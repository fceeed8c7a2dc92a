"""What is confidential by its name or its place: which options are secrets, where a `${NAME}` stands for one, and where
one is written out."""

from __future__ import annotations

import re

#: `$${` is a literal `${`; `${NAME}` a variable of the environment; any other `${` a mistake.
VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|(\$\{)")
MALFORMED = "`${` is not followed by a variable name and `}`"
MALFORMED_HINT = "write ${NAME}; for a literal ${ write $${"

_SECRET = re.compile(
    r"password|passwd|passphrase|jaas|secret|token|oauth|credential|authorization|basic\.auth|keystore\.key$"
    r"|(access|account|api|private)[._-]?key\b|sasl\.plain\.username|(?<![a-z])pass(code)?(?![a-z])"
    r"|(?<![a-z])pwd(?![a-z])|cookie$|x-auth|signature$|sas[._-]key"
    # Of the encryption that a store does with a key of its client.
    r"|((en|de)cryption|crypto|sse)[._-]key$"
)
#: Beside a secret, but none: where it comes from, how often, by which class. (Kubernetes' `secrets` are names.)
_NO_SECRET = re.compile(
    r"([._-](url|uri|ms|seconds|class|source|name|algorithm|location|audience|issuer|urlencode|enabled|mechanism|regex)"
    r"|provider(\.path)?|file|endpoint|ratio|interval|timeout|bitlength)$|\.secrets\.|secretkeyref|key[._-]id$"
    r"|security\.credentials\.|env\.pwd$"
)
#: Names that end with the name of an account or a bucket, which may be anything.
_OF_AN_ACCOUNT = re.compile(r"account\.key\.|azure\.sas\.")
#: A password inside an address: of its login (also where a host and a port stand without `//`), or among its
#: parameters.
_IN_ADDRESS = re.compile(
    r"//[^/@\s]*:([^/@\s]+)@"
    r"|[?&;](?:[\w.-]*(?:password|passwd|pwd|secret|token|api_?key|signature)|sig)=([^&;\s'\"]+)"
    r"|(?<![\w/.:-])[\w.-]+:([^/@\s:'\"]+)@[^/@\s'\"]+:\d",
    re.IGNORECASE,
)
#: `name=value` inside a value: properties of the JVM (-Dname=value), JAAS lines, parameters of a filter.
_PAIR = re.compile(r"""(?<![\w.-])([\w.-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)')|=([^\s;&,'"]+))""")
_IN_JAAS = re.compile(
    r"""(\w*(?:password|passwd|secret|token|key)\w*)\s*=\s*("[^"]*"|'[^']*'|[^\s;]+)""", re.IGNORECASE
)
_NOT_IN_JAAS = ("usekeytab", "storekey", "keytab", "useticketcache", "tokenauth")
#: `name = 'value'` of SQL, `name: value` or `name: [value]` of YAML; quotes and brackets may be closed in another line.
_OPTION = re.compile(
    r"""(?<![\w.-])([A-Za-z_][\w.-]*)["']?\s*(?:(?:[:=]\s*|=\s*[A-Za-z])'((?:[^']|'')*)|[:=]\s*"((?:[^"\\]|\\.)*)"""
    r"""|:\s+((?!['"{\[])(?:\$\{\w*\}|[^\s},]|\s(?!#))+)|:\s+\[([^\]]*))"""
)
_WHOSE = re.compile(r"\s*(?:(?:basic|bearer|token)\s+|[\w.@-]*[:=])?\s*", re.IGNORECASE)
#: The number or the address of a key is none.
_KEY_ID = re.compile(r"arn:|alias/|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-")


def variables(text: str) -> list[str]:
    """The names of the variables in a text."""
    return [match[2] for match in VARIABLE.finditer(text) if match[2]]


def passwords_in(text: str) -> list[str]:
    """The passwords that stand in a value, as they are written: of an address, or behind a name that says so."""
    return [text[start:end] for start, end in _spans(text)]


def _spans(text: str) -> list[tuple[int, int]]:
    found = [(m.start(i), m.end(i)) for m in _IN_ADDRESS.finditer(text) for i in (1, 2, 3) if m[i]]
    pair = _PAIR.search(text)
    while pair is not None:
        name = pair[1].lower()
        [i] = [i for i in (2, 3, 4) if pair[i] is not None]
        secret = is_secret(name) and name not in _NOT_IN_JAAS and "jaas" not in name
        if secret and pair[i] and pair[i].lower() not in ("true", "false"):
            found.append(pair.span(i))
        # Another pair may stand inside of a value.
        pair = _PAIR.search(text, pair.end() if secret else pair.start(i))
    return found


def literals_in(name: str, value: str) -> list[str]:
    """What is written out of the secrets in the value of an option or a property: what no variable stands for."""
    if written_out(name, value):
        return [value]
    return [password for password in passwords_in(value) if not _only_variables(password)]


def blackened(line: str) -> str:
    """A line of YAML or SQL without the secrets that are written out in it. What stands behind them keeps its place."""
    for match in _OPTION.finditer(line):
        i = next((i for i in (2, 3, 4, 5) if match[i]), None)
        if i is None or "jaas" in match[1].lower():
            continue
        start, end = match.span(i)
        if i == 4 and "{" not in line[: match.start()]:
            # Nothing but a comment ends it in a block of YAML.
            end = start + len(line[start:].split(" #")[0])
        if written_out(match[1], line[start:end]):
            line = _dark(line, start, end)
    for start, end in _spans(line):
        if not _only_variables(line[start:end]):
            line = _dark(line, start, end)
    return line


def without_logins(text: str) -> str:
    """What is said to people, without the passwords of the addresses that it quotes."""
    return _IN_ADDRESS.sub(_starred, text)


def _starred(match: re.Match[str]) -> str:
    password = match[1] or match[2] or match[3]
    return match[0] if _only_variables(password) else match[0].replace(password, "***")


def _dark(line: str, start: int, end: int) -> str:
    return line[:start] + "*" * (end - start) + line[end:]


def is_malformed(text: str) -> bool:
    """Whether it has a `${` that is no variable."""
    return any(match[3] for match in VARIABLE.finditer(text))


def is_secret(name: str) -> bool:
    """Whether the property of this name (Java's) holds a secret."""
    lowered = name.lower()
    if _OF_AN_ACCOUNT.search(lowered):
        return True
    return _SECRET.search(lowered) is not None and _NO_SECRET.search(lowered) is None


def written_out(name: str, value: str) -> bool:
    """Whether a secret stands in the value itself. In a JAAS line each password must be a variable, and one thing at
    least: what a login module of one's own calls its secret can't be known."""
    if not is_secret(name) or _KEY_ID.match(value):
        return False
    if "jaas" not in name.lower():
        return not _only_variables(value)
    literal = [v.strip("\"'") for k, v in _IN_JAAS.findall(value) if k.lower() not in _NOT_IN_JAAS]
    return not variables(value) or not all(_only_variables(v) for v in literal)


def _only_variables(value: str) -> bool:
    """Beside them, at most whose secret it is: `me:${PASSWORD}`, `Bearer ${TOKEN}`, `session=${KEY}`."""
    return bool(variables(value)) and _WHOSE.fullmatch(VARIABLE.sub("", value)) is not None
