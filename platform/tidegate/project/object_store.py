"""S3 through pyarrow: one client for the same settings, files that are whole or not there, and what the store refuses
as errors that say what to do."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.masking import masked

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_KEPT = (
    "what was committed is kept, and nothing is half done: when this is repaired, run the same command again"
)
_EXPIRED = (
    "refuses temporary credentials, because they have expired",
    "set new ones and start again; without keys in warehouse.storage, Amazon's default chain renews them by itself "
    f"(docs/cluster.md, Temporary credentials); {_KEPT}",
)
_REFUSED = (
    "refuses the credentials, or they do not permit this",
    "check the keys and the region of warehouse.storage, the variables that it names, and the policies of the bucket "
    f"and of its KMS key; {_KEPT}",
)
_ELSEWHERE = (
    "has this bucket in another region",
    f"set warehouse.storage.region to the region of the bucket; {_KEPT}",
)
_UNKNOWN_HOST = (
    "is not found under its name",
    "check warehouse.storage.endpoint; a server whose buckets have no host names of their own, such as MinIO, needs "
    f"path_style: true; {_KEPT}",
)
_NO_BUCKET = (
    "has no such bucket",
    f"create it, or change warehouse.path; {_KEPT}",
)
_FAILED = (
    "does not answer, or answers with an error",
    f"its own page or log says why; requests were repeated before this was reported; {_KEPT}",
)
#: In the words of pyarrow, of Amazon's SDK for Java, of Iceberg and of Hadoop; only where S3 is the one who speaks.
_OF_S3 = re.compile(r"AWS Error |software\.amazon\.awssdk|S3Exception|\(Service: S3\b|fs\.s3a\b")
#: A place there says as much, unless a REST catalog refuses what it was asked about that place.
_ON_S3 = re.compile(r"s3a?://")
_OF_CATALOG = re.compile(r"\b(?:Forbidden|NotAuthorized)Exception: ")
_BY_WORDS = (
    (
        re.compile(
            r"ExpiredToken|token has expired|TokenRefreshRequired|token (?:is|included) .{0,40}expired"
        ),
        _EXPIRED,
    ),
    (
        re.compile(
            r"HTTP status 301\b|Status Code: 301\b|PermanentRedirect|must be addressed using the specified endpoint"
            r"|AuthorizationHeaderMalformed|the region '[^']*' is wrong"
        ),
        _ELSEWHERE,
    ),
    # A HEAD has no body that could say why.
    (
        re.compile(
            r"HTTP status 40[03]\b|Status Code: 40[03]\b|ACCESS_DENIED|AccessDenied|Forbidden|INVALID_ACCESS_KEY_ID"
            r"|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|InvalidToken|INVALID_CLIENT_TOKEN"
            r"|Unable to load credentials|NoAuthWithAWS|NoAwsCredentials"
        ),
        _REFUSED,
    ),
    (re.compile(r"NO_SUCH_BUCKET|NoSuchBucket"), _NO_BUCKET),
    (re.compile(r"curlCode: 6\b|UnknownHostException"), _UNKNOWN_HOST),
    (
        re.compile(
            r"AWS Error |S3Exception|SdkClientException|Status Code: 5\d\d|SlowDown|AWSServiceThrottled|AWSClientIO"
            r"|AWSStatus500|AWSBadRequest|Unable to execute HTTP request"
        ),
        _FAILED,
    ),
)
#: What stands before the message in a stack trace.
_EXCEPTION = re.compile(r"^(?:[\w.]+(?:Exception|Error): )+")


def store_refuses(text: str) -> tuple[str, str, str] | None:
    """What is wrong, the store's words, and what to do, if an error's text is an object store's; None for any other."""
    found = _OF_S3.search(text) or (None if _OF_CATALOG.search(text) else _ON_S3.search(text))
    if found is None:
        return None
    said = next((what for pattern, what in _BY_WORDS if pattern.search(text)), None)
    if said is None:
        return None
    start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.start())
    # Of a Spark job's text, the line in which the store speaks.
    detail = masked(text[start : None if end < 0 else end]).strip()
    return said[0], _EXCEPTION.sub("", detail), said[1]


class ConditionalPut(Protocol):
    """Writes that a store refuses if somebody has written the same file since: what pyarrow does not offer."""

    def __call__(self, path: str, content: bytes, version: str | None) -> str | None:
        """Put a file (`bucket/key`) in the place of `version` of it (None: of none); the new version, or None if
        another one is there. What it has stored itself, though the answer was lost, is its own: no two contents are the
        same."""


@lru_cache(maxsize=16)
def s3_filesystem(**options: object) -> FileSystem:
    """pyarrow's client. It is made once in a process: a new one asks who gives credentials again, and the server twice
    for its kind, and credentials that expire are renewed by it. A small file is one request, and not three."""
    from tidegate.s3_files import S3Files

    return S3Files(**options, allow_delayed_open=True)


def is_object_store(filesystem: FileSystem) -> bool:
    """Whether files appear there when they are closed, whole, and can't be renamed."""
    return getattr(filesystem, "type_name", None) == "s3"


def make_folder(filesystem: FileSystem, path: str) -> None:
    """The folder, with those above it; object storage has none."""
    if not is_object_store(filesystem):
        filesystem.create_dir(path, recursive=True)


def read_whole(filesystem: FileSystem, path: str) -> bytes:
    """All bytes of a small file."""
    with filesystem.open_input_stream(path) as stream:
        return bytes(stream.read())


def read_json(filesystem: FileSystem, path: str) -> Any:
    """The JSON document in a small file. On S3 it may be written while it is read: then pyarrow gets as many bytes of
    the new one as the old one had, and the beginning of a document is none."""
    for seconds in (0.1, 0.4, 1.6) if is_object_store(filesystem) else ():
        try:
            return json.loads(read_whole(filesystem, path))
        except ValueError:
            time.sleep(seconds)
    return json.loads(read_whole(filesystem, path))


def version_of(filesystem: FileSystem, path: str) -> str | None:
    """The version of a file on S3, for a `ConditionalPut`; None if it is not there."""
    try:
        with filesystem.open_input_file(path) as file:
            return bytes(file.metadata()["ETag"]).decode()
    except FileNotFoundError:
        return None


#: What a file is called until it is whole (`put_whole`).
_ASIDE = re.compile(r"\.(.+)\.[0-9a-f]{32}")


def whole_name(name: str) -> str | None:
    """Of a file that a writer which broke off has left beside the one that it was to be: that one's name; else None."""
    found = _ASIDE.fullmatch(name)
    return None if found is None else found[1]


def put_whole(filesystem: FileSystem, path: str, content: bytes) -> None:
    """Write a file that is the old one (or not there) or the new one, whenever the process is killed: on a disk beside
    it, under a name of its own, and renamed; in object storage by a single request, for which nothing has to be
    renamed. (A name that another machine's writer has, too, would be renamed when that one has written half of it.)"""
    if not is_object_store(filesystem):
        folder, _, name = path.rpartition("/")
        aside = f"{folder}/.{name}.{uuid.uuid4().hex}"
        with filesystem.open_output_stream(aside) as stream:
            stream.write(content)
        filesystem.move(aside, path)
        return
    # In a thread of its own, which no signal interrupts: a stream that is left before it has got its content would be
    # closed, and an empty file be in the place of the old one.
    failed: list[BaseException] = []

    def put() -> None:
        try:
            stream = filesystem.open_output_stream(path)
            stream.write(content)
            stream.close()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
