"""R2: small files that are there as a whole or not at all, whoever else writes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from tests.conftest import ROOT, Workbench
from tests.simulate.world.outside import Chooser, Outside
from tests.simulate.world.store import Handler, Store
from tidegate.project.object_store import make_folder, put_whole, whole_name
from tidegate.sinks.statefile import StateFile


class _Disk(Handler):
    """`between`: what happens before the first file is renamed."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.between = lambda: None

    def move(self, src: str, dest: str) -> None:
        between, self.between = self.between, lambda: None
        between()
        super().move(src, dest)


def test_R2_what_another_writer_has_half_written_is_not_renamed() -> None:
    """On a disk that two machines share, which do not see each other's leases."""
    from random import Random

    store = Store(Outside(1, Chooser(Random(1), ())), lambda path: "plan")
    disk = _Disk(store)
    files = pafs.PyFileSystem(disk)

    def break_off() -> None:
        whole = store.write
        store.write = lambda path, content: whole(path, content[:3])  # type: ignore[method-assign]
        with pytest.raises(OSError, match="full"):
            put_whole(_Full(files), "/shared/plan", b"of the second")  # type: ignore[arg-type]  # what is asked of it
        store.write = whole  # type: ignore[method-assign]

    disk.between = break_off
    put_whole(files, "/shared/plan", b"of the first")
    assert store.files["/shared/plan"] == b"of the first"
    (left,) = set(store.files) - {"/shared/plan"}
    assert (store.files[left], whole_name(left.rpartition("/")[2])) == (b"of ", "plan")


class _Full:
    """A disk on which nothing can be renamed any more."""

    def __init__(self, files: pafs.FileSystem) -> None:
        self._files = files

    def open_output_stream(self, path: str) -> pa.NativeFile:
        return self._files.open_output_stream(path)

    def move(self, source: str, target: str) -> None:
        raise OSError("the disk is full")


@pytest.mark.runner("inprocess")
def test_R2_what_a_writer_of_a_position_has_left_goes_with_the_next_writer(workbench: Workbench) -> None:
    folder = workbench.root / "out" / "_tidegate"
    folder.mkdir(parents=True)
    (folder / f".position.json.{'0' * 32}").write_text('{"a')
    (folder / f".other.json.{'0' * 32}").write_text('{"a')
    file = StateFile(workbench.session().project.storage, str(folder / "position.json"))
    file.write({"tick": 1})
    assert sorted(one.name for one in folder.iterdir()) == [f".other.json.{'0' * 32}", "position.json"]
    assert file.read() == {"tick": 1}


def test_folders_are_made_where_there_are_any_and_nowhere_else() -> None:
    """On S3 a folder would be an object of its own, which is none of a table's or a sink's."""
    package = ROOT / "platform" / "tidegate"
    makes = [file for file in package.rglob("*.py") if ".create_dir(" in file.read_text(encoding="utf-8")]
    assert [str(file.relative_to(package)) for file in makes] == ["project/object_store.py"]
    asked: list[str] = []
    for kind in ("s3", "local"):
        filesystem: Any = SimpleNamespace(
            type_name=kind, create_dir=lambda path, recursive: asked.append(path)
        )
        make_folder(filesystem, kind)
    assert asked == ["local"]
