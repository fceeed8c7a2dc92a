"""Finding test files, reading them with what they include, and writing new expectations into them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path

from tidegate.errors import Location, TidegateError
from tidegate.testing.parser import parse
from tidegate.testing.records import Include, QueryRecord, Record

SUFFIX = ".slt"


def find(paths: Iterable[Path]) -> list[Path]:
    """The files that these paths mean: themselves, or every *.slt below a folder. Raises TG801 if there is none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = sorted(p for p in path.rglob(f"*{SUFFIX}") if p.is_file())
            if not below:
                raise TidegateError("TG801", f"there is no {SUFFIX} file in {path}")
            found += below
        elif path.is_file():
            found.append(path)
        else:
            raise TidegateError("TG801", f"there is no {path}")
    return list(dict.fromkeys(found))


def load(path: Path) -> list[Record]:
    """All records of a file, those of included files in their place. Raises TG801 to TG804."""
    return _load(path, ())


def read(path: Path, where: Location | None = None) -> str:
    """The text of a file. Raises TG801."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TidegateError("TG801", f"can't read {path}: {error.strerror}", location=where) from None
    except UnicodeDecodeError:
        raise TidegateError(
            "TG801", f"{path} is not UTF-8 text", hint="save it as UTF-8", location=where
        ) from None


def _load(path: Path, above: tuple[Path, ...], where: Location | None = None) -> list[Record]:
    found: list[Record] = []
    for record in parse(read(path, where), str(path)):
        if not isinstance(record, Include):
            found.append(record)
            continue
        column = record.text.find(record.pattern) + 1
        here = Location(record.file, record.line, column, len(record.pattern), record.text)
        names = sorted(glob(os.path.join(path.parent, record.pattern), recursive=True))
        if not names:
            raise TidegateError("TG801", f"no file has the name {record.pattern}", location=here)
        for name in names:
            inner = Path(name)
            if inner.resolve() in [p.resolve() for p in (*above, path)]:
                raise TidegateError("TG801", f"{inner} includes itself", location=here)
            found += _load(inner, (*above, path), here)
    return found


def rewrite(path: Path, changes: Sequence[tuple[QueryRecord, Sequence[str]]]) -> None:
    """Put new lines in the place of the expected rows of some queries of this file."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    for query, wanted in sorted(changes, key=lambda change: -change[0].span[0]):
        first, end = query.span
        lines[first - 1 : end - 1] = wanted if query.has_results else ["----", *wanted]
    path.write_text("\n".join(lines), encoding="utf-8")
