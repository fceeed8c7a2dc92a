"""Which names are no files of a source: those of files that are being written, and of what was left behind."""

from __future__ import annotations

from pathlib import Path

from tidegate.ingest.sources.files import list_files
from tidegate.project import Project

#: Those of files that are input.
NAMES = ["1.json", "day=1/2.json", "a.b.c", "tmp", "part-0", "x.partial.json"]
NAMES += [
    "x.new",
    "x.old",
    "x.tmp.json",
    "x.tmp.parquet",
    "x.tmp.20260101",
    "x.md5.json",
    "4913/1.json",
    "x4913",
]
NAMES += ["a~b", "saved", "x.tmp.gzip/1.json", "x.lock.d/1.json", "x.json.gz", "bak", "part.gz"]
#: Those of files that are being written, or were left behind.
LEFTOVERS = [
    "v.tmp",
    "x.TMP",
    "x~",
    "x.part",
    "x.json.crdownload",
    "x.swp",
    "x.bak",
    "x._COPYING_",
    "#x#",
    "data.json#",
    "x.part.gz",
    "x~.zst",
    "x.tmp/1.json",
    "x.tmp.AbC123",
    "tmp.x9Yz0aB1cD",
    "a/tmp.x9Yz0aB1cD/1.json",
    "~x",
    "~$x.csv",
    "~w/1.json",
    "4913",
    "a/desktop.ini",
    "Thumbs.db",
    "x.new~",
]
ENDINGS = "swx swo orig rej save lck lock crc md5 aria2 crdownload partial pending"
LEFTOVERS += [
    name
    for ending in ENDINGS.split()
    for name in (f"y.{ending}", f"y.json.{ending}.bz2", f"z.{ending}/1.json")
]
HIDDEN = [".x", "_x", "_SUCCESS", ".x.json.swp", "_t/1.json", "a/.b/1.json", ".x.json.crc"]


def test_what_is_being_written_or_was_left_by_an_editor_is_no_input(tmp_path: Path) -> None:
    for name in (*NAMES, *LEFTOVERS, *HIDDEN):
        path = tmp_path / "input" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "assets").mkdir()
    project = Project.load(tmp_path)

    def listed(path: str, known: tuple[str, ...] = ()) -> list[str]:
        return [f.path for f in list_files(project, "s", path, known)]

    assert listed("input") == sorted(NAMES)
    # Whoever names one, or has read it, gets it.
    assert listed("input/v.tmp") == ["v.tmp"]
    assert listed("input/_x") == ["_x"]
    assert listed("input/*.tmp") == ["v.tmp"]
    assert listed("input/*.tmp.*") == [
        "x.tmp.20260101",
        "x.tmp.AbC123",
        "x.tmp.gzip/1.json",
        "x.tmp.json",
        "x.tmp.parquet",
    ]
    assert listed("input/*.tmp/*") == ["x.tmp/1.json"]
    assert listed("input/x.tmp") == ["1.json"]
    assert listed("input/*") == sorted(NAMES)
    assert "x.part" in listed("input", ("x.part",))
