"""Resolve Spark's extra jars once, so that the first run does not pause for a download: `python -m infra.fetch_jars`.

Registries that mirror Maven Central in part lack `spark-token-provider-kafka-0-10`. Where it cannot be resolved, a
test-only stand-in for its four classes (infra/kafka/standin: plaintext brokers only) is compiled into the jar folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from infra.ivy import SPARK_JARS, Unresolved, resolve
from tidegate.errors import TidegateError
from tidegate.jvm.jars import STANDIN, is_standin, ivy_name, read_sums, verify_folder
from tidegate.jvm.packages import (
    ICEBERG_PACKAGE,
    KAFKA_EXCLUDED,
    KAFKA_PACKAGES,
    USUAL_PACKAGES,
    cached_jars,
    ivy_jars,
    jar_folder,
)
from tidegate.project.java import require_java

SOURCES = Path(__file__).resolve().parent / "kafka" / "standin"
TOKEN_PROVIDER = next(package for package in KAFKA_PACKAGES if "token-provider" in package)


def main() -> int:
    packages = [ICEBERG_PACKAGE, *USUAL_PACKAGES]
    standin = standin_jar()
    try:
        if cached_jars(packages) and not is_standin(standin):
            check_cache()
            return 0
        require_java()
        print("Fetching Spark's jars for Iceberg, Kafka and SQLite …", flush=True)
        try:
            resolve(packages, exclude=KAFKA_EXCLUDED)
        except Unresolved as missing:
            if not missing.names(TOKEN_PROVIDER):
                raise
            resolve(
                [package for package in packages if package != TOKEN_PROVIDER],
                exclude=[*KAFKA_EXCLUDED, TOKEN_PROVIDER.rpartition(":")[0]],
            )
            compile_standin(standin)
            artifact = TOKEN_PROVIDER.split(":")[1]
            print(
                f"{artifact} is in no repository that this machine reaches: tests use a stand-in, plaintext only"
            )
        else:
            if is_standin(standin):
                standin.unlink()
        check_cache()
    except (TidegateError, Unresolved) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def check_cache() -> None:
    """Compare what was fetched, also what the packages depend on, with the sums (TG518). Other jars are not ours."""
    sums = read_sums()
    verify_folder((jar for jar in ivy_jars().glob("*.jar") if jar.name in sums), sums)


def standin_jar() -> Path:
    """Where the stand-in goes: the jar folder, which Ivy's cache goes before."""
    return jar_folder() / ivy_name(TOKEN_PROVIDER)


def compile_standin(jar: Path) -> None:
    """Compile SOURCES into `jar`, with the Janino that Spark brings along: a Java runtime has no javac."""
    from pyspark.java_gateway import launch_gateway

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        gateway = launch_gateway(popen_kwargs={"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})
        try:
            file = gateway.jvm.java.io.File
            compiler = gateway.jvm.org.codehaus.janino.Compiler()

            def files(paths: list[Path]) -> object:
                array = gateway.new_array(file, len(paths))
                for index, path in enumerate(paths):
                    array[index] = file(str(path))
                return array

            needed = [next(SPARK_JARS.glob(f"{name}*.jar")) for name in ("scala-library", "spark-core")]
            compiler.setClassPath(files(needed))
            compiler.setSourcePath(files([SOURCES]))
            compiler.setDestinationDirectory(file(folder), False)
            compiler.compile(files(sorted(SOURCES.rglob("*.java"))))
        finally:
            gateway.shutdown()
        jar.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(jar, "w") as archive:
            manifest = f"Manifest-Version: 1.0\nImplementation-Title: {STANDIN}\n"
            archive.writestr("META-INF/MANIFEST.MF", manifest)
            for made in sorted(Path(folder).rglob("*.class")):
                archive.write(made, made.relative_to(folder))


if __name__ == "__main__":
    sys.exit(main())
