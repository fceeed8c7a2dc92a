"""Amendments of semantics.md in plain Python (B1-B3): slow, and obviously right. It imports nothing of tidegate.

amended = Amended(oracle, "hourly")
amended.amend()          # the starts of the windows that it hit, in order
amended.shows()          # what a reader of the view sees: the newest revision of every closed window, and open ones
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracles.oracle import Decision, Group, Oracle, aggregate, windows_of


@dataclass
class Revision:
    """One revision of a window (B2): the late rows that it absorbed beyond the one before, and its groups."""

    number: int
    late: int
    groups: list[Group] = field(default_factory=list)


class Amended:
    """One view of an oracle with its revisions. Windows are called by their start."""

    def __init__(self, oracle: Oracle, name: str) -> None:
        self.oracle, self.view = oracle, oracle.views[name]
        #: Late rows that a window has absorbed.
        self.absorbed: dict[int, list[Decision]] = {}
        self.revisions: dict[int, list[Revision]] = {}

    def is_closed(self, start: int) -> bool:
        """C2, as of the last flush."""
        frontier = self.oracle.frontier[self.view.name]
        return frontier is not None and start + self.view.size <= frontier

    def amend(self) -> list[int]:
        """B3: exactly the closed windows that late rows hit which count there and are not absorbed yet."""
        hit: dict[int, list[Decision]] = {}
        for decision in self.oracle.decisions[: self.oracle.committed]:
            if decision.outcome != "late" or not self.view.where(decision.row):
                continue
            for start in windows_of(self.view, decision.row.event_time):
                if self.is_closed(start) and decision not in self.absorbed.get(start, []):
                    hit.setdefault(start, []).append(decision)
        for start, late in hit.items():
            before = self.revisions.setdefault(start, [Revision(1, 0, self.groups(start))])
            self.absorbed.setdefault(start, []).extend(late)
            before.append(Revision(before[-1].number + 1, len(late), self.groups(start)))
        return sorted(hit)

    def groups(self, start: int) -> list[Group]:
        """B1: the view's result over the rows on time of one window, and the late ones that it has absorbed."""
        members: dict[tuple, list] = {}
        for decision in self.oracle.decisions[: self.oracle.committed]:
            row = decision.row
            counts = decision.outcome == "on_time" or decision in self.absorbed.get(start, [])
            if counts and self.view.where(row) and start in windows_of(self.view, row.event_time):
                members.setdefault(tuple(row.payload[k] for k in self.view.keys), []).append(row)
        return [
            {
                "window_start": start,
                "window_end": start + self.view.size,
                **dict(zip(self.view.keys, keys, strict=True)),
                **{name: aggregate(*call, rows) for name, call in self.view.aggregates.items()},
            }
            for keys, rows in members.items()
        ]

    def shows(self) -> list[Group]:
        """The newest revision of every amended window (B2), and what the live run shows of all others."""
        live = [g for g in self.oracle.shows(self.view.name) if g["window_start"] not in self.revisions]
        return live + [g for revisions in self.revisions.values() for g in revisions[-1].groups]

    def history(self) -> list[tuple[int, int]]:
        """(start, revision) of every group of every revision of the closed windows, those that were never amended
        included."""
        live = [
            (g["window_start"], 1)
            for g in self.oracle.shows(self.view.name)
            if g["window_start"] not in self.revisions and self.is_closed(g["window_start"])
        ]
        return live + [(s, r.number) for s, all_ in self.revisions.items() for r in all_ for _ in r.groups]
