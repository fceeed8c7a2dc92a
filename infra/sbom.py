"""The parts of tidegate as CycloneDX, packages of a lock and jars, with sums: `python -m infra.sbom LOCK JARS FILE`.

JARS is what `infra.jar_parts` wrote. This runs in the environment of `make audit`, where CycloneDX's own library makes
the components of the lock and checks the result against the standard's schema.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(lock: str, jars: str, target: str) -> int:
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
    document["components"] += json.loads(Path(jars).read_text())
    text = json.dumps(document, indent=1)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong:
        print(f"not CycloneDX: {wrong}", file=sys.stderr)
        return 1
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(text + "\n")
    inside = sum(len(component.get("components", ())) for component in document["components"])
    print(f"{target}: {len(document['components'])} components, and {inside} packed in them")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
