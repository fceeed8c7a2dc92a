"""The calls of the engine that reach the outside, by name: which of them go through a port, and which don't."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.conftest import ROOT

PACKAGE = ROOT / "platform" / "tidegate"
#: Rooms whose code runs in a batch, a tick, a delivery, upkeep, an amendment, an audit, or a live group.
ROOMS = (
    *(
        "amend",
        "audit",
        "evolve",
        "iceberg",
        "ingest",
        "jvm",
        "live",
        "maintenance",
        "plan",
        "project",
        "runtime",
    ),
    *("s3_files", "session", "sinks", "store", "tables", "tasks", "views", "watermark"),
)
#: What is called reaches the outside if it is this, or in this module.
_OUTSIDE = (
    *("open", "os", "shutil", "tempfile", "subprocess", "signal", "fcntl", "select", "mmap", "ctypes"),
    *(
        "socket",
        "http.client",
        "http.server",
        "urllib.request",
        "requests",
        "kafka",
        "boto3",
        "pyiceberg.catalog",
    ),
    *("sqlite3", "time", "random", "secrets", "uuid.uuid1", "uuid.uuid4", "numpy.random", "multiprocessing"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    *(
        "pyarrow.fs",
        "pyarrow.parquet",
        "pyarrow.csv",
        "pyarrow.json",
        "pyarrow.dataset",
        "pyarrow.memory_map",
    ),
    *("pyarrow.OSFile", "pyarrow.ipc.open_file", "pyarrow.input_stream", "pyarrow.output_stream"),
    "tidegate.jvm.java.java_class",
)
#: … but not if it is this: names and values, without a question to anybody.
_INSIDE = (
    *("os.path.join", "os.path.basename", "os.path.dirname", "os.path.normpath", "os.path.relpath"),
    *("os.fsdecode", "os.fsencode", "os.fspath", "os.environ", "os.pathsep", "os.getenv"),
    *("os.WIFSIGNALED", "os.WTERMSIG", "os.WIFEXITED", "os.WEXITSTATUS", "signal.Signals"),
    *("pyarrow.fs.FileSelector", "pyarrow.fs.FileInfo", "time.strftime", "time.gmtime"),
    *("kafka.TopicPartition", "kafka.errors", "urllib.request.Request", "pyarrow.csv.ConvertOptions"),
    *("pyarrow.csv.ParseOptions", "pyarrow.csv.ReadOptions", "pyarrow.json.ParseOptions"),
    "pyarrow.json.ReadOptions",
)
#: Methods of paths and of file systems that reach the outside, whatever they are called on.
_METHODS = {
    *("read_text", "write_text", "read_bytes", "write_bytes", "unlink", "mkdir", "rmdir", "touch", "iterdir"),
    *("glob", "rglob", "is_file", "is_dir", "is_symlink", "exists", "stat", "lstat", "samefile", "chmod"),
    *("rename", "symlink_to", "hardlink_to", "open", "scandir", "readlink", "expanduser"),
    *("open_input_stream", "open_input_file", "open_output_stream", "open_append_stream", "get_file_info"),
    *("delete_file", "delete_dir", "delete_dir_contents", "create_dir", "copy_file", "move", "copy_files"),
}
#: What these are called on is a port: Storage.filesystem, iceberg/tables.py; or no file: the definitions of a project.
_PORTS = ("filesystem", "_filesystem", "tables", "_tables", "catalog")
#: On these, Spark itself reads and writes.
_SPARKS = ("read", "readStream", "write", "writeStream", "writeTo")
_ASKED_OF_SPARK = (
    *("format", "schema", "option", "options", "table", "load", "parquet", "json", "csv", "text", "jdbc"),
    *("mode", "save", "saveAsTable", "insertInto", "queryName", "foreachBatch", "trigger", "start"),
)


def outside(room: str) -> Iterator[tuple[str, str]]:
    """The calls in the files of a room that reach the outside without a port, as (file, call)."""
    folder = PACKAGE / room
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]:
        for call in calls(path.read_text("utf-8")):
            yield path.relative_to(PACKAGE).as_posix(), call


def calls(text: str) -> set[str]:
    """Of one file."""
    tree = ast.parse(text)
    names = dict(_imported(tree))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _outside(node, names)) is not None:
            found.add(name)
        elif isinstance(node, ast.Attribute) and node.attr in ("_jvm", "_jsc", "_jdf"):
            found.add(node.attr)
    return found


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What names of the file are, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                first = one.name.partition(".")[0]
                yield one.asname or first, one.name if one.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def _outside(call: ast.Call, names: dict[str, str]) -> str | None:
    """The full name of a call that reaches the outside without a port; None for any other."""
    chain = _chain(call.func)
    full = ".".join((names.get(chain[0], chain[0]), *chain[1:]))
    known = chain[0] in names or full == "open"
    if known and any(_is_in(full, one) for one in _OUTSIDE):
        is_inside = any(_is_in(full, one) for one in _INSIDE)
        through = any(keyword.arg == "filesystem" for keyword in call.keywords)
        return None if is_inside or through else full
    on, method = chain[-2] if len(chain) > 1 else "", chain[-1]
    if (on in _SPARKS and method in _ASKED_OF_SPARK) or method == "writeTo":
        return f"….{on}.{method}" if on in _SPARKS else f"….{method}"
    if (
        len(chain) == 1
        or on in _PORTS
        or chain[:-1] == ["self"]
        or names.get(chain[0], "").startswith("pyspark.")
    ):
        return None
    # A text is replaced by two texts, a path by one path; a name is resolved among others, a path by itself.
    by_arguments = {"replace": len(call.args) == 1 and not call.keywords, "resolve": not call.args}
    if by_arguments.get(method, method in _METHODS):
        return f"….{method}"
    return None


def _is_in(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def _chain(node: ast.expr) -> list[str]:
    """`a.b.c` as ["a", "b", "c"]; "" where it begins with something else, as with a call."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [*_chain(node.value), node.attr]
    return [""]
