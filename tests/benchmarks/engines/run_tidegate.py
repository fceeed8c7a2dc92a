"""tidegate as its users have it: a project folder, a session, runs.

`python -m tests.benchmarks.engines.run_tidegate SPEC.json`. `steps` are carried out in order: each links files into the
source's folder, runs, and may export tables; each run is between two marks, `begin` and `end` with the step's name.
Exports are for the oracle, and in nobody's measurement.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import tidegate


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    session = tidegate.connect(project=spec["project"])
    for step in spec["steps"]:
        carry_out(session, step)
    session.close(stop_spark=True)


def carry_out(session: Any, step: dict[str, Any]) -> None:
    """`link`: [[from, to]], files that appear; `run`: names, or all; `export`: {table: [columns, folder]}."""
    name = step["name"]
    for source, target in step.get("link", ()):
        os.link(source, target)
    print(f"MARK begin{name}", flush=True)
    report = session.run(step.get("run"))
    print(f"MARK end{name}", flush=True)
    print("NOTE", json.dumps({f"report{name}": report.to_dict()}), flush=True)
    for table, (columns, folder) in step.get("export", {}).items():
        session.table(table).select(*columns).write.mode("overwrite").parquet(folder)


if __name__ == "__main__":
    main()
