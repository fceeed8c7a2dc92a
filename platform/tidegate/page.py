"""One HTML file with everything in it: text, tables and pictures. All that it is given is text, and shown as such; it
loads nothing from anywhere, and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light; --ink: #1d2733; --soft: #5c6b7a; --line: #dfe5ea; --accent: #1f6f8b; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: #f6f8f9; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.5rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); }
pre { background: #12232e; color: #e8f1f5; padding: .9rem 1.1rem; border-radius: 6px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; background: #fff; font-variant-numeric: tabular-nums;
  font-size: 14px; }
th, td { text-align: left; padding: .35rem .6rem; border: 1px solid var(--line); }
th { background: #eef3f6; font-weight: 600; } td.n { text-align: right; }
img { max-width: 100%; height: auto; display: block; background: #fff; border: 1px solid var(--line); }
tr.best td { background: #e7f4ec; font-weight: 600; }
"""


@dataclass(frozen=True)
class Section:
    """A part of the page. `text`: paragraphs. `code`: to be copied. `columns` and `rows`: a table, with the index of
    the row that stands out. `picture`: PNG bytes, with `alt` in words for who can't see it."""

    title: str
    text: Sequence[str] = ()
    code: str | None = None
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = field(default=())
    best: int | None = None
    picture: bytes | None = None
    alt: str = ""


def protected(html: str) -> str:
    """A page with a policy for browsers, right behind its character set: what is not in the page, and what is no style
    that it came with, is neither loaded nor run."""
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii") for style in styles]
    allowed = " ".join(f"'sha256-{known}'" for known in hashes) or "'none'"
    policy = f"default-src 'none'; img-src data:; style-src {allowed}; base-uri 'none'; form-action 'none'"
    head, charset, rest = html.partition('<meta charset="utf-8">\n')
    return f'{head}{charset}<meta http-equiv="Content-Security-Policy" content="{policy}">\n{rest}'


def page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The whole document."""
    body = "\n".join(_section(s) for s in sections)
    return protected(
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        f'<p class="soft">{escape(subtitle)}</p>\n{body}\n</main>\n</body>\n</html>\n'
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(line)}</p>" for line in section.text]
    if section.code is not None:
        parts.append(f"<pre>{escape(section.code)}</pre>")
    if section.columns:
        parts.append(_table(section))
    if section.picture is not None:
        data = base64.b64encode(section.picture).decode("ascii")
        parts.append(f'<img alt="{escape(section.alt)}" src="data:image/png;base64,{data}">')
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _table(section: Section) -> str:
    head = "".join(f"<th>{escape(c)}</th>" for c in section.columns)
    lines = []
    for number, row in enumerate(section.rows):
        cells = "".join(_cell(value) for value in row)
        mark = ' class="best"' if number == section.best else ""
        lines.append(f"<tr{mark}>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(lines) + "\n</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="n">{value:,}</td>'
    return f"<td>{escape('' if value is None else str(value))}</td>"
