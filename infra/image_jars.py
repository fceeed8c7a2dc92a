"""Bring every jar that an environment can ask for into one folder, each compared with its sum:
`python -m infra.image_jars FOLDER`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from infra.ivy import resolve
from tidegate.jvm.jars import read_sums, verify_folder
from tidegate.jvm.packages import ICEBERG_PACKAGE, KAFKA_EXCLUDED, KAFKA_PACKAGES
from tidegate.project.storage import EXCLUDED_PACKAGES, OPTIONAL_PACKAGES


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    packages = [ICEBERG_PACKAGE, *KAFKA_PACKAGES, *OPTIONAL_PACKAGES]
    with tempfile.TemporaryDirectory() as ivy:
        resolve(packages, Path(ivy), [*EXCLUDED_PACKAGES, *KAFKA_EXCLUDED])
        jars = sorted((Path(ivy) / "jars").glob("*.jar"))
        for note in verify_folder(jars, read_sums()):
            print(note, flush=True)
        for jar in jars:
            shutil.copy2(jar, folder / jar.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
