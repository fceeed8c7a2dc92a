"""DuckDB, the limit of this machine, in an environment of its own: `run_duckdb.py SPEC.json`."""

import json
import pathlib
import sys


def main() -> None:
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    import duckdb

    out = pathlib.Path(spec["out"])
    out.mkdir(parents=True)
    connection = duckdb.connect()
    connection.execute(f"SET threads={spec['cores']}; SET preserve_insertion_order=false; SET TimeZone='UTC'")
    connection.execute(f"CREATE VIEW raw AS SELECT * FROM read_parquet('{spec['data']}/parquet/*.parquet')")
    print("MARK begin", flush=True)
    connection.execute(f"COPY ({spec['sql']}) TO '{out}/result.parquet' (FORMAT parquet)")
    print("MARK end", flush=True)


main()
