"""The parts of tidegate as CycloneDX, packages of a lock and jars, with sums: `python -m infra.sbom LOCK FILE`.

It runs in the environment of `make audit`, where CycloneDX's own library makes the components of the lock and checks
the result against the standard's schema.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Those that Spark loads for tidegate; the broker of `make kafka` is for tests.
JARS = ROOT / "platform" / "tidegate" / "jvm" / "jars.sha256"


def jar_components(sums: str) -> list[dict[str, Any]]:
    """CycloneDX's components for a file of sums: `sha256  group_artifact-version.jar` in each line."""
    components = []
    for line in sums.splitlines():
        digest, file = line.split()
        group, _, rest = file.removesuffix(".jar").partition("_")
        name, version = _cut(rest)
        purl = f"pkg:maven/{group}/{name}@{version}"
        hashes = [{"alg": "SHA-256", "content": digest}]
        components.append(
            {"type": "library", "bom-ref": purl, "group": group, "name": name, "version": version}
            | {"purl": purl, "hashes": hashes}
        )
    return components


def _cut(text: str) -> tuple[str, str]:
    """`kafka-clients-3.9.1` as (`kafka-clients`, `3.9.1`); Scala's version (`_2.13`) is part of the name."""
    parts = text.split("-")
    first = next(
        i for i, part in enumerate(parts) if i and part[0].isdigit() and "." in part and "_" not in part
    )
    return "-".join(parts[:first]), "-".join(parts[first:])


def main(lock: str, target: str) -> int:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    words = ["requirements", lock, "--pyproject", "pyproject.toml", "--spec-version", "1.6", "--of", "JSON"]
    words += ["--output-reproducible", "-o", "-"]
    program = Path(sys.executable).with_name("cyclonedx-py")
    done = subprocess.run([program, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return done.returncode
    document = json.loads(done.stdout)
    document["components"] += jar_components(JARS.read_text())
    text = json.dumps(document, indent=1)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong:
        print(f"not CycloneDX: {wrong}", file=sys.stderr)
        return 1
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(text + "\n")
    print(f"{target}: {len(document['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
