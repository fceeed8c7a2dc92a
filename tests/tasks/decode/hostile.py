"""Good, damaged and hostile texts of JSON and CSV, by seed. What the formats themselves say of them: `text_oracle.py`."""

# ruff: noqa: SIM905, E501
from __future__ import annotations

import json
import random
import re

#: Each column's name, its type in SQL, and a value that every reader knows.
COLUMNS = {
    "t": ("TINYINT", "7"),
    "h": ("SMALLINT", "-300"),
    "i": ("INT", "70000"),
    "n": ("BIGINT", "9007199254740993"),
    "f": ("REAL", "1.5"),
    "x": ("DOUBLE", "-2.25e10"),
    "m": ("DECIMAL(12, 3)", "12.345"),
    "b": ("BOOLEAN", "true"),
    "s": ("VARCHAR", '"é\\u0041"'),
    "d": ("DATE", '"2026-01-02"'),
    "ts": ("TIMESTAMP", '"2026-01-02 03:04:05.678"'),
    "z": ("TIMESTAMPTZ", '"2026-01-02T03:04:05+02:00"'),
}
#: CSV has no spelling for what is inside of a value, and base64 for bytes.
CSV_COLUMNS = COLUMNS | {
    "y": ("BYTEA", "AP8="),
    "l": ("INT[]", ""),
    "k": ("MAP<VARCHAR, INT>", ""),
    "u": ("STRUCT<a INT>", ""),
}
DECLARED, CSV_DECLARED = (
    ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items()) for columns in (COLUMNS, CSV_COLUMNS)
)
NUMBERS = """
    0 -0 1 -1 127 128 -129 32767 32768 2147483647 -2147483649 9223372036854775807 9223372036854775808 -9223372036854775808
    12345678901234567890123 1.0 1.5 -0.0 0.0 0.1 1e3 1E+2 1e-2 125E-2 0e0 -0e5 3.4028235e38 3.4028236e38 1e39
    1.7976931348623157e308 1e309 -1e999 5e-324 2e-324 1e-400 9007199254740993 0.30000000000000004 16777217 16777217.0
    1.2345 999999999.999 999999999.9995 9999999999.999 8.41e21 2.2250738585072011e-308 123456789012345678 1e400
    1.00000017881393432617187499 1e23 01 1. .5 +1 - 1e 0x1 NaN Infinity -Infinity Inf -NaN INF 1_0 1e999999999 1e-999999999
    1.0005 -1.0005 0.00049999 00 ١ 1e99999999999999999999
""".split()
TEXTS = [
    *r"""
    "" "a" "é😀" "\u0041\u00e9" "\ud83d\ude00" "\ud83d" "\ude00" "\ude00\ud83d" "\u0000" "\n\t\"\\\/" "\a" "\'" "NaN" "Infinity"
    "1" "1.5" "true" "{}" "}{" "\u12" "[Inf]" 'a' "+1.5" ".5" "5." "1e2" "1,234.5" "\\" "\" ""a"" "\\ud800" "null"
    """.split(),
    *('" NaN,"', '" 7"', '"\t"', '"\n"', '"\x7f"', '"\u2028"', '"a,b"', '"},{"', '"\ufeff"'),
]
TIMES = """
    2026-01-02 2024-02-29 2023-02-29 2026-1-2 2026-13-01 0000-01-01 20260102 12026-01-02 -2026-01-02 2026-01 2026 10:11
    2026-01-02T03:04:05 2024-02-29T23:59:59.999999 2023-02-29T00:00:00 0001-01-01T00:00:00 9999-12-31T23:59:59.999999
    2026-01-02T24:00:00 2026-01-02T23:59:60 2026-01-02T1:2:3 2026-01-02T10:11 2026-01-02T10 T10:11:12 10:11:12
    2026-01-02T03:04:05Z 2026-01-02T03:04:05+02:00 2026-01-02T03:04:05.123456789-17:59 2026-01-02T03:04:05+18:00
    2026-01-02T03:04:05+19:00 2026-01-02T03:04:05[UTC] 2026-01-02T03:04:05.1234567 now today epoch 1700000000
""".split()
LITERALS = [
    "null",
    "true",
    "false",
    "nul",
    "TRUE",
    "None",
    "truefalse",
    "[]",
    "{}",
    "[1]",
    '{"a":1}',
    "",
    "undefined",
]
FRAMES = [
    *(
        "%s\n",
        " %s",
        "\r\n%s\t",
        "[%s]",
        "%s%s",
        "%s %s",
        "%s\n%s",
        "%sx",
        "x%s",
        "%s,",
        "/**/%s",
        "\ufeff%s",
        "%s\0",
    ),
    *(
        "\0%s",
        "%s}",
        "{%s",
        "%s1{}",
        "\x0b%s",
        "\u00a0%s",
        "%s\u2003",
        '"%s"',
        "%s,%s",
        "%s//x",
        "%s]",
        "%s garbage",
    ),
]
NESTED = [
    '{"s":"x","ts":[{"n":1},"}",2]}',
    '[{"a":1},{"a":2}]',
    '{"a":1,"a":2}',
    "[1,[2,[3]]]",
    '{"a":{"a":{"a":null}}}',
    "[1,]",
]


def value_of(r: random.Random, name: str) -> str:
    """A value for this column, well or badly written, as JSON."""
    p = r.random()
    if p < 0.35:
        return CSV_COLUMNS[name][1]
    if p < 0.55 and name in ("d", "ts", "z"):
        text = r.choice(TIMES)
        return json.dumps(text.replace("T", " ") if r.random() < 0.5 else text)
    if p < 0.75 and name in "thinfxm":
        return r.choice(NUMBERS)
    if p < 0.82 and name in "fxm":
        return repr(random.Random(r.random()).uniform(-1, 1) * 10.0 ** r.randint(-300, 300))
    if p < 0.87 and name in "fxm":
        return (
            "".join(r.choices("0123456789", k=r.randint(1, 45))).lstrip("0") + "." + str(r.randint(0, 10**9))
        )
    if p < 0.87 and name in "thin":
        return str(
            r.randint(-(2 ** (8 * r.choice([1, 2, 4, 8, 9]) - 1)), 2 ** (8 * r.choice([1, 2, 4, 8]) - 1))
        )
    if p < 0.92 and name == "s":
        return r.choice(TEXTS)
    return r.choice([*NUMBERS, *TEXTS, *LITERALS, *NESTED, json.dumps(r.choice(TIMES))])


def damaged(r: random.Random, data: bytes) -> bytes:
    """The same with a byte or two changed, taken out or put in, or cut off."""
    if not data:
        return data
    at = r.randrange(len(data))
    if r.random() < 0.2:
        return data[:at]
    news = [
        b"",
        bytes([r.randrange(256)]),
        b"\\",
        b'"',
        b"\0",
        b"\n",
        b"\r",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xff",
        b",",
        b"}",
    ]
    return data[:at] + r.choice(news) + data[at + r.randint(0, 1) :]


def json_message(r: random.Random) -> bytes | None:
    """An object with one or a few odd values or an odd frame, or none at all."""
    if r.random() < 0.01:
        return None
    if r.random() < 0.01:
        depth = r.choice([490, 497, 498, 499, 500, 501, 3000, 60_000])
        inner = "[" * depth + ("]" * depth if r.random() < 0.7 else "")
        return b'{"more":' + inner.encode() + b',"n":1}'
    names = r.sample(list(COLUMNS), r.randint(0, len(COLUMNS))) if r.random() < 0.5 else list(COLUMNS)
    odd = set(r.sample(names, min(len(names), r.choice([0, 0, 1, 1, 2]))))
    members = [(json.dumps(n), value_of(r, n) if n in odd else COLUMNS[n][1]) for n in names]
    if r.random() < 0.3:
        extra = r.choice(
            [
                '"more"',
                '"S"',
                '"N"',
                '"_raw"',
                '"c0"',
                '""',
                '"\\u0073"',
                '"s"',
                '"n"',
                "more",
                "'s'",
                '"\\ud800"',
            ]
        )
        inner = r.choice([*NUMBERS, *TEXTS, *LITERALS, *NESTED])
        members.insert(r.randint(0, len(members)), (extra, inner))
    space = r.choice(["", " ", "\n", "\r\n ", "\t"]) if r.random() < 0.3 else ""
    text = (
        "{" + space + (space + "," + space).join(f"{n}{space}:{space}{v}" for n, v in members) + space + "}"
    )
    if r.random() < 0.15:
        text = r.choice(FRAMES).replace("%s", text)
    data = text.encode("utf-8", errors="surrogatepass")
    return damaged(r, data) if r.random() < 0.15 else data


# -- what JSON says --------------------------------------------------------------------------------------------


"""A value in a spelling that Spark decides."""


# -- CSV -------------------------------------------------------------------------------------------------------


def csv_text(r: random.Random, name: str) -> str:
    """What a column may have, as CSV writes it."""
    text = value_of(r, name)
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].replace("\\n", "\n") if r.random() < 0.9 else text
    if r.random() < 0.1:
        text = r.choice(
            ["", "a,b", 'say "x"', "two\nlines", "two\r\nlines", "\r", " ", " 5", "5 ", "NA", "a;b", "\n\n"]
        )
    if name == "b" and r.random() < 0.3:
        text = r.choice(["TRUE", "False", "fAlse", "1", "yes"])
    p = r.random()
    if '"' in text or "," in text or "\n" in text or "\r" in text or p < 0.2:
        return text if p > 0.97 else '"' + text.replace('"', '""') + '"'
    return text


def csv_record(r: random.Random, names: list[str], tame: bool = False) -> bytes:
    """A record of these columns; `tame`: with its quotes closed, wherever the damage is."""
    texts = [csv_text(r, n) if r.random() < 0.08 else _plain(n) for n in names]
    if tame:
        whole = re.compile('"(?:[^"]|"")*"')
        texts = [t if whole.fullmatch(t) else re.sub(r'["\r\n,]', "", t) for t in texts]
    p = r.random()
    if p < 0.03 and texts:
        texts.pop(r.randrange(len(texts)))
    elif p < 0.06:
        texts.insert(r.randint(0, len(texts)), r.choice(["", "more", '"quoted"']))
    data = ",".join(texts).encode("utf-8", errors="surrogatepass")
    if tame:
        return data.replace("é".encode(), b"\xff", 1) if r.random() < 0.1 else data
    if r.random() < 0.1:
        data += r.choice([b"\n", b"\r\n", b"\r", b"\n\n", b"\n1,2"])
    return damaged(r, data) if r.random() < 0.15 else data


def _plain(name: str) -> str:
    text = CSV_COLUMNS[name][1]
    return "é" if name == "s" else text.strip('"')
