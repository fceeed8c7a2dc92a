"""Definitions that are taken from the user's cache: the same as those that are read, and only while they are."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sql.cases import CASES, shown
from tests.sql.support import add, prelude
from tidegate.errors import TidegateError
from tidegate.project import Project, kept_definitions
from tidegate.project.disk import private_folder
from tidegate.sql import Catalog, View, analyse
from tidegate.sql.catalog.objects import Object, Relation
from tidegate.sql.dialect.warnings import collecting
from tidegate.sql.statements import analysis

#: As many views as are kept, with their source.
COUNT = 50
SOURCE = (
    "CREATE SOURCE clicks (ts TIMESTAMP, k STRING, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') "
    "WITH (connector = 'filesystem', path = 'in/clicks') FORMAT PLAIN ENCODE JSON;\n"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TIDEGATE_DEFINITIONS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tidegate" / "definitions"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Grows by one each time that definitions are analysed."""
    real, found = analysis.load_catalog, []

    def noted(files, *more, **named):  # type: ignore[no-untyped-def]
        found.append(len(files))
        return real(files, *more, **named)

    monkeypatch.setattr(analysis, "load_catalog", noted)
    return found


def view(number: int, pattern: str = "'a'") -> str:
    return (
        f"CREATE MATERIALIZED VIEW v{number} AS SELECT window_start, k, count_if(k RLIKE {pattern}) AS n "
        "FROM TUMBLE(clicks, ts, INTERVAL '1 minute') GROUP BY window_start, k EMIT ON WINDOW CLOSE;\n"
    )


def project(tmp_path: Path, count: int = COUNT, source: str = SOURCE) -> Project:
    root = tmp_path / "p"
    (root / "assets").mkdir(parents=True, exist_ok=True)
    (root / "in" / "clicks").mkdir(parents=True, exist_ok=True)
    (root / "assets" / "clicks.sql").write_text(source)
    for number in range(count):
        (root / "assets" / f"v{number}.sql").write_text(view(number))
    return Project.load(root)


def of(catalog: Catalog) -> dict[str, object]:
    """All that the analysis has found, with its place and what is asked of Spark."""
    return {one.name: (shown(one), one.location, spelled(one)) for one in catalog.order()}


def spelled(one: Object) -> str:
    return str(one.query_sql) if isinstance(one, View) else ""


def test_what_was_read_once_is_the_same_and_is_not_read_again(tmp_path: Path, reads: list[int]) -> None:
    first, second = project(tmp_path).catalog(), project(tmp_path).catalog()
    assert reads == [COUNT + 1]
    assert of(second) == of(first)
    assert [*second.names()] == [*first.names()]
    # What is added to one is not in the next.
    second.drop("v3")
    assert "v3" in project(tmp_path).catalog()
    # Statements of a session are resolved against it, and stay within what the environment allows.
    (new,) = analyse(
        "CREATE SINK s FROM v1 WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON", first
    )
    (same,) = analyse(
        "CREATE SINK s FROM v1 WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON", second
    )
    assert new == same
    for catalog in (first, second):
        with pytest.raises(TidegateError, match="TG614"):
            [
                *analyse(
                    "CREATE SINK s FROM v1 WITH (connector = 'filesystem', path = '/etc') FORMAT PLAIN ENCODE JSON",
                    catalog,
                )
            ]


def test_another_text_is_read(tmp_path: Path, reads: list[int]) -> None:
    project(tmp_path).catalog()
    (tmp_path / "p" / "assets" / "v7.sql").write_text(view(7).replace("1 minute", "2 minutes"))
    changed = Project.load(tmp_path / "p").catalog()
    assert len(reads) == 2
    assert "120" in shown(changed.get("v7"))
    assert "120" not in shown(changed.get("v8"))
    # The file's name and the line are in errors, and in what people are shown.
    (tmp_path / "p" / "assets" / "v7.sql").rename(tmp_path / "p" / "assets" / "w7.sql")
    moved = Project.load(tmp_path / "p").catalog().get("v7")
    assert isinstance(moved, View)
    assert moved.location is not None
    assert moved.location.file == "assets/w7.sql"


def test_an_error_is_not_hidden_by_what_was_right_before(tmp_path: Path) -> None:
    project(tmp_path).catalog()
    (tmp_path / "p" / "assets" / "v7.sql").write_text(view(7).replace("count_if(k", "count_if(nothing"))
    for _ in range(2):
        with pytest.raises(TidegateError, match="nothing"):
            Project.load(tmp_path / "p").catalog()


def test_another_version_of_the_code_reads_again(
    tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path).catalog()
    monkeypatch.setattr(kept_definitions, "_code", lambda: b"another")
    project(tmp_path).catalog()
    assert len(reads) == 2


def test_warnings_are_said_again(tmp_path: Path, reads: list[int]) -> None:
    project(tmp_path)
    (tmp_path / "p" / "assets" / "v7.sql").write_text(view(7, r"'\d'"))
    said = []
    for _ in range(2):
        with collecting() as found:
            Project.load(tmp_path / "p").catalog()
        said.append([str(one) for one in found])
    assert len(reads) == 1
    assert said[0] == said[1]
    assert "TG908" in said[0][0]
    assert "v7.sql:1" in said[0][0]


def test_what_may_be_reached_is_checked_again(tmp_path: Path, reads: list[int]) -> None:
    """X1: a folder that has become a link leads elsewhere, though no text has changed."""
    project(tmp_path).catalog()
    (tmp_path / "outside").mkdir()
    (tmp_path / "p" / "in" / "clicks").rmdir()
    (tmp_path / "p" / "in" / "clicks").symlink_to(tmp_path / "outside")
    for _ in range(2):
        with pytest.raises(TidegateError, match=r"(?s)TG614.*clicks\.sql:1"):
            Project.load(tmp_path / "p").catalog()
    (tmp_path / "p" / "in" / "clicks").unlink()
    Project.load(tmp_path / "p").catalog()
    assert len(reads) == 3


def test_a_file_that_others_could_have_written_is_not_loaded(
    tmp_path: Path, cache: Path, reads: list[int]
) -> None:
    project(tmp_path).catalog()
    (file,) = cache.iterdir()
    assert [one.stat().st_mode & 0o777 for one in (file, cache)] == [0o600, 0o700]
    file.chmod(0o620)
    project(tmp_path).catalog()
    assert len(reads) == 2


@pytest.mark.parametrize(
    "damage", [lambda data: data[:32], lambda data: data[:-9], lambda data: data[:9000] + b"!" + data[9001:]]
)
def test_a_damaged_file_is_not_loaded(tmp_path: Path, cache: Path, reads: list[int], damage) -> None:  # type: ignore[no-untyped-def]
    first = project(tmp_path).catalog()
    (file,) = cache.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert of(project(tmp_path).catalog()) == of(first)
    assert len(reads) == 2


def test_nothing_is_kept_of_a_small_project_or_without_a_cache(
    tmp_path: Path, cache: Path, reads: list[int]
) -> None:
    project(tmp_path, COUNT - 2).catalog()
    assert not cache.exists()
    (tmp_path / "cache").write_text("a file where the folder would be")
    project(tmp_path).catalog()
    project(tmp_path).catalog()
    assert len(reads) == 3


def test_the_cache_is_off(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_DEFINITIONS_CACHE", "off")
    project(tmp_path).catalog()
    assert not cache.exists()


@pytest.mark.parametrize("inside", ["relative", "p/cache", "link"])
def test_X1_no_cache_is_looked_for_where_the_project_is_written(
    tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    """Who may only write files of a project must not make a command run what they say."""
    made = project(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "p")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", inside if inside == "relative" else str(tmp_path / inside))
    made.catalog()
    made.catalog()
    assert len(reads) == 2
    assert not [*tmp_path.rglob("*.pickle")]


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_X1_nothing_is_loaded_from_a_folder_of_others(
    tmp_path: Path, cache: Path, reads: list[int], mode: int
) -> None:
    made = project(tmp_path)
    made.catalog()
    cache.chmod(mode)
    made.catalog()
    assert len(reads) == 2
    cache.chmod(0o700)
    made.catalog()
    assert len(reads) == 2
    # In the place of a folder above it another one could be put.
    cache.parent.parent.chmod(0o777)
    made.catalog()
    assert len(reads) == 3


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_X1_only_a_plain_file_is_loaded(tmp_path: Path, cache: Path, reads: list[int], what: str) -> None:
    made = project(tmp_path)
    made.catalog()
    (file,) = cache.iterdir()
    file.rename(tmp_path / "elsewhere")
    if what == "link":
        file.symlink_to(tmp_path / "elsewhere")
    elif what == "pipe":
        os.mkfifo(file, 0o600)
    else:
        file.mkdir()
    made.catalog()
    assert len(reads) == 2


def test_a_path_of_other_letters_than_unicode_has_its_definitions_kept(
    tmp_path: Path, reads: list[int]
) -> None:
    root = tmp_path / os.fsdecode(b"\xff")
    root.mkdir()
    project(root).catalog()
    project(root).catalog()
    assert len(reads) == 1


def test_what_can_t_be_kept_is_no_error(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise RecursionError

    monkeypatch.setattr(pickle, "dumps", fail)
    assert len(project(tmp_path).catalog().names()) == COUNT + 1
    assert not [*cache.iterdir()]


def test_what_is_there_for_a_moment_takes_no_place(tmp_path: Path, reads: list[int]) -> None:
    made = project(tmp_path)
    made.catalog()
    made.catalog(instead={"v99": view(99)})
    replace(made, is_temporary=True).catalog()
    assert len(reads) == 3
    made.catalog()
    assert len(reads) == 3


def test_files_of_schemas_are_read_each_time(tmp_path: Path, cache: Path, reads: list[int]) -> None:
    """The text does not say what is in them."""
    kafka = "connector = 'kafka', topic = 't', properties.bootstrap.server = 'localhost:1'"
    source = SOURCE.replace("connector = 'filesystem', path = 'in/clicks'", kafka)
    source = source.replace("ENCODE JSON", "ENCODE AVRO (schema.location = 'in/clicks.avsc')")
    made = project(tmp_path, source=source)
    file = tmp_path / "p" / "in" / "clicks.avsc"
    fields = [{"name": name, "type": "string"} for name in ("ts", "k")]
    file.write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    made.catalog()
    assert not cache.exists()
    file.write_text(json.dumps({"type": "record", "name": "r", "fields": fields[:1]}))
    with pytest.raises(TidegateError, match='has no field "k"'):
        made.catalog()


def test_what_was_not_used_for_a_month_is_removed(tmp_path: Path, cache: Path) -> None:
    private_folder(cache)
    for name, days in (("old", 31), ("new", 29)):
        (cache / f"{name}.pickle").touch()
        then = (cache / f"{name}.pickle").stat().st_mtime - days * 86_400
        os.utime(cache / f"{name}.pickle", (then, then))
    project(tmp_path).catalog()
    (kept,) = (one for one in cache.iterdir() if one.name != "new.pickle")
    os.utime(kept, (0, 0))
    project(tmp_path).catalog()
    # It was used.
    assert kept.stat().st_mtime > 86_400


def test_gates_that_have_their_names_from_the_first_release_are_kept_under_these(
    tmp_path: Path, reads: list[int]
) -> None:
    made = project(tmp_path)
    (tmp_path / "p" / "assets" / "inline.sql").write_text(
        "CREATE MATERIALIZED VIEW inline AS SELECT window_start, count(*) AS n FROM TUMBLE("
        "WATERMARK(clicks, ts, ts - INTERVAL '1 minute'), ts, INTERVAL '1 hour') "
        "GROUP BY window_start EMIT ON WINDOW CLOSE;"
    )
    (gate,) = [one.name for one in made.catalog().order() if isinstance(one, Relation) and one.kind == "gate"]

    def find(storage: object, catalog: Catalog) -> Mapping[str, str]:
        return {gate: "stored$before"}

    reads.clear()
    for _ in range(2):
        catalog = replace(made, gate_names=find).catalog()
        assert "stored$before" in [one.name for one in catalog.order()]
    assert len(reads) == 1
    assert gate in [one.name for one in made.catalog().order()]


@pytest.mark.parametrize(
    "file", [file for file in sorted(CASES.glob("*.sql")) if "\n----\n" not in file.read_text("utf-8")]
)
def test_all_that_can_be_defined_can_be_kept(file: Path) -> None:
    catalog = prelude()
    for statement in analyse(file.read_text("utf-8"), catalog, "case.sql"):
        if not getattr(statement, "exists", False):
            add(catalog, statement)
    again = pickle.loads(pickle.dumps(catalog, protocol=5))
    assert of(again) == of(catalog)
    assert [shown(sink) for sink in again.sinks] == [shown(sink) for sink in catalog.sinks]
    # What does not differ in what is shown: the trees that queries are made from.
    for one in catalog.order():
        if isinstance(one, View):
            assert again.get(one.name).query_sql == one.query_sql


def test_the_code_that_counts_is_all_that_the_analysis_imports() -> None:
    """What it imports of the package is in the folders and files whose content is a part of the key."""
    asked = "import sys, tidegate.sql.statements.analysis; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    rooms = {name.split(".")[1] for name in loaded.split() if name.startswith("tidegate.")}
    assert rooms <= {name.removesuffix(".py") for name in kept_definitions._ANALYSING}
