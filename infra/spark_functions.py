"""Write platform/tidegate/sql/dialect/spark_functions.json from the Spark that is installed: every builtin and its
kind.

python infra/spark_functions.py           rewrite the file
python infra/spark_functions.py --check   exit with 1 if the file differs from the running Spark
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "platform/tidegate/sql/dialect/spark_functions.json"
# Spark's documentation groups. Generators (explode, …) are called like scalars but yield rows.
KINDS = {
    "agg_funcs": "aggregate",
    "window_funcs": "window",
    "generator_funcs": "table",
    "table_funcs": "table",
}


def read_functions(spark: Any) -> dict[str, str]:
    """{name: scalar | aggregate | window | table} of all builtin functions of a session, sorted by name."""
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    names = sorted(row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect())
    groups = {
        name: catalog.lookupFunctionInfo(identifier(name)).getGroup()
        # SHOW FUNCTIONS also lists operators that are only grammar.
        for name in names
        if name.isidentifier() and name != "case"
    }
    return {name: KINDS.get(group, "scalar") for name, group in groups.items()}


def render(functions: dict[str, str]) -> str:
    """The file's content, one function per line, so that a new Spark is a readable diff.

    What a function reaches (`pure`, `varying`, `machine` or `throwing`, see tidegate/sql/dialect/functions.py) is a
    person's decision, and stays; a new function is `machine`, which SQL may not use, until somebody has decided.
    """
    decided = {name: reach for name, (_, reach) in json.loads(TARGET.read_text("utf-8")).items()}
    lines = (
        f" {json.dumps(name)}: {json.dumps([kind, decided.get(name, 'machine')])}"
        for name, kind in functions.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    try:
        text = render(read_functions(spark))
    finally:
        spark.stop()
    if "--check" in sys.argv[1:]:
        return int(TARGET.read_text("utf-8") != text)
    TARGET.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
