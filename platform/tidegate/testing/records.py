"""What a test file consists of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

SortMode = Literal["nosort", "rowsort", "valuesort"]


@dataclass(frozen=True)
class Retry:
    """Try a record up to `times` more, with a pause of `seconds` before each."""

    times: int
    seconds: float


@dataclass(frozen=True)
class ExpectedError:
    """`pattern` is searched in the error's text, `text` is the whole of it; with neither any error will do."""

    pattern: re.Pattern[str] | None = None
    text: str | None = None


@dataclass(frozen=True)
class RunCondition:
    """`onlyif label` or `skipif label`."""

    only: bool
    label: str

    def holds(self, labels: frozenset[str]) -> bool:
        """Whether the record runs where these labels are known."""
        return (self.label in labels) is self.only


@dataclass(frozen=True)
class Record:
    """One directive. `file` and `line` are where it starts, for included ones in the included file."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Sql(Record):
    """A record that runs SQL: `sql` starts in line `sql_line`."""

    sql: str
    sql_line: int
    conditions: tuple[RunCondition, ...] = ()
    retry: Retry | None = None


@dataclass(frozen=True)
class Statement(Sql):
    """`count`: rows that it must change; `error`: that it must fail. Neither: it must succeed."""

    count: int | None = None
    error: ExpectedError | None = None


@dataclass(frozen=True)
class QueryRecord(Sql):
    """`types`: a letter for each column. `expected`: the lines below `----`, which are the lines `span` of the file
    (first, end) counted from 1; the same line twice where there are none. `has_results`: whether there is a `----`."""

    types: str = ""
    sort: SortMode | None = None
    label: str | None = None
    expected: tuple[str, ...] = ()
    span: tuple[int, int] = (0, 0)
    has_results: bool = False
    error: ExpectedError | None = None


@dataclass(frozen=True)
class Let(Sql):
    """The columns of the query's only row become variables."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sleep(Record):
    """A pause in which a server would have read its sources: here they are brought up to date."""

    seconds: float = 0.0


@dataclass(frozen=True)
class Include(Record):
    """The records of other files, whose names match a pattern, stand here."""

    pattern: str = ""


@dataclass(frozen=True)
class UseProject(Record):
    """The file runs on a temporary copy of the project in this folder. Ours alone."""

    folder: str = ""


@dataclass(frozen=True)
class Run(Record):
    """Bring sources and views up to date, as `tidegate run` does. Ours alone."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Control(Record):
    """`what` is substitution, sortmode or resultmode."""

    what: str = ""
    value: str = ""


@dataclass(frozen=True)
class HashThreshold(Record):
    """Results with more values than this are one line with their number and MD5; 0: never."""

    values: int = 0


@dataclass(frozen=True)
class Halt(Record):
    """What follows is not run."""


@dataclass(frozen=True)
class Note(Record):
    """A subtest or connection: named in what is reported, without an effect here."""

    words: tuple[str, ...] = field(default=())
