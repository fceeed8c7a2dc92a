"""Reading a test file: the format of sqllogictest-rs, which RisingWave's own files are in.

    statement ok | error [regex] | count n      then SQL up to an empty line
    query TYPES [sort mode] [label]             then SQL, `----`, the expected rows, an empty line
    query error [regex]                         or the error's text below `----`, ended by two empty lines
    let NAME[, NAME…]                           then a query with one row

Beside them `halt`, `sleep`, `include`, `control`, `onlyif`, `skipif`, `subtest`, `connection`, `hash-threshold`,
and two of our own: `project FOLDER` and `run [NAME…]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, get_args

from tidegate.errors import Location, TidegateError, did_you_mean
from tidegate.testing import records as r

_DIRECTIVES = (
    "statement",
    "query",
    "let",
    "control",
    "halt",
    "sleep",
    "include",
    "onlyif",
    "skipif",
    "subtest",
    "connection",
    "hash-threshold",
    "project",
    "run",
)
_SORT_MODES: tuple[r.SortMode, ...] = get_args(r.SortMode)
_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_DELIMITER = "----"
_NAME = re.compile(r"\$?([A-Za-z_]\w*)")


def parse(text: str, file: str) -> list[r.Record]:
    """The records of one file, without those of included files. Raises TG802 to TG804 with the place."""
    return _Parser(text, file).parse()


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.index = 0
        self.conditions: list[r.RunCondition] = []

    def parse(self) -> list[r.Record]:
        found = []
        while self.index < len(self.lines):
            line = self.lines[self.index]
            if not line.strip() or line.startswith("#"):
                self.index += 1
                continue
            record = self._record(line)
            if record is not None:
                found.append(record)
        if self.conditions:
            self.index = len(self.lines) - 1
            self._fail("TG802", "a condition without a record after it")
        return found

    def _record(self, line: str) -> r.Record | None:
        word, *rest = line.split()
        readers: dict[str, Callable[[dict[str, Any], list[str]], r.Record | None]] = {
            "statement": self._statement,
            "query": self._query,
            "let": self._let,
            "control": self._control,
            "onlyif": self._condition,
            "skipif": self._condition,
            "sleep": lambda at, rest: r.Sleep(**at, seconds=self._duration(self._one(rest))),
            "include": lambda at, rest: r.Include(**at, pattern=self._one(rest)),
            "project": lambda at, rest: r.UseProject(**at, folder=self._one(rest)),
            "run": lambda at, rest: r.Run(**at, names=tuple(rest)),
            "halt": lambda at, rest: r.Halt(**at),
            "subtest": lambda at, rest: r.Note(**at, words=("subtest", self._one(rest))),
            "connection": lambda at, rest: r.Note(**at, words=("connection", self._one(rest))),
            "hash-threshold": lambda at, rest: r.HashThreshold(**at, values=self._number(self._one(rest))),
        }
        if word == "system":
            self._fail(
                "TG803",
                "system runs a command of the machine, which a test of SQL must not do",
                word,
                (
                    "create the files that a test needs before it runs, or write the test in Python: "
                    "tidegate.connect()"
                ),
            )
        if word not in readers:
            hint = did_you_mean(word, _DIRECTIVES) or f"available records: {', '.join(_DIRECTIVES)}"
            self._fail("TG802", f'"{word}" is not a record', word, hint)
        if self.conditions and word not in ("statement", "query", "let", "onlyif", "skipif", "connection"):
            self._fail("TG802", f"a condition is not allowed before {word}", word)
        at = {"file": self.file, "line": self.index + 1, "text": line}
        record = readers[word](at, rest)
        if not isinstance(record, r.Sql):
            self.index += 1
        return record

    # -- records with SQL ---------------------------------------------------------------------------------------

    def _statement(self, at: dict[str, Any], rest: list[str]) -> r.Statement:
        rest, retry = self._retry(rest)
        kind = rest[0] if rest else ""
        count, error = None, None
        if kind == "count":
            count = self._number(self._one(rest[1:]))
        elif kind == "error":
            error = self._pattern(at["text"], retry)
        elif rest != ["ok"]:
            hint = did_you_mean(kind, ("ok", "error", "count")) or "write statement ok, error or count"
            self._fail("TG802", f'"{" ".join(rest)}" is not a kind of statement', kind, hint)
        sql, line = self._sql()
        if self._delimiter():
            if error is None or error.pattern is not None:
                self.index -= 1
                self._fail("TG802", "a statement has no rows below ----", _DELIMITER, "write query")
            error = self._error_text()
        return r.Statement(**at, sql=sql, sql_line=line, **self._taken(retry), count=count, error=error)

    def _query(self, at: dict[str, Any], rest: list[str]) -> r.QueryRecord:
        rest, retry = self._retry(rest)
        if rest[:1] == ["error"]:
            error = self._pattern(at["text"], retry)
            sql, line = self._sql()
            if self._delimiter():
                if error.pattern is not None:
                    self.index -= 1
                    self._fail(
                        "TG802", "the error is given twice: after the word error, and below ----", _DELIMITER
                    )
                error = self._error_text()
            return r.QueryRecord(**at, sql=sql, sql_line=line, **self._taken(retry), error=error)
        types, word, label = (*rest, *[None] * 3)[:3]
        if types is not None and not re.fullmatch(r"[A-Za-z?]+", types):
            self._fail(
                "TG802",
                f'"{types}" is not a list of types',
                types,
                "write one letter for each column, such as TIR",
            )
        sort = next((mode for mode in _SORT_MODES if mode == word), None)
        if word is not None and sort is None:
            hint = did_you_mean(word, _SORT_MODES) or ", ".join(_SORT_MODES)
            self._fail("TG802", f'"{word}" is not a way to sort', word, hint)
        if len(rest) > 3:
            self._fail("TG802", "the record should end here", rest[3])
        sql, line = self._sql()
        has_results = self._delimiter()
        start = self.index
        if has_results:
            while self.index < len(self.lines) and self.lines[self.index].strip():
                self.index += 1
        expected = tuple(self.lines[start : self.index])
        span = (start + 1, self.index + 1)
        return r.QueryRecord(
            **at,
            sql=sql,
            sql_line=line,
            **self._taken(retry),
            types=types or "",
            sort=sort,
            label=label,
            expected=expected,
            span=span,
            has_results=has_results,
        )

    def _let(self, at: dict[str, Any], rest: list[str]) -> r.Let:
        words = [w.strip() for w in " ".join(rest).strip("() ").split(",")]
        names = []
        for word in words:
            match = _NAME.fullmatch(word)
            if match is None:
                self._fail("TG802", f'"{word}" is not the name of a variable', word or "let", "let a, b")
            names.append(match[1])
        sql, line = self._sql()
        return r.Let(**at, sql=sql, sql_line=line, **self._taken(None), names=tuple(names))

    def _taken(self, retry: r.Retry | None) -> dict[str, Any]:
        conditions, self.conditions = tuple(self.conditions), []
        return {"conditions": conditions, "retry": retry}

    def _sql(self) -> tuple[str, int]:
        """The lines up to an empty one or `----`, and the number of the first."""
        self.index += 1
        start = self.index
        while self.index < len(self.lines):
            line = self.lines[self.index]
            if not line.strip() or line.rstrip() == _DELIMITER:
                break
            self.index += 1
        if start == self.index:
            self.index = min(start, len(self.lines)) - 1
            self._fail(
                "TG802", "the SQL is missing", None, "write it in the lines below, up to an empty line"
            )
        return "\n".join(self.lines[start : self.index]), start + 1

    def _delimiter(self) -> bool:
        """Move over `----`, if it comes next."""
        here = self.index < len(self.lines) and self.lines[self.index].rstrip() == _DELIMITER
        self.index += here
        return here

    def _error_text(self) -> r.ExpectedError:
        """Up to two empty lines."""
        start = self.index
        while self.index < len(self.lines):
            if not any(line.strip() for line in self.lines[self.index : self.index + 2]):
                break
            self.index += 1
        return r.ExpectedError(text="\n".join(self.lines[start : self.index]).strip())

    def _pattern(self, line: str, retry: r.Retry | None) -> r.ExpectedError:
        """What stands behind `error` in the first line of a record."""
        text = line.split("error", 1)[1].strip()
        if retry is not None:
            text = _RETRY.sub("", text).strip()
        if not text:
            return r.ExpectedError()
        try:
            return r.ExpectedError(re.compile(text, re.MULTILINE))
        except re.error as error:
            hint = "signs such as ( and [ have a meaning in a regular expression: write \\( and \\["
            self._fail("TG804", f"{error.msg} in the regular expression", text, hint)

    def _retry(self, rest: list[str]) -> tuple[list[str], r.Retry | None]:
        """`retry n backoff duration` at the end of a line."""
        match = _RETRY.search(" ".join(rest))
        if match is None:
            return rest, None
        retry = r.Retry(int(match[1]), self._duration(match[2]))
        return " ".join(rest)[: match.start()].split(), retry

    # -- records without ----------------------------------------------------------------------------------------

    def _control(self, at: dict[str, Any], rest: list[str]) -> r.Control:
        known: dict[str, tuple[str, ...]] = {
            "substitution": ("on", "off"),
            "sortmode": _SORT_MODES,
            "resultmode": ("rowwise", "valuewise"),
        }
        what = rest[0] if rest else ""
        if what not in known:
            hint = did_you_mean(what, known) or f"control {', '.join(known)}"
            self._fail("TG802", f'there is no control "{what}"', what, hint)
        value = self._one(rest[1:])
        if value not in known[what]:
            self._fail("TG802", f'{what} can\'t be "{value}"', value, " or ".join(known[what]))
        return r.Control(**at, what=what, value=value)

    def _condition(self, at: dict[str, Any], rest: list[str]) -> None:
        self.conditions.append(r.RunCondition(at["text"].startswith("onlyif"), self._one(rest)))

    def _one(self, rest: list[str]) -> str:
        if len(rest) != 1:
            self._fail("TG802", "write one word here", rest[1] if rest else None)
        return rest[0]

    def _number(self, text: str) -> int:
        if not text.isdecimal():
            self._fail("TG804", f'"{text}" is not a number', text)
        return int(text)

    def _duration(self, text: str) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]+)", text)
        if match is None or match[2] not in _UNITS:
            self._fail(
                "TG804", f'"{text}" is not a duration', text, f"the units are {', '.join(_UNITS)}, as in 5s"
            )
        return float(match[1]) * _UNITS[match[2]]

    def _fail(self, code: str, message: str, word: str | None = None, hint: str | None = None) -> NoReturn:
        line = self.lines[min(self.index, len(self.lines) - 1)]
        column = line.find(word) + 1 if word else 0
        length = len(word) if column and word else max(1, len(line.strip()))
        where = Location(self.file, self.index + 1, max(1, column), length, line)
        raise TidegateError(code, message, hint=hint, location=where)


_RETRY = re.compile(r"(?:^|\s)retry\s+(\d+)\s+backoff\s+(\S+)\s*$")
