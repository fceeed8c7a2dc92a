"""Reading tables' metadata: newest version, tidegate's own snapshot, progress rows, other catalogs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.store.tables import PROGRESS, HadoopTable, progress_row, write_progress
from tidegate.errors import TidegateError
from tidegate.project import Environment, Project
from tidegate.project.owner import OWNER, Owner
from tidegate.project.storage import Storage
from tidegate.store import load_table, read_progress
from tidegate.store.listing import owners_in


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Project(tmp_path).storage


@pytest.fixture
def table(tmp_path: Path) -> HadoopTable:
    return HadoopTable(tmp_path / ".tidegate" / "warehouse" / "main" / "flights", {"tidegate.kind": "source"})


def test_a_table_that_was_never_created(storage: Storage) -> None:
    assert load_table(storage, "flights") is None


def test_a_created_table_without_a_commit(storage: Storage, table: HadoopTable) -> None:
    table.commit()
    state = load_table(storage, "flights")
    assert state is not None
    assert (state.snapshot_id, dict(state.summary), state.properties["tidegate.kind"]) == (None, {}, "source")
    assert state.columns == (("ts", "timestamp"), ("tags", "list"))
    assert read_progress(storage, state) == []


def test_the_newest_commit_counts(storage: Storage, table: HadoopTable) -> None:
    table.commit({"tidegate.epoch": 1})
    table.commit({"tidegate.epoch": 2, "tidegate.watermark": -5}, at_ms=1_700_000_000_000)
    state = load_table(storage, "flights")
    assert state is not None
    assert (state.integer("tidegate.epoch"), state.integer("tidegate.watermark")) == (2, -5)
    assert state.integer("tidegate.late") is None
    assert (state.snapshot_id, state.committed_ms) == (200, 1_700_000_000_000)


def test_a_hint_that_lags_behind_or_is_missing_or_damaged(storage: Storage, table: HadoopTable) -> None:
    table.commit({"tidegate.epoch": 1})
    table.commit({"tidegate.epoch": 2}, hint=False)
    hint = table.folder / "metadata" / "version-hint.text"
    for _ in range(3):
        state = load_table(storage, "flights")
        assert state is not None
        assert state.integer("tidegate.epoch") == 2
        if hint.exists() and hint.read_text() == "garbage":
            hint.unlink()
        elif hint.exists():
            hint.write_text("garbage")


def test_old_files_that_were_cleaned_up_do_not_matter(storage: Storage, table: HadoopTable) -> None:
    first = table.commit({"tidegate.epoch": 1})
    table.commit({"tidegate.epoch": 2}, hint=False)
    first.unlink()
    state = load_table(storage, "flights")
    assert state is not None
    assert state.integer("tidegate.epoch") == 2


def test_compressed_metadata(storage: Storage, table: HadoopTable) -> None:
    plain = table.commit({"tidegate.epoch": 7})
    plain.with_name("v1.gz.metadata.json").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    state = load_table(storage, "flights")
    assert state is not None
    assert state.integer("tidegate.epoch") == 7


def test_commits_of_others_do_not_hide_ours(storage: Storage, table: HadoopTable) -> None:
    table.commit({"tidegate.epoch": 4})
    table.commit({"added-data-files": 1})
    state = load_table(storage, "flights")
    assert state is not None
    assert (state.integer("tidegate.epoch"), state.snapshot_id, state.current_snapshot_id) == (4, 100, 200)


def test_text_that_is_beside_the_standard_is_read_as_ever(storage: Storage, table: HadoopTable) -> None:
    table.properties["note"] = "half of a letter: \ud83c"
    table.commit({"tidegate.epoch": 1, "tidegate.watermark": 2**70})
    state = load_table(storage, "flights")
    assert state is not None
    assert (state.properties["note"], state.integer("tidegate.watermark")) == (
        "half of a letter: \ud83c",
        2**70,
    )


def test_damaged_metadata_is_an_error_not_an_empty_table(storage: Storage, table: HadoopTable) -> None:
    table.commit({"tidegate.epoch": 1}).write_text('{"half": ')
    with pytest.raises(TidegateError, match="is damaged") as caught:
        load_table(storage, "flights")
    assert caught.value.code == "TG620"


def test_progress_rows(storage: Storage, table: HadoopTable, tmp_path: Path) -> None:
    rows = [
        progress_row(None, published=3, on_time=5),
        progress_row("JFK", watermark=3, state="active", next_offset=6, on_time=5, late=1, max_event_time=9),
        progress_row("EWR", state="warming", rejected=2),
    ]
    path = write_progress(tmp_path / "data" / "progress.parquet", rows)
    # Iceberg spells local files with one slash.
    table.commit({"tidegate.epoch": 1, "tidegate.progress": f"file:{path}"})
    state = load_table(storage, "flights")
    assert state is not None
    found = read_progress(storage, state)
    assert [p.partition for p in found] == ["EWR", "JFK", None]
    assert (found[0].watermark, found[0].rejected, found[0].state) == (None, 2, "warming")
    assert (found[1].watermark, found[1].next_offset, found[1].late, found[1].max_event_time) == (3, 6, 1, 9)
    assert found[2].published == 3


def test_damaged_progress_is_an_error(storage: Storage, table: HadoopTable, tmp_path: Path) -> None:
    (tmp_path / "progress.parquet").write_bytes(b"PAR1 not really")
    table.commit({"tidegate.epoch": 1, "tidegate.progress": f"file:{tmp_path}/progress.parquet"})
    state = load_table(storage, "flights")
    assert state is not None
    with pytest.raises(TidegateError, match="can't read the progress of flights"):
        read_progress(storage, state)


LOG = pa.schema(
    [
        ("_outcome", pa.string()),
        ("_source_partition", pa.string()),
        ("_epoch", pa.int64()),
        ("_progress", PROGRESS),
    ]
)


def jdbc_storage(root: Path) -> Storage:
    database = f"jdbc:sqlite:{root}/catalog.db"
    warehouse = {"path": str(root / "w"), "catalog": {"type": "jdbc", "uri": database}}
    return Project(root, "local", Environment.model_validate({"warehouse": warehouse})).storage


def test_a_jdbc_catalog_and_progress_that_compaction_moved(tmp_path: Path) -> None:
    storage = jdbc_storage(tmp_path)
    assert load_table(storage, "flights") is None  # not even the catalog's own tables exist
    assert list(owners_in(storage, "main")) == []
    properties = storage.pyiceberg_properties() | {"init_catalog_tables": "true"}
    catalog = SqlCatalog("tidegate", **properties)
    assert load_table(storage, "flights") is None
    catalog.create_namespace("main")
    assert list(owners_in(storage, "main")) == []
    catalog.create_table("main.nobody", LOG)
    owner = Owner("shop", "local")
    properties = {"tidegate.kind": "source", OWNER: owner.to_text()}
    table = catalog.create_table("main.flights", LOG, properties=properties)
    assert list(owners_in(storage, "main")) == [("flights", owner)]
    for epoch in (1, 2):
        rows = [progress_row("EWR", watermark=epoch * 10, next_offset=epoch) | {"_epoch": epoch}]
        rows.append({"_outcome": "on_time", "_source_partition": "EWR", "_epoch": epoch, "_progress": None})
        summary = {"tidegate.epoch": str(epoch), "tidegate.progress": f"{table.location()}/gone.parquet"}
        table.append(pa.Table.from_pylist(rows, LOG), snapshot_properties=summary)
    state = load_table(storage, "flights")
    assert state is not None
    assert (state.integer("tidegate.epoch"), state.properties["tidegate.kind"]) == (2, "source")
    assert [name for name, _ in state.columns] == LOG.names
    assert [(p.partition, p.watermark) for p in read_progress(storage, state)] == [("EWR", 20)]


def test_a_catalog_that_does_not_answer_is_named(tmp_path: Path) -> None:
    catalog = {"type": "rest", "uri": "http://127.0.0.1:9/", "properties": {"token": "visible"}}
    env = Environment.model_validate({"warehouse": {"catalog": catalog}})
    with pytest.raises(TidegateError, match="the rest catalog does not answer") as caught:
        load_table(Project(tmp_path, "local", env).storage, "flights")
    assert "visible" not in str(caught.value)
