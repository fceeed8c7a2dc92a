"""Flink SQL, in an environment of its own (standard library and PyFlink): `run_flink.py SPEC.json`.

The plan runs in the JVM of a local cluster; no Python is in the path of the data. The settings are those that the
documentation recommends for one machine.
"""

import json
import os
import pathlib
import sys
import tempfile


def main() -> None:
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    rooms = ("java.lang", "java.util", "java.nio", "java.net", "java.util.concurrent", "java.time")
    opens = " ".join(f"--add-opens=java.base/{room}=ALL-UNNAMED" for room in rooms)
    heap = f"-Xmx{spec['memory']} {opens}"
    with tempfile.TemporaryDirectory() as conf:
        pathlib.Path(conf, "config.yaml").write_text(f"env.java.opts.all: {opens}\n")
        os.environ |= {
            "FLINK_CONF_DIR": conf,
            "JVM_ARGS": heap,
            "JAVA_TOOL_OPTIONS": heap,
            "HADOOP_CLASSPATH": "",
        }
        run(spec)


def run(spec: dict) -> None:
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    settings = {
        "parallelism.default": str(spec["parallelism"]),
        "pipeline.jars": ";".join(f"file://{jar}" for jar in spec["jars"]),
        "pipeline.auto-watermark-interval": "200 ms",
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
        "taskmanager.memory.managed.size": "1g",
        "taskmanager.memory.network.max": "256m",
        "taskmanager.numberOfTaskSlots": str(spec["parallelism"]),
        "state.backend.type": "hashmap",
        "rest.port": "0",
        "rest.bind-port": "0",
    }
    for name, value in settings.items():
        configuration.set_string(name, value)
    mode = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration)
    tables = TableEnvironment.create(mode.build())
    print("MARK begin", flush=True)
    for statement in spec["sql"]:
        result = tables.execute_sql(statement)
    result.wait()
    print("MARK end", flush=True)


main()
