"""Which new files were read under another name: files that were renamed, or compressed or decompressed in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.ingest.sources.files import paths_of
from tidegate.tasks.decode.opening import compressed, without_suffix
from tidegate.tasks.parquet.footers import EDGE, unpacked_content

if TYPE_CHECKING:
    from tidegate.iceberg.progress import ConsumedFile
    from tidegate.ingest.sources.files import InputFile
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation
    from tidegate.tasks.parquet.footers import FileLook

_WRITE_AGAIN = (
    "if it holds other rows, write them again so that the size, the beginning or the end differs (in a JSON or CSV "
    "file that is not compressed, an empty line at the end is enough)"
)
_RENAME = "if it holds other rows, give it a name that differs in more than the ending of a compressed file"


@dataclass(frozen=True)
class Before:
    """The file that a new one is taken for. `likeness`: what both have in common, as far as it is known; the path of
    the file that was read follows it. `exists`: whether there is a file at that path. `remedy`: how the new one is read
    after all."""

    path: str
    likeness: str
    exists: bool
    remedy: str


class Unpacked:
    """What the edges of a compressed file are when it is decompressed, if it has a certain size then. Each file is
    decompressed once, though a folder is listed again and again."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._found: dict[tuple[tuple[str, int, int], int], str | None] = {}

    def __call__(self, file: InputFile, size: int) -> str | None:
        key = file.facts, size
        if key not in self._found:
            filesystem, (path,) = paths_of(self._project, [file.uri])
            self._found[key] = unpacked_content(filesystem, path, size)
        return self._found[key]


class ReadFiles:
    """The files that were read and are not where they were read: their paths do not exist, or hold something else.

    `unpacked`: None for a source whose files are not decompressed by their names (Parquet).
    """

    def __init__(
        self,
        known: Mapping[str, ConsumedFile],
        listed: Iterable[InputFile],
        looks: Mapping[tuple[str, int, int], FileLook],
        unpacked: Unpacked | None,
    ) -> None:
        self._there = {f.path: f for f in listed}
        self._unpacked = unpacked
        self._by_content: dict[tuple[int, str], ConsumedFile] = {}
        self._by_name: dict[str, list[ConsumedFile]] = {}
        self._plain: dict[int, list[ConsumedFile]] = {}
        for read in known.values():
            if read.size and self._is_elsewhere(read, looks):
                self._by_content[as_content(read.size, read.content, read.modified)] = read
                if unpacked is not None:
                    self._by_name.setdefault(without_suffix(read.path), []).append(read)
                    if not compressed(read.path):
                        self._plain.setdefault(read.size % 2**32, []).append(read)

    def before(self, file: InputFile, look: FileLook) -> Before | None:
        """What a new file was read as, if that is so for certain, or may be so and can't be found out."""
        if not file.size:
            return None
        read = self._by_content.get(as_content(file.size, look.content))
        if read is not None:
            whole = file.size <= 2 * EDGE
            likeness = "has the content of" if whole else "has the same size, beginning and end as"
            return self._of(read, likeness, _WRITE_AGAIN)
        read = self._by_content.get(as_content(file.size, None, file.modified))
        if read is not None:
            return self._of(read, "has the same size and time as", _WRITE_AGAIN)
        return self._repacked(file, look)

    def _of(self, read: ConsumedFile, likeness: str, remedy: str) -> Before:
        return Before(read.path, likeness, read.path in self._there, remedy)

    def _repacked(self, file: InputFile, look: FileLook) -> Before | None:
        """What a new file was read as with another compression, if it may be the same."""
        named = [read for read in self._by_name.get(without_suffix(file.path), ()) if read.path != file.path]
        # Whatever it is called: a log that is rotated is renamed and compressed.
        sized = self._plain.get(look.unpacked, []) if look.unpacked is not None else []
        for read in (*named, *sized):
            if compressed(read.path):
                # What was in it is not remembered, and can't be compared.
                return self._of(read, "has, apart from the ending of a compressed file, the name of", _RENAME)
            assert self._unpacked is not None
            content = self._unpacked(file, read.size)
            if content is not None and read.content is None and read in named:
                return self._of(read, "holds, when it is decompressed, as many bytes as", _RENAME)
            if content is not None and read.content is not None and _edges(content) == _edges(read.content):
                whole = "holds, when it is decompressed, the content of"
                edges = "has, when it is decompressed, the same size, beginning and end as"
                return self._of(read, whole if read.size <= 2 * EDGE else edges, _WRITE_AGAIN)
        return None

    def _is_elsewhere(self, read: ConsumedFile, looks: Mapping[tuple[str, int, int], FileLook]) -> bool:
        file = self._there.get(read.path)
        if file is None or file.size != read.size:
            return True
        if read.content is None:
            return read.modified != file.modified
        # What has the same time was not looked at.
        look = looks.get(file.facts)
        return look is not None and (look.content is None or _edges(look.content) != _edges(read.content))


def moved(relation: Relation, before: Before, now: InputFile) -> TidegateError:
    """The error for a file that was read under another name."""
    what = "holds other rows now" if before.exists else "no longer exists"
    return TidegateError(
        "TG517",
        f'source "{relation.name}": the file {now.path} {before.likeness} {before.path}, which was read and {what}: '
        f"{now.path} is taken for the file that was read, and is not read again",
        hint=f"move it back to its first name, or out of the source's folder; {before.remedy}",
        location=relation.location,
    )


def as_content(size: int, content: str | None, modified: int = 0) -> tuple[int, str]:
    """What a file is known by under any name: what its edges hold, or its time, which a rename keeps, where an earlier
    version did not look at those."""
    return size, _edges(content) if content is not None else f"at {modified}"


def _edges(content: str) -> str:
    return content.partition("/")[0]
