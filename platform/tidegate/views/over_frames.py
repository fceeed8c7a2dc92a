"""The Spark SQL of all calls over one PARTITION BY and ORDER BY: their values, from which watermark on these are final,
and which rows and structs later ticks need (C5). See over.py for how they come together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.sql.catalog.objects import OverFunction
from tidegate.views.over_sql import RANKS, Partial

#: What the columns that are added to the rows start with.
PREFIX = "_over_"
NEW, TIME, BELOW = f"{PREFIX}new", f"{PREFIX}t", f"{PREFIX}below"
_INT = 2**31 - 1
_ROW_BY_ROW = ("lag", "lead", *RANKS)


@dataclass(frozen=True)
class Spec:
    """The frames of one unit (and gap) over one ordering, complete together. All are Spark SQL over the rows: `end`,
    the watermark from which on they are; whether they were before this tick; which rows later ticks need for them."""

    end: str
    was_complete: str
    keep: str


class Ordering:
    """The calls with one PARTITION BY and ORDER BY.

    `functions` and `partials` by their place in the view; `rest`: ORDER BY after the time; `stored`: whether there are
    carried rows; `values`: whether a call may be complete before the row is released, so that its value is carried.
    """

    def __init__(
        self,
        number: int,
        keys: Sequence[str],
        rest: Sequence[str],
        ties: Sequence[str],
        functions: Mapping[int, OverFunction],
        partials: Mapping[int, Partial],
        stored: bool,
        values: bool,
    ) -> None:
        self.functions, self.partials = functions, partials
        self._number, self._stored, self._values = number, stored, values
        self._keys = tuple(keys)
        self._peers = ", ".join([TIME, *rest])
        self._rest = tuple(rest)
        self._order = ", ".join([TIME, *rest, *ties])
        self._ties = ", ".join(ties)
        self._last = f"{PREFIX}last{number}" if stored else "false"
        self._place = f"{PREFIX}n{number}"
        self._units = list(dict.fromkeys(_unit(f) for f in functions.values()))

    def specs(self, watermark: int | None) -> list[Spec]:
        """One for each unit."""
        return [self._spec(j, unit, watermark) for j, unit in enumerate(self._units)]

    def layers(self, watermark: int | None) -> list[list[str]]:
        """Columns to add to the rows, step by step; all of a step can be computed at once."""
        steps = [self._places(watermark), self._running(), self._framed(), self._merged(), self._complete()]
        return [step for step in steps if step]

    def value(self, i: int) -> str:
        """Spark SQL of a call's value: the carried one if it was complete before this tick."""
        if not self._stored or not self._values:
            return self._name("v", i)
        was = f"{self._name('e', self._units.index(_unit(self.functions[i])))} IS NOT NULL"
        return f"IF({was}, {PREFIX}w{i}, {self._name('v', i)})"

    def stored(self, watermark: int) -> list[tuple[str, str]]:
        """What is carried beside the rows' own columns: name and Spark SQL."""
        found = []
        for j in range(len(self._units)):
            end = self._name("x", j)
            found.append((self._name("e", j), f"IF({end} <= {watermark}L, {end}, NULL)"))
        for i, f in self.functions.items():
            if self._values:
                # A row that is released stays for the frames of others: its own values are not asked for again.
                end = self._name("x", self._units.index(_unit(f)))
                needed = f"{end} <= {watermark}L AND NOT {PREFIX}released"
                found.append((f"{PREFIX}w{i}", f"IF({needed}, {self.value(i)}, NULL)"))
            if _is_running(f):
                struct, partial = self._name("d" if f.function == "dense_rank" else "r", i), self.partials[i]
                found.append((f"{PREFIX}s{i}", partial.carried(struct) if partial.exact else struct))
        return found

    @property
    def peers_needed(self) -> str | None:
        """The window of a row's peers, if a row that waits is carried with all of them: its rank is the place of the
        first one, and is worked out again while another call of its unit waits for rows that follow."""
        if not any(f.function == "rank" for f in self.functions.values()):
            return None
        ahead = self._reach(self._units.index(("rows", None)))[1]
        return f"OVER ({self._with_peers()})" if ahead else None

    def restored(self, fields: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Columns of carried rows that are another thing here, as Spark SQL. `fields`: of the structs stored."""
        exact = [i for i, f in self.functions.items() if _is_running(f) and self.partials[i].exact]
        names = {i: f"{PREFIX}s{i}" for i in exact}
        return {name: self.partials[i].restored(name, "t" in fields[name]) for i, name in names.items()}

    # The steps.

    def _places(self, watermark: int | None) -> list[str]:
        """Where each row stands; values of frames that Spark can read as they are."""
        found = [f"row_number() {self._window()} AS {self._place}"]
        if self._stored and any(_is_running(f) for f in self.functions.values()):
            following = f"coalesce(lead({NEW}) {self._window()}, false)"
            found.append(f"(NOT {NEW} AND {following}) AS {self._last}")
        if any(unit == "session" for unit, _ in self._units):
            found.append(f"lag({TIME}) {self._window()} AS {PREFIX}p{self._number}")
        for j, (unit, _) in enumerate(self._units):
            back, ahead = self._reach(j)
            if unit == "rows":
                # NULL for the last rows below the watermark, that frames of later ones can reach: these come first.
                reached = f"lead(IF({BELOW}, 1, NULL), {min(back + ahead, _INT)}) {self._window()}"
                found.append(f"{reached} AS {self._name('c', j)}")
            if unit == "rows" and ahead:
                found.append(
                    f"lead(IF({BELOW}, {TIME}, NULL), {ahead}) {self._window()} AS {self._name('a', j)}"
                )
            if unit == "range" and watermark is not None and self._running_of(j):
                # Strictly below the watermark: rows at it are not carried.
                bound = f"max(IF({TIME} <= {_long(watermark - max(1, ahead + back))}, {TIME}, NULL))"
                found.append(f"{bound} OVER ({self._partition()}) AS {self._name('b', j)}")
        for i, f in self.functions.items():
            if f.unit == "rows" and not _is_running(f) and not _leaves_out(f):
                frame = "" if f.function in _ROW_BY_ROW else _frame(f)
                found.append(f"{self._call(i, f, self._window(frame))} AS {self._name('v', i)}")
        return found

    def _running(self) -> list[str]:
        """The structs of frames from UNBOUNDED PRECEDING; the number of the session that a row is in."""
        found = []
        so_far = self._window("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
        for i, f in self.functions.items():
            if not _is_running(f):
                continue
            stored = f"{PREFIX}s{i}" if self._stored else None
            struct = self.partials[i].running(self._place, so_far, NEW, self._last, stored)
            if stored:
                before = f"named_struct('n', {stored}.`n`)" if f.function == "dense_rank" else stored
                struct = f"IF({NEW}, {struct}, {before})"
            found.append(f"{struct} AS {self._name('r', i)}")
        for j, (unit, gap) in enumerate(self._units):
            if unit == "session":
                previous = f"{PREFIX}p{self._number}"
                begins = f"IF(coalesce(try_subtract({TIME}, {previous}) >= {gap}L, true), 1, 0)"
                found.append(f"sum({begins}) {so_far} AS {self._name('g', j)}")
        return found

    def _framed(self) -> list[str]:
        """Values that follow from the structs; those of RANGE and SESSION frames; parts of frames with EXCLUDE."""
        found = []
        for i, f in self.functions.items():
            if f.function in ("rank", "dense_rank"):
                first = f"min({self._name('r', i)}.`n`) {self._range(0, 0)}"
                found.append(f"CAST({first} AS INT) AS {self._name('v' if f.function == 'rank' else 'k', i)}")
            elif _leaves_out(f):
                found += [f"{p} AS {self._name(f'q{n}_', i)}" for n, p in enumerate(self._parts(i, f))]
            elif _is_running(f):
                found.append(f"{self._at_frame_end(i, f)} AS {self._name('q0_', i)}")
            elif f.unit != "rows":
                found.append(f"{self._whole(i, f)} AS {self._name('v', i)}")
        for j, (unit, gap) in enumerate(self._units):
            if unit == "session":
                found.append(
                    f"try_add(max({TIME}) OVER ({self._session(j)}), {gap}L) AS {self._name('a', j)}"
                )
        return found

    def _merged(self) -> list[str]:
        found = []
        for i, f in self.functions.items():
            if f.function == "dense_rank":
                stored = f"{PREFIX}s{i}.`d`" if self._stored else "NULL"
                is_first = f"IF({self._name('r', i)}.`n` = {self._name('k', i)}, 1L, 0L)"
                so_far = self._window("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
                rank = f"sum(IF({NEW}, {is_first}, IF({self._last}, {stored}, NULL))) {so_far}"
                rank = f"IF({NEW}, {rank}, {stored})" if self._stored else rank
                struct = f"named_struct('n', {self._name('r', i)}.`n`, 'd', {rank})"
                found.append(f"{struct} AS {self._name('d', i)}")
            elif _leaves_out(f):
                parts = [self._name(f"q{n}_", i) for n, _ in enumerate(self._parts(i, f))]
                found.append(f"{self.partials[i].merged(parts)} AS {self._name('m', i)}")
        return found

    def _complete(self) -> list[str]:
        """The values of structs, and the watermark from which on each unit's frames are final."""
        found = []
        for i, f in self.functions.items():
            if f.function == "rank" or not (_is_running(f) or _leaves_out(f)):
                continue
            column = "d" if f.function == "dense_rank" else "m" if _leaves_out(f) else "q0_"
            found.append(f"{self.partials[i].value(self._name(column, i))} AS {self._name('v', i)}")
        for j, (unit, _) in enumerate(self._units):
            ahead = self._reach(j)[1]
            end = self._name("a", j)
            if unit == "range" or (not ahead and unit == "rows"):
                end = f"try_add({TIME}, {ahead + 1}L)"
            elif unit == "rows":
                end = f"try_add({end}, 1L)"
            known = f"coalesce({self._name('e', j)}, {end})" if self._stored else end
            found.append(f"{known} AS {self._name('x', j)}")
        return found

    # The pieces.

    def _spec(self, j: int, unit: tuple[str, int | None], watermark: int | None) -> Spec:
        end = self._name("x", j)
        was = f"{self._name('e', j)} IS NOT NULL" if self._stored else "false"
        back, ahead = self._reach(j)
        mark = 0 if watermark is None else watermark
        if unit[0] == "rows":
            keep = f"{self._name('c', j)} IS NULL"
        elif unit[0] == "session":
            keep = f"{end} > {_long(mark)}"
        elif self._running_of(j):
            # The last row at or before that instant: its structs stand for all rows up to there.
            keep = f"{TIME} >= coalesce({self._name('b', j)}, {TIME})"
        else:
            keep = f"{TIME} >= {_long(mark - ahead - back)}"
        return Spec(end, was, keep)

    def _reach(self, j: int) -> tuple[int, int]:
        """How far (rows or ticks) the frames of a unit reach back and ahead, where they are bounded. A frame from
        UNBOUNDED PRECEDING needs the struct of the row before it ends."""
        back = ahead = 0
        for f in self.functions.values():
            if _unit(f) != self._units[j]:
                continue
            ahead = max(ahead, f.following or 0)
            if f.preceding is not None:
                back = max(back, f.preceding)
            else:
                one = 1 if f.unit == "rows" or f.exclude_current else 0
                back = max(back, one, -(f.following or 0))
        return (0, 0) if self._units[j][0] == "session" else (back, ahead)

    def _running_of(self, j: int) -> bool:
        return any(_is_running(f) for f in self.functions.values() if _unit(f) == self._units[j])

    def _at_frame_end(self, i: int, f: OverFunction) -> str:
        """The struct of the last row of a frame from UNBOUNDED PRECEDING."""
        struct, end = self._name("r", i), f.following or 0
        if f.unit == "range":
            return f"max_by({struct}, {self._place}) {self._range(None, end)}"
        if end < 0:
            return f"lag({struct}, {-end}) {self._window()}"
        return (
            f"last({struct}) {self._window(f'ROWS BETWEEN CURRENT ROW AND {_bound(end)}')}" if end else struct
        )

    def _whole(self, i: int, f: OverFunction) -> str:
        """The value of a RANGE or SESSION frame."""
        if f.unit == "session":
            window = f"OVER ({self._session(self._units.index(_unit(f)))})"
        else:
            window = self._range(-(f.preceding or 0), f.following or 0)
        if f.function in ("first_value", "last_value"):
            # Rows of one time have an order, too: Spark's first_value does not know it here.
            return f"({self.partials[i].of_frame(self._place, window)}).`v`"
        return self._call(i, f, window)

    def _call(self, i: int, f: OverFunction, window: str) -> str:
        partial = self.partials.get(i)
        return partial.call(window) if partial is not None and partial.exact else f"{f.call} {window}"

    def _parts(self, i: int, f: OverFunction) -> list[str]:
        """The frame without the row itself, as structs of what lies before and after it, in order."""

        def part(window: str) -> str:
            return self.partials[i].of_frame(self._place, window)

        before = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        after = "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"
        if f.unit == "session":
            within = f"{self._session(self._units.index(_unit(f)))} ORDER BY {self._order}"
            return [part(f"OVER ({within} {before})"), part(f"OVER ({within} {after})")]
        ahead = f.following or 0
        if f.preceding is None:
            found = [f"lag({self._name('r', i)}, 1) {self._window()}"]
        elif f.unit == "rows":
            rows = f"ROWS BETWEEN {f.preceding} PRECEDING AND 1 PRECEDING"
            found = [part(self._window(rows))] if f.preceding else []
        else:
            found = [part(self._range(-f.preceding, -1))] if f.preceding else []
        if f.unit == "rows":
            rows = f"ROWS BETWEEN 1 FOLLOWING AND {ahead} FOLLOWING"
            return [*found, part(self._window(rows))] if ahead else found
        peers = f"{self._with_peers()} ORDER BY {self._ties}"
        if f.preceding is not None:
            found.append(part(f"OVER ({peers} {before})"))
        found.append(part(f"OVER ({peers} {after})"))
        return [*found, part(self._range(1, ahead))] if ahead else found

    def _partition(self) -> str:
        return f"PARTITION BY {', '.join(self._keys)}" if self._keys else ""

    def _with_peers(self) -> str:
        return f"PARTITION BY {', '.join([*self._keys, TIME, *_bare(self._rest)])}"

    def _session(self, j: int) -> str:
        return f"PARTITION BY {', '.join([*self._keys, self._name('g', j)])}"

    def _window(self, frame: str = "") -> str:
        return f"OVER ({self._partition()} ORDER BY {self._order} {frame})"

    def _range(self, start: int | None, end: int) -> str:
        """A RANGE frame, in ticks around the row's; CURRENT ROW takes in all rows that ORDER BY finds equal."""
        by = self._peers if start in (None, 0) and end == 0 else TIME
        return f"OVER ({self._partition()} ORDER BY {by} RANGE BETWEEN {_bound(start, 'L')} AND {_bound(end, 'L')})"

    def _name(self, what: str, i: int) -> str:
        """Columns of a unit carry the ordering's number, those of a call their own."""
        return (
            f"{PREFIX}{what}{self._number}_{i}"
            if what in ("a", "b", "c", "e", "g", "x")
            else f"{PREFIX}{what}{i}"
        )


def _unit(f: OverFunction) -> tuple[str, int | None]:
    return f.unit, f.preceding if f.unit == "session" else None


def _is_running(f: OverFunction) -> bool:
    return f.unit != "session" and f.preceding is None


def _leaves_out(f: OverFunction) -> bool:
    """EXCLUDE CURRENT ROW, where the frame has that row."""
    holds = f.unit == "session" or (f.following or 0) >= 0 >= -(f.preceding or 0)
    return f.exclude_current and holds


def _frame(f: OverFunction) -> str:
    start = None if f.preceding is None else -f.preceding
    return f"ROWS BETWEEN {_bound(start)} AND {_bound(f.following or 0)}"


def _bound(at: int | None, unit: str = "") -> str:
    """`unit`: the suffix of Spark's literals: rows are counted in INT, ticks in BIGINT."""
    if at is None:
        return "UNBOUNDED PRECEDING"
    if at == 0:
        return "CURRENT ROW"
    return f"{-at}{unit} PRECEDING" if at < 0 else f"{at}{unit} FOLLOWING"


def _long(ticks: int) -> str:
    """A literal; Spark has none for the smallest of all."""
    return f"{max(-(2**63) + 1, min(2**63 - 1, ticks))}L"


def _bare(order: Sequence[str]) -> list[str]:
    """ORDER BY items without their direction."""
    return [item.split(" NULLS ")[0].removesuffix(" DESC").removesuffix(" ASC") for item in order]
