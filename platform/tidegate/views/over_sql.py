"""Functions over rows in order, as values that can be carried from one tick to the next (C5).

A frame that starts UNBOUNDED PRECEDING can't be read again: what is carried is its aggregate up to a row, a struct of
few fields (`Partial`), and the next tick goes on from there. The carried struct enters Spark's own running aggregate
as if it were one more row, so sums are added in the same order, and overflow at the same row, however the rows
were cut into ticks (W4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RANKS = ("row_number", "rank", "dense_rank")
MERGEABLE = ("count", "sum", "avg", "min", "max", "first_value", "last_value")

#: What sums of whole numbers are added up in: exact, and no 10^19 rows leave it (C7).
WIDE = "decimal(38,0)"
#: The fields of such a sum where it is carried.
EXACT = ["c", "s", "t"]
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
#: More rows than any key has; with it, no quotient of decimals loses digits before they are rounded.
_COUNT = "DECIMAL(12,0)"


@dataclass(frozen=True)
class Partial:
    """The aggregate of some consecutive rows, as a struct.

    `argument`: Spark SQL, None for count(*). `total`: Spark DDL of the sum (sum and avg); `result`: that of the value.
    `c` counts values that are not NULL, `n` rows (or values, with IGNORE NULLS); `s` is a sum, `v` a value, `d` a dense
    rank.
    """

    function: str
    argument: str | None
    ignore_nulls: bool
    total: str
    result: str

    @property
    def exact(self) -> bool:
        """Whether it is a sum or average of whole numbers."""
        return (
            self.function in ("sum", "avg") and self.total == WIDE and not self.result.startswith("decimal")
        )

    def call(self, window: str) -> str:
        """An exact function over a frame that Spark can read as it is: `window` is `OVER (…)`."""
        total = f"try_sum(CAST({self.argument} AS {WIDE})) {window}"
        return self._exact(total, f"count({self.argument}) {window}")

    def carried(self, part: str) -> str:
        """An exact struct as it is stored: `s` is as releases before exact sums had it, `t` what it comes to."""
        kind = "BIGINT" if self.function == "sum" else "DOUBLE"
        return f"named_struct('c', {part}.`c`, 's', TRY_CAST({part}.`s` AS {kind}), 't', {part}.`s`)"

    def restored(self, part: str, has_total: bool) -> str:
        """The other way round. `has_total`: whether `t` is there."""
        total = f"TRY_CAST({part}.`s` AS {WIDE})"
        total = f"coalesce({part}.`t`, {total})" if has_total else total
        return f"IF({part} IS NULL, NULL, named_struct('c', {part}.`c`, 's', {total}))"

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the struct's fields that are aggregates of rows."""
        if self.function in ("sum", "avg"):
            return "c", "s"
        if self.function in ("first_value", "last_value"):
            return "n", "v"
        if self.function in RANKS:
            return ("n",)
        return ("c",) if self.function == "count" else ("v",)

    def of_frame(self, place: str, window: str) -> str:
        """The struct for the rows of a frame: `window` is `OVER (…)`, `place` numbers the rows in order."""
        fields = (f"'{f}', {self._field(f, self._row(f), self._counts(place), window)}" for f in self.fields)
        return f"named_struct({', '.join(fields)})"

    def running(self, place: str, window: str, new: str, last: str, stored: str | None) -> str:
        """The struct for all rows up to this one: new rows, on top of `stored` of the last carried row (`last` is true
        there). None: nothing is carried."""
        fields = []
        for name in self.fields:
            before = f"{stored}.`{name}`" if stored else "NULL"
            contribution = f"IF({new}, {self._row(name)}, IF({last}, {before}, NULL))"
            carried = f"IF({last} AND {stored}.`n` > 0, {place}, NULL)" if stored else "NULL"
            counts = f"IF({new}, {self._counts(place)}, {carried})"
            value = self._field(name, contribution, counts, window)
            if name == "s" and stored:
                # A sum that overflowed stays NULL, as it does within one tick.
                overflowed = f"{last} AND {stored}.`c` > 0 AND {stored}.`s` IS NULL"
                value = f"IF(coalesce(bool_or({overflowed}) {window}, false), NULL, {value})"
            fields.append(f"'{name}', {value}")
        return f"named_struct({', '.join(fields)})"

    def merged(self, parts: list[str]) -> str:
        """The struct of several, in the order of their rows; NULL is one without rows."""
        listed = f"array({', '.join(parts)})"
        if self.function == "count":
            return f"named_struct('c', {' + '.join(f'coalesce({p}.`c`, 0L)' for p in parts)})"
        if self.function in ("min", "max"):
            values = ", ".join(f"{p}.`v`" for p in parts)
            return f"named_struct('v', array_{self.function}(array({values})))"
        if self.function in ("first_value", "last_value"):
            at = 1 if self.function == "first_value" else -1
            return f"try_element_at(filter({listed}, p -> p.`n` > 0), {at})"
        total, narrow = self.total, self.total
        if match := _DECIMAL.fullmatch(self.total):
            # One digit less than there is, or Spark would round the sum of two to make room for a carry.
            narrow = f"DECIMAL({min(int(match[1]), 37)},{match[2]})"
        add = f"CAST(try_add(CAST(a.`s` AS {narrow}), CAST(p.`s` AS {narrow})) AS {total})"
        step = f"named_struct('c', a.`c` + p.`c`, 's', {add})"
        start = f"named_struct('c', 0L, 's', CAST(0 AS {total}))"
        return f"aggregate(filter({listed}, p -> p.`c` > 0), {start}, (a, p) -> {step})"

    def value(self, part: str) -> str:
        """The function's value of a struct (NULL: no rows)."""
        if self.function == "count":
            return f"coalesce({part}.`c`, 0L)"
        if self.function in RANKS:
            return f"CAST({part}.`{'d' if self.function == 'dense_rank' else 'n'}` AS INT)"
        if self.exact:
            return f"IF({part}.`c` > 0, {self._exact(f'{part}.`s`', f'{part}.`c`')}, NULL)"
        if self.function == "sum":
            return f"IF({part}.`c` > 0, {part}.`s`, NULL)"
        if self.function == "avg":
            return f"IF({part}.`c` > 0, {self._average(f'{part}.`s`', f'{part}.`c`')}, NULL)"
        return f"{part}.`v`"

    def _field(self, name: str, contribution: str, counts: str, window: str) -> str:
        if name in ("c", "n"):
            return f"coalesce(sum({contribution}) {window}, 0L)"
        if name == "s":
            return f"CAST(try_sum({contribution}) {window} AS {self.total})"
        if self.function in ("min", "max"):
            return f"{self.function}({contribution}) {window}"
        pick = "min_by" if self.function == "first_value" else "max_by"
        return f"{pick}({contribution}, {counts}) {window}"

    def _row(self, name: str) -> str:
        """What one row adds to a field."""
        if name == "n":
            return f"IF({self.argument} IS NULL, 0L, 1L)" if self.ignore_nulls else "1L"
        if name == "c":
            return "1L" if self.argument is None else f"IF({self.argument} IS NULL, 0L, 1L)"
        return f"CAST({self.argument} AS {self.total})" if name == "s" else str(self.argument)

    def _counts(self, place: str) -> str:
        """Where the row stands for first_value and last_value; NULL if it does not count."""
        return f"IF({self.argument} IS NULL, NULL, {place})" if self.ignore_nulls else place

    def _exact(self, total: str, count: str) -> str:
        return (
            f"TRY_CAST({total} AS BIGINT)" if self.function == "sum" else f"CAST({total} AS DOUBLE) / {count}"
        )

    def _average(self, total: str, count: str) -> str:
        match, result = _DECIMAL.fullmatch(self.total), _DECIMAL.fullmatch(self.result)
        if match is None or result is None:
            return f"{total} / {count}"
        # Spark's `/` of decimals has too few digits for avg()'s own scale; whole part and remainder have them all.
        scale, digits = int(match[2]), int(result[2])
        total, count = f"CAST({total} AS DECIMAL(37,{scale}))", f"CAST({count} AS {_COUNT})"
        rest = f"({total} % {count})"
        whole = f"CAST(({total} - {rest}) / {count} AS DECIMAL({max(1, 37 - digits)},0))"
        fraction = f"CAST({rest} / {count} AS DECIMAL({min(38, digits + 1)},{digits}))"
        return f"CAST({whole} + {fraction} AS {self.result})"
