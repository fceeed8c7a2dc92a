"""MERGE as the engine asks for it, whoever carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Merge:
    """MERGE of `changes` (called `s`) into a table (called `t`). `on`: in SQL; `matched`: of a row that is met, what
    follows from a condition in SQL (None: always): columns that take the change's values, or None to delete it; the
    first that holds counts. `missing`: when a change that meets no row is inserted ("": always; None: never), with the
    values of `columns`. `summary`: what the snapshot says."""

    changes: DataFrame
    on: str
    matched: tuple[tuple[str | None, tuple[str, ...] | None], ...]
    columns: tuple[str, ...] = ()
    missing: str | None = None
    summary: Mapping[str, str] | None = None

    def sql(self, table: str, changes: str) -> str:
        """The statement. `changes`: what the frame is called."""
        text = [f"MERGE INTO {table} t USING {changes} s ON {self.on}"]
        for condition, columns in self.matched:
            when = "WHEN MATCHED" + (f" AND {condition}" if condition else "")
            change = (
                "DELETE" if columns is None else f"UPDATE SET {', '.join(f't.{c} = s.{c}' for c in columns)}"
            )
            text.append(f"{when} THEN {change}")
        if self.missing is not None:
            names, values = ", ".join(self.columns), ", ".join(f"s.{c}" for c in self.columns)
            when = "WHEN NOT MATCHED" + (f" AND {self.missing}" if self.missing else "")
            text.append(f"{when} THEN INSERT ({names}) VALUES ({values})")
        return " ".join(text)
