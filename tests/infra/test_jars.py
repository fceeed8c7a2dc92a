"""Where Spark's extra jars come from: what was resolved, then the jar folder, else the network."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from infra.fetch_jars import SOURCES, TOKEN_PROVIDER, standin_jar
from infra.ivy import Unresolved
from infra.jar_parts import added_jars, packed, part_of_spark_s_jar
from infra.kafka.broker import BROKER_SUMS
from infra.rest_catalog.server import ARTIFACTS as REST_ARTIFACTS
from infra.rest_catalog.server import SUMS as REST_SUMS
from tests.conftest import ROOT
from tidegate.cli.diagnosis import jar_sums
from tidegate.errors import TidegateError
from tidegate.jvm.class_archive import ANY_PURPOSE
from tidegate.jvm.jars import STANDIN, SUMS, is_standin, ivy_name, read_sums, verify
from tidegate.jvm.packages import ICEBERG_PACKAGE, USUAL_PACKAGES, cached_jars, jar_folder, jar_settings
from tidegate.project.storage import OPTIONAL_PACKAGES

PACKAGES = [ICEBERG_PACKAGE, *USUAL_PACKAGES]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """(Ivy's cache, the jar folder), both empty."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_JARS", str(tmp_path / "jars"))
    cache, folder = tmp_path / ".ivy2.5.2" / "jars", tmp_path / "jars"
    cache.mkdir(parents=True)
    folder.mkdir()
    return cache, folder


def test_a_folder_of_jars_replaces_the_network_under_either_name(places: tuple[Path, Path]) -> None:
    _, folder = places
    for number, package in enumerate(PACKAGES):
        assert cached_jars(PACKAGES) is None, "one is missing"
        group, name, version = package.split(":")
        (folder / (f"{group}_{name}-{version}.jar" if number % 2 else f"{name}-{version}.jar")).touch()
    found = cached_jars(PACKAGES)
    assert found is not None
    assert {Path(jar).parent for jar in found} == {folder}
    assert len(found) == len(PACKAGES)


def test_what_was_resolved_goes_before_the_stand_in(places: tuple[Path, Path]) -> None:
    cache, folder = places
    jar = standin_jar()
    assert jar.parent == jar_folder() == folder
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Implementation-Title: {STANDIN}\n")
    assert is_standin(jar)
    assert cached_jars([TOKEN_PROVIDER]) == [str(jar)]
    real = cache / jar.name
    real.touch()
    assert cached_jars([TOKEN_PROVIDER]) == [str(real)]


def test_only_an_artifact_that_no_repository_has_calls_for_the_stand_in() -> None:
    group, name, version = TOKEN_PROVIDER.split(":")
    ivy = f"[NOT FOUND] {group}#{name};{version}\nunresolved dependency: {group}#{name};{version}: not found"
    assert Unresolved(PACKAGES, ivy).names(TOKEN_PROVIDER)
    assert not Unresolved(PACKAGES, ivy).names(ICEBERG_PACKAGE)
    assert not Unresolved(PACKAGES, "java.net.UnknownHostException").names(TOKEN_PROVIDER)


def test_the_stand_in_is_outside_of_what_is_shipped_and_says_what_it_is() -> None:
    sources = sorted(SOURCES.rglob("*.java"))
    assert len(sources) == 4
    for source in sources:
        assert source.read_text().startswith("// Test-only stand-in")
        assert not source.is_relative_to(ROOT / "platform")


def test_every_jar_that_a_session_may_load_has_a_sum() -> None:
    wanted = {ivy_name(package) for package in (*PACKAGES, *OPTIONAL_PACKAGES)}
    assert wanted - read_sums().keys() == {ivy_name(TOKEN_PROVIDER)}
    assert not [name for name in read_sums() if "lz4" in name or "snappy" in name], "those are Spark's own"
    for file in (SUMS, BROKER_SUMS, REST_SUMS):
        assert all(len(digest) == 64 for digest in read_sums(file).values())
    # Ivy's name, with the classifier at its end.
    names = {f"{group}_{'-'.join(rest)}.jar" for group, *rest in (a.split(":") for a in REST_ARTIFACTS)}
    assert names == read_sums(REST_SUMS).keys()


def test_a_jar_with_another_sum_is_refused_also_by_doctor(places: tuple[Path, Path]) -> None:
    _, folder = places
    jar = folder / ivy_name(ICEBERG_PACKAGE)
    jar.write_bytes(b"not what it was")
    with pytest.raises(TidegateError) as refused:
        verify({jar.name: jar})
    assert refused.value.code == "TG518"
    assert str(jar) in refused.value.message
    (finding,) = jar_sums(None)
    assert finding.state == "bad"
    known = {jar.name: "06a5bcbdd3b1ba5f2ed3ea4a92b7cbc4a5ecb9de09f4e5b6ea2ba8cf93f5b4d3"}
    with pytest.raises(TidegateError, match=known[jar.name]):
        verify({jar.name: jar}, known)


def test_doctor_names_the_stand_in(places: tuple[Path, Path]) -> None:
    jar = standin_jar()
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Implementation-Title: {STANDIN}\n")
    (finding,) = jar_sums(None)
    assert finding.state == "warning"
    assert finding.found == f"{jar} is a stand-in for tests: Kafka without TLS, login or delegation tokens"


def test_a_jar_without_a_sum_is_named_with_the_one_it_has(places: tuple[Path, Path]) -> None:
    jar = standin_jar()
    jar.write_bytes(b"")
    (note,) = verify({jar.name: jar})
    assert note.endswith("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


def jar(file: Path, *coordinates: str) -> Path:
    """A jar with what Maven leaves in it of each `group:artifact:version`."""
    with zipfile.ZipFile(file, "w") as archive:
        for group, name, version in (one.split(":") for one in coordinates):
            text = f"#made by hand\ngroupId={group}\nartifactId={name}\nversion = {version}\n"
            archive.writestr(f"META-INF/maven/{group}/{name}/pom.properties", text)
    return file


def test_the_bill_of_materials_has_every_jar_with_its_sum() -> None:
    components = [component for component, _ in added_jars(SUMS.read_text(), ())]
    assert {component["hashes"][0]["content"] for component in components} == set(read_sums().values())
    purls = {component["purl"] for component in components}
    for package in {*PACKAGES, *OPTIONAL_PACKAGES} - {TOKEN_PROVIDER}:
        group, name, version = package.split(":")
        assert f"pkg:maven/{group}/{name}@{version}" in purls


def test_the_bill_of_materials_has_what_is_packed_in_a_jar_if_that_is_the_right_jar(tmp_path: Path) -> None:
    bundle = jar(tmp_path / "g_bundle-1.0.jar", "g:bundle:1.0", "io.netty:netty-codec-http:4.2.18.Final")
    digest = hashlib.sha256(bundle.read_bytes()).hexdigest()
    ((component, seen),) = added_jars(f"{digest}  {bundle.name}\n", [tmp_path / "none", tmp_path])
    assert seen
    (inner,) = component["components"]
    assert inner["purl"] == "pkg:maven/io.netty/netty-codec-http@4.2.18.Final"
    assert inner["bom-ref"] != inner["purl"], "another jar may hold the same"
    ((component, seen),) = added_jars(f"{'0' * 64}  {bundle.name}\n", [tmp_path])
    assert not seen
    assert "components" not in component


def test_a_jar_of_spark_is_named_by_what_it_says_of_itself_else_by_the_table(tmp_path: Path) -> None:
    told = jar(
        tmp_path / "netty-epoll-4.2.7.Final-linux-x86_64.jar", "io.netty:netty-epoll:4.2.7.Final", "a:b:1.0"
    )
    assert (
        part_of_spark_s_jar(told).purl == "pkg:maven/io.netty/netty-epoll@4.2.7.Final?classifier=linux-x86_64"
    )
    assert [part.purl for part in packed(told)] == [
        "pkg:maven/a/b@1.0",
        "pkg:maven/io.netty/netty-epoll@4.2.7.Final",
    ]
    silent = jar(tmp_path / "json4s-core_2.13-4.0.7.jar")
    assert part_of_spark_s_jar(silent).purl == "pkg:maven/org.json4s/json4s-core_2.13@4.0.7"
    with pytest.raises(ValueError, match=r"unheard-of-1\.0\.jar does not say of which group it is"):
        part_of_spark_s_jar(jar(tmp_path / "unheard-of-1.0.jar"))


def test_jars_of_which_one_has_to_be_resolved_share_a_class_loader(places: tuple[Path, Path]) -> None:
    cache, _ = places
    for package in PACKAGES[:-1]:
        (cache / ivy_name(package)).touch()
    assert jar_settings(PACKAGES, {}, True, ANY_PURPOSE) == {
        "spark.jars.packages": PACKAGES[-1],
        "spark.jars": ",".join(str(cache / ivy_name(package)) for package in PACKAGES[:-1]),
    }
