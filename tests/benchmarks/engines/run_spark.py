"""What people write by hand, in native Structured Streaming: `python -m tests.benchmarks.engines.run_spark SPEC.json`.

The aggregation keeps nothing of its input; with `copy` a second query keeps the raw rows, as an audit needs them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "part int, off long, ts timestamp, key long, amount long, payload string"
MESSAGE = "ts timestamp, key long, amount long, payload string"


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    spark = session(spec)
    print("MARK begin", flush=True)
    rows = read(spark, spec)
    write(aggregated(rows, spec["query"]), spec, "result")
    if spec["copy"]:
        write(rows, spec, "raw")
    print("MARK end", flush=True)


def session(spec: dict[str, Any]) -> SparkSession:
    """With the settings that tidegate gives to a local Spark, and state in memory."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.memory": spec["memory"],
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(spec["cores"]),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.jars": ",".join(spec.get("jars", ())),
    }
    builder = SparkSession.builder.master(f"local[{spec['cores']}]").appName("native")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read(spark: SparkSession, spec: dict[str, Any]) -> DataFrame:
    if "topic" not in spec:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", spec["files_per_trigger"])
        return reader.parquet(f"{spec['data']}/parquet")
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", spec["bootstrap"])
    reader = reader.option("subscribe", spec["topic"]).option("startingOffsets", "earliest")
    messages = reader.option("maxOffsetsPerTrigger", spec["rows_per_trigger"]).load()
    parsed = F.from_json(
        F.col("value").cast("string"), MESSAGE, {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSS"}
    )
    return messages.select(parsed.alias("row")).select("row.*")


def aggregated(rows: DataFrame, query: dict[str, Any]) -> DataFrame:
    window: Column
    if query["kind"] == "sessions":
        window = F.session_window("ts", f"{query['gap_s']} seconds")
    else:
        window = F.window("ts", f"{query['size_s']} seconds", f"{query['slide_s']} seconds")
    counts = rows.withWatermark("ts", f"{query['delay_s']} seconds").groupBy(window.alias("w"), "key")
    counts = counts.agg(F.count(F.lit(1)).alias("cnt"), F.sum("amount").alias("total"))
    return counts.select(
        F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end"), "key", "cnt", "total"
    )


def write(rows: DataFrame, spec: dict[str, Any], name: str) -> None:
    writer = rows.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    place = Path(spec["out"]) / name
    writer.option("checkpointLocation", f"{place}-checkpoint").start(str(place)).awaitTermination()


if __name__ == "__main__":
    main()
