"""Golden plans: SQL in, explain out. `python -m tests.plan.golden_files` writes them anew for review."""

from __future__ import annotations

import json
from pathlib import Path

from tidegate.plan.explain import explain
from tidegate.sql import load_catalog

FOLDER = Path(__file__).parent / "golden"


def cases() -> list[Path]:
    """The SQL files; each has a `.txt` beside it."""
    return sorted(FOLDER.glob("*.sql"))


def render(sql: Path) -> str:
    """Explain everything in the file; the last view again with a known watermark, as text and as data."""
    catalog = load_catalog([(f"assets/{sql.name}", sql.read_text())])
    names = [*catalog.names(), *(sink.name for sink in catalog.sinks)]
    texts = [str(explain(catalog, name)) for name in names]
    last = catalog.views[-1]
    mark = 7_000_000 * 60 if last.kind.name == "TIMESTAMP" else 41
    known = explain(catalog, last, marks={o.name: mark for o in catalog.order()})
    texts += [str(known), json.dumps(known.to_dict(), indent=1, ensure_ascii=False)]
    return ("\n\n" + "=" * 80 + "\n\n").join(texts) + "\n"


def main() -> None:
    """Write all golden files."""
    for sql in cases():
        sql.with_suffix(".txt").write_text(render(sql))


if __name__ == "__main__":
    main()
