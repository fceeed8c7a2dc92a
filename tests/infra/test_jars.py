"""Where Spark's extra jars come from: what was resolved, then the jar folder, else the network."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from infra.fetch_jars import SOURCES, STANDIN, TOKEN_PROVIDER, is_standin, standin_jar
from infra.ivy import Unresolved
from tests.conftest import ROOT
from tidegate.engine.spark import ICEBERG_PACKAGE, KAFKA_PACKAGES, cached_jars, jar_folder

PACKAGES = [ICEBERG_PACKAGE, *KAFKA_PACKAGES]


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
