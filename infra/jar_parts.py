"""What the jars of the image are made of, as CycloneDX's components: `python -m infra.jar_parts FILE`.

Those are the jars that PySpark's package brings, and those that tidegate adds (`jars.sha256`). Many of them hold copies
of other projects, often under other names of packages: a component has those as components of its own, so that
`make audit` asks about them, too. They are read from the files of Maven that each copy brings along.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: The jars that tidegate adds to Spark's.
SUMS = ROOT / "platform" / "tidegate" / "jvm" / "jars.sha256"
#: The groups of Spark's jars that say nothing of where they come from: what a jar's name begins with, and its group.
GROUPS = {
    "RoaringBitmap-": "org.roaringbitmap",
    "algebra_": "org.typelevel",
    "arpack_combined_all-": "net.sourceforge.f2j",
    "breeze": "org.scalanlp",
    "cats-kernel_": "org.typelevel",
    "chill": "com.twitter",
    "derby": "org.apache.derby",
    "hadoop-client-runtime-": "org.apache.hadoop",
    "ivy-": "org.apache.ivy",
    "jackson-module-scala_": "com.fasterxml.jackson.module",
    "jdo-api-": "javax.jdo",
    "json4s-": "org.json4s",
    "jsr305-": "com.google.code.findbugs",
    "jta-": "javax.transaction",
    "libfb303-": "org.apache.thrift",
    "libthrift-": "org.apache.thrift",
    "lz4-java-": "org.lz4",
    "objenesis-": "org.objenesis",
    "oro-": "oro",
    "rocksdbjni-": "org.rocksdb",
    "scala-compiler-": "org.scala-lang",
    "scala-library-": "org.scala-lang",
    "scala-parallel-collections_": "org.scala-lang.modules",
    "scala-parser-combinators_": "org.scala-lang.modules",
    "scala-reflect-": "org.scala-lang",
    "scala-xml_": "org.scala-lang.modules",
    "snappy-java-": "org.xerial.snappy",
    "spire": "org.typelevel",
    "stax-api-": "stax",
    "tink-": "com.google.crypto.tink",
    "transaction-api-": "javax.transaction",
    "xz-": "org.tukaani",
    "zstd-jni-": "com.github.luben",
}
_MAVEN = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")


@dataclass(frozen=True, order=True)
class Part:
    """One artifact of Maven."""

    group: str
    name: str
    version: str
    #: Which of several jars of one artifact: `linux-x86_64`.
    classifier: str = ""

    @property
    def purl(self) -> str:
        """The address that inventories know it by."""
        which = f"?classifier={self.classifier}" if self.classifier else ""
        return f"pkg:maven/{self.group}/{self.name}@{self.version}{which}"


def part_of_ivy_name(file: str) -> Part:
    """The artifact of a jar that has its name of Ivy's cache, `group_artifact-version.jar`."""
    group, _, rest = file.removesuffix(".jar").partition("_")
    return Part(group, *_cut(rest))


def part_of_spark_s_jar(jar: Path) -> Part:
    """The artifact of a jar of PySpark's folder, whose name has no group."""
    for part in packed(jar):
        start = f"{part.name}-{part.version}"
        if jar.stem == start or jar.stem.startswith(f"{start}-"):
            return replace(part, classifier=jar.stem[len(start) + 1 :])
    for start, group in GROUPS.items():
        if jar.name.startswith(start):
            return Part(group, *_cut(jar.stem))
    raise ValueError(f"{jar.name} does not say of which group it is: add it to GROUPS of infra/jar_parts.py")


@cache
def packed(jar: Path) -> list[Part]:
    """The artifacts that a jar says it is made of, itself among them where it says so."""
    with zipfile.ZipFile(jar) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if _MAVEN.fullmatch(name)]
    found = []
    for text in texts:
        pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
        values = {key.strip(): value.strip() for key, _, value in pairs}
        found.append(Part(values["groupId"], values["artifactId"], values["version"]))
    return sorted(set(found))


def component(part: Part, digest: str, jar: Path | None) -> dict[str, Any]:
    """CycloneDX's component of one jar. `jar`: the file, where it is on this machine; else it is not looked into."""
    made = _component(part, part.purl) | {"hashes": [{"alg": "SHA-256", "content": digest}]}
    itself = replace(part, classifier="")
    inner = [other for other in packed(jar) if other != itself] if jar else []
    if inner:
        made["components"] = [_component(other, f"{part.purl}#{other.purl}") for other in inner]
    return made


def _component(part: Part, ref: str) -> dict[str, Any]:
    named = {"group": part.group, "name": part.name, "version": part.version}
    return {"type": "library", "bom-ref": ref, **named, "purl": part.purl}


def added_jars(sums: str, folders: Iterable[Path]) -> Iterator[tuple[dict[str, Any], bool]]:
    """The components of a file of sums (`sha256  group_artifact-version.jar` in each line), and whether the jar is in
    one of `folders`, so that it was looked into."""
    places = list(folders)
    for line in sums.splitlines():
        digest, file = line.split()
        part = part_of_ivy_name(file)
        names = (file, f"{part.name}-{part.version}.jar")
        jar = next((f for place in places for name in names if (f := place / name).is_file()), None)
        if jar and hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
            jar = None
        yield component(part, digest, jar), jar is not None


def spark_s_jars(folder: Path) -> Iterator[dict[str, Any]]:
    """The components of the jars that PySpark's package brings."""
    for jar in sorted(folder.glob("*.jar")):
        yield component(part_of_spark_s_jar(jar), hashlib.sha256(jar.read_bytes()).hexdigest(), jar)


def _cut(text: str) -> tuple[str, str]:
    """`kafka-clients-3.9.1` as (`kafka-clients`, `3.9.1`); Scala's version (`_2.13`) is part of the name."""
    parts = text.split("-")
    first = next(
        i for i, part in enumerate(parts) if i and part[0].isdigit() and "." in part and "_" not in part
    )
    return "-".join(parts[:first]), "-".join(parts[first:])


def main(target: str) -> int:
    from infra.ivy import SPARK_JARS
    from tidegate.jvm.packages import ivy_jars, jar_folder

    components = {made["bom-ref"]: made for made in spark_s_jars(SPARK_JARS)}
    for made, seen in added_jars(SUMS.read_text(), (ivy_jars(), jar_folder())):
        components[made["bom-ref"]] = made
        if not seen:
            print(
                f"{made['purl']} is not on this machine: what is packed in it is not listed", file=sys.stderr
            )
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(json.dumps(list(components.values()), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
