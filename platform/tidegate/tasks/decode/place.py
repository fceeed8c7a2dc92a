"""Where a row of a file stands: columns beside the file's own. Not for tasks: they are told these names."""

from __future__ import annotations

from tidegate.sql.dialect.inner_names import inner

#: `BLOCK` and `ROW` order the rows of a file.
PATH, BLOCK, ROW = inner("path"), inner("block"), inner("row")
PLACE = {PATH: "string", BLOCK: "bigint", ROW: "bigint"}
