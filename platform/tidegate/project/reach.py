"""Whether connectors stay within what the environment allows (X1): variables, folders, endpoints, code."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.confidential import variables
from tidegate.project.environment import AllowSettings
from tidegate.sql.options.connectors import FilesystemOptions, ReplayOptions
from tidegate.sql.options.formats import LOCATION, PASSWORD, REGISTRY, USERNAME, Format
from tidegate.sql.options.kafka_options import BOOTSTRAP, KafkaOptions, KafkaSinkOptions
from tidegate.sql.options.option_types import ConnectorOptions, Problem
from tidegate.sql.options.sink_connectors import FilesystemSinkOptions

_WILDCARD = re.compile(r"[*?\[]")
_PARAMETERS = re.compile(r";[^/]*")
#: Into these variables are put, when a client is made.
_EXPANDED, _ACCESS = ("topic", "properties"), (REGISTRY, USERNAME, PASSWORD)
#: SQL, and what stands for NULL in a file: `${` is a text there.
_TEXTS = ("filter", "null_value")
_LIKE_VARIABLE = re.compile(r"\$\{[^}]*\}?")
_VARIABLE = re.compile(r"\$\{\w+\}")
#: Nothing that clients could read in different ways: no `#`, `?` or backslash before the path.
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+._-]*://)?(?:[^@/#?\\\s]*@)?(\[[0-9a-f:]+\]|\$\{\w+\}|[\w.-]+)(?::(\d+|\$\{\w+\}))?(?:/.*)?",
    re.IGNORECASE,
)
#: Of a broker: nothing but host and port, of which Kafka's client would take the last in a text with several.
_SERVER = re.compile(
    r"(?:[a-z][a-z0-9+._-]*://)?(\[[0-9a-f:]+\]|\$\{\w+\}|[\w.-]+)(?::(\d+|\$\{\w+\}))?", re.IGNORECASE
)
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|\[::1\]")
#: Properties of Kafka's client whose values are Java's classes or programs: they run in the process that reads.
_CODE = re.compile(r"(\.class|\.classes|\.reporters|\.strategy|\.providers|\.cmd)$|^config\.providers")
#: What Kafka itself brings for them. Not its providers of configuration: those read files and variables.
_KAFKA = (
    "org.apache.kafka.clients.",
    "org.apache.kafka.common.security.",
    "org.apache.kafka.common.metrics.",
)
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_VALUE = r"(?:\"[^\"\\]*\"|'[^'\\]*'|[^\s;\"'/\\]+)"
_MODULE = rf"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)((?:\s+\w+\s*=\s*{_VALUE})*)\s*;\s*"
_JAAS = re.compile(rf"(?:{_MODULE})+", re.IGNORECASE)
_JAAS_FILE = re.compile(r"(?:keytab|ticketcache|file)\s*=\s*[\"']?([^\"';\s]+)", re.IGNORECASE)
_STATE, _DATASETS = ".tidegate", ".tidegate/datasets"
#: What decides what runs, and is no data.
_DECIDING = ("assets", "jobs", "quality", "resources")


@dataclass(frozen=True)
class Endpoints:
    """Which addresses may be asked, for what runs in tasks: `listed`, in the environment's `file`."""

    listed: tuple[str, ...] = ()
    file: str = ""

    def covers(self, url: str) -> bool:
        """Whether an address, as a server gives it, is one of those."""
        found = _ADDRESS.fullmatch(url)
        host = found[1].lower() if found else ""
        return found is not None and any(_covers(entry, url, host, found[2]) for entry in self.listed)

    def hint(self, address: str) -> str:
        """Who can allow it, and how."""
        return _hint(self.file, "endpoints", f'["{address}"]')


class Reach:
    """What SQL of one project may reach in one environment. `file`: what the environment's file is called;
    `warehouse`: where its tables are."""

    def __init__(self, root: Path, file: str, allow: AllowSettings, warehouse: str | None = None) -> None:
        self._root, self._file, self._allow, self._warehouse = root, file, allow, warehouse

    def __call__(self, connector: ConnectorOptions, form: Format | None) -> Iterator[Problem]:
        """TG614 for each thing that is not allowed (`sql.connectors.Guard`)."""
        options = dict(form.options) if form is not None else {}
        yield from self._literal(connector, options)
        yield from self._format(options)
        if isinstance(connector, KafkaOptions | KafkaSinkOptions):
            options |= {"topic": connector.topic}
            options |= {f"properties.{name}": value for name, value in connector.properties.items()}
            yield from self._kafka(connector.properties)
        elif isinstance(connector, FilesystemOptions | ReplayOptions | FilesystemSinkOptions):
            yield from self._path(connector.path, isinstance(connector, FilesystemSinkOptions))
        for option, value in options.items():
            for name in variables(value):
                if name not in self._allow.variables:
                    what = f"SQL may not use the environment variable {name}"
                    yield self._refused(option, what, "variables", name)

    @property
    def endpoints(self) -> Endpoints:
        """Which addresses may be asked."""
        return Endpoints(tuple(self._allow.endpoints), self._file)

    def path(self, path: str) -> Iterator[Problem]:
        """TG614 for what a source may not read."""
        yield from self._path(path, False)

    def _refused(self, option: str, message: str, key: str, entry: str) -> Problem:
        value = entry if key == "python" else f'["{entry}"]'
        return Problem("TG614", option, f"{option}: {message}", _hint(self._file, key, value))

    def _literal(self, connector: ConnectorOptions, form: Mapping[str, str]) -> Iterator[Problem]:
        """What looks like a variable in an option into which none is put: it would be a part of a name."""
        own = connector.model_dump(by_alias=True, exclude={"connector", *_EXPANDED, *_TEXTS})
        for option, value in (own | {k: v for k, v in form.items() if k not in (*_ACCESS, *_TEXTS)}).items():
            found = next((m[0] for m in _LIKE_VARIABLE.finditer(str(value))), None)
            if found is not None:
                listed = ", ".join(self._allow.variables) or "none"
                hint = (
                    "write its value; variables can be used in topic, properties.*, and the address and login "
                    f"of a registry: those that {self._file} lists, allow: {{variables: […]}}, which are: {listed}"
                )
                message = f"{option}: {found} would be used literally, because this option takes no variables"
                yield Problem("TG614", option, message, hint)

    def _format(self, options: Mapping[str, str]) -> Iterator[Problem]:
        if REGISTRY in options:
            yield from self._endpoint(REGISTRY, options[REGISTRY])
        if LOCATION in options:
            yield from self._folder(LOCATION, options[LOCATION])

    def _kafka(self, properties: Mapping[str, str]) -> Iterator[Problem]:
        for name, value in properties.items():
            option, lowered = f"properties.{name}", name.lower()
            if lowered in BOOTSTRAP:
                for server in value.split(","):
                    yield from self._endpoint(option, server.strip(), _SERVER)
            elif lowered.endswith(".url"):
                yield from self._endpoint(option, value)
            elif lowered.endswith((".location", ".file")) and not _VARIABLE.fullmatch(value):
                yield from self._folder(option, value)
            elif lowered.endswith("jaas.config") and not _VARIABLE.fullmatch(value):
                yield from self._jaas(option, value)
            elif _CODE.search(lowered):
                for code in value.split(","):
                    # A word is the name of a strategy of Kafka's own; elsewhere it is a class or a program, too.
                    if code.strip() and ("." in code or not lowered.endswith(".strategy")):
                        yield from self._code(option, code.strip())

    def _jaas(self, option: str, value: str) -> Iterator[Problem]:
        if _JAAS.fullmatch(value) is None:
            hint = "'Module required name=\"value\" …;', with neither comments nor backslashes"
            yield Problem(
                "TG614", option, f"{option}: tidegate can't determine which code this line would run", hint
            )
            return
        for module, settings in re.findall(_MODULE, value, re.IGNORECASE):
            yield from self._code(option, module)
            for path in _JAAS_FILE.findall(settings):
                if not _VARIABLE.fullmatch(path):
                    yield from self._folder(option, path)

    def _code(self, option: str, name: str) -> Iterator[Problem]:
        known = (
            name.startswith(_KAFKA)
            or name == _KERBEROS
            or ("." not in name and option.endswith("jaas.config"))
        )
        if not known and not _VARIABLE.fullmatch(name) and name not in self._allow.code:
            yield self._refused(option, f"{name} would run inside tidegate's own process", "code", name)

    def _endpoint(self, option: str, written: str, shape: re.Pattern[str] = _ADDRESS) -> Iterator[Problem]:
        if written.lower().startswith("file:"):
            yield from self._folder(option, written)
            return
        found = shape.fullmatch(written)
        host, port = (found[1].lower(), found[2]) if found else (written, None)
        # The value of a listed variable comes from who operates tidegate.
        if found and (
            _VARIABLE.fullmatch(host) or any(_covers(e, written, host, port) for e in self._allow.endpoints)
        ):
            return
        shown = f"{host}:{port}" if port else host
        yield self._refused(option, f"SQL may not use the address {shown}", "endpoints", shown)

    def _path(self, path: str, writes: bool) -> Iterator[Problem]:
        if path.startswith("dataset:"):
            name, _, rest = path.removeprefix("dataset:").partition("/")
            if name in ("", ".", "..") or rest.startswith("/") or ".." in rest.split("/"):
                yield Problem(
                    "TG614",
                    "path",
                    f"path: {path} is outside the folder of its data set",
                    "dataset:NAME/FILE",
                )
            elif not self._allow.python:
                yield self._refused(
                    "path",
                    f"assets/{name}.py would have to run for it, but Python is not allowed",
                    "python",
                    "true",
                )
            return
        if not writes:
            path = _without_pattern(path)
        if writes and self._warehouse is not None and self._is_within(path, self._warehouse):
            message = f"path: {path} is in the warehouse, which has tables only"
            yield Problem("TG614", "path", message, "use another folder, or connector = 'iceberg'")
            return
        if (local := self._local(path)) is not None:
            for name in (_STATE, *_DECIDING) if writes else (_STATE,):
                folder = self._local(name)
                if folder in (local, *local.parents) and self._local(_DATASETS) not in (
                    local,
                    *local.parents,
                ):
                    yield Problem(
                        "TG614",
                        "path",
                        f"path: {name}/ of the project must not be used for data",
                        "use another folder",
                    )
                    return
        yield from self._folder("path", path)

    def _is_within(self, path: str, entry: str) -> bool:
        local, folder = self._local(path), self._local(entry)
        if local is None:
            return folder is None and f"{_plain(path)}/".startswith(f"{_plain(entry)}/")
        return folder in (local, *local.parents)

    def _folder(self, option: str, path: str) -> Iterator[Problem]:
        if any(self._is_within(path, entry) for entry in self._allow.folders):
            return
        yield self._refused(option, f"{path} is not in a folder that SQL may reach", "folders", path)

    def _local(self, path: str) -> Path | None:
        """A local path without links and `..`; None on an object store."""
        if "://" in path and not path.lower().startswith("file:"):
            return None
        local = "/" + path[5:].lstrip("/") if path.lower().startswith("file:") else path
        return Path(os.path.realpath(self._root / Path(local).expanduser()))


def _hint(file: str, key: str, value: str) -> str:
    return f"the operator of tidegate can allow it in {file}, allow: {{{key}: {value}}}"


def _without_pattern(path: str) -> str:
    """The folder that is listed for the path of a source. Elsewhere `*` and `[` are letters of a name."""
    wild = _WILDCARD.search(path)
    if wild is None or ".." in path[wild.start() :].split("/"):
        return path
    return path[: path.rfind("/", 0, wild.start()) + 1]


def _plain(uri: str) -> str:
    """`s3://bucket/a/../b` as `s3:/bucket/b`: whole parts are compared."""
    return os.path.normpath(uri)


def _readings(path: str) -> Iterator[str]:
    """How servers read the path of a URL: to some `%2e%2e`, `..\\` and `..;x` lead up as `..` does."""
    yield path
    while (decoded := unquote(path).replace("\\", "/")) != path:
        path = decoded
        yield path
    yield _PARAMETERS.sub("", path)


def _covers(entry: str, written: str, host: str, port: str | None) -> bool:
    """Whether an entry of `endpoints` covers an address."""
    entry = entry.lower()
    if "://" in entry:
        begins, given = urlsplit(entry), urlsplit(written)
        if (begins.scheme, begins.netloc) != (given.scheme.lower(), given.netloc.lower().rpartition("@")[2]):
            return False
        top = begins.path.rstrip("/") + "/"
        return all(f"{os.path.normpath(p or '/')}/".startswith(top) for p in _readings(given.path))
    listed = _ADDRESS.fullmatch(entry.removeprefix("*."))
    if listed is None or (listed[2] and listed[2] != port):
        return False
    if entry.startswith("*."):
        return host.endswith(f".{listed[1]}")
    return host == listed[1] or (listed[1] == "localhost" and _LOOPBACK.fullmatch(host) is not None)
