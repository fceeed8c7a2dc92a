"""HTTP to a schema registry: answers are bounded in bytes and in time, a login is for one host only, and redirects lead
to addresses that the operator lists (X1)."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.parse import SplitResult, urlsplit

#: No registry keeps a schema as large as that: its own messages are of 1 MB at most.
LARGEST = 4 << 20
_CHUNK = 1 << 16
_TIMEOUT = 10.0
_LONGEST = 30.0


class NoAnswer(Exception):
    """What the registry does instead of answering. `again`: another try may go better. No value of the login is in
    it, nor the address, which may hold one."""

    def __init__(self, problem: str, again: bool) -> None:
        super().__init__(problem)
        self.problem, self.again = problem, again


class Elsewhere(Exception):
    """A redirect to an address that must not be asked. `address`: its host and port, of which no login is a part."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


class TooLarge(Exception):
    """More bytes than any schema has."""


def read_json(url: str, login: tuple[str, str] | None, follows: Callable[[str], bool]) -> tuple[Any, int]:
    """The answer to a GET and its size in bytes; (None, 0) for 404. `follows`: whether a redirect to an address is
    followed. Raises NoAnswer, Elsewhere, TooLarge."""
    request = urllib.request.Request(url, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
    if login is not None:
        encoded = base64.b64encode(":".join(login).encode()).decode("ascii")
        # Not among the headers that go along with every redirect: see `_Redirects`.
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    try:
        with _opener(follows).open(request, timeout=_TIMEOUT) as answer:
            body = _bounded(answer)
            return json.loads(body), len(body)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            return None, 0
        raise NoAnswer(f"answers {error.code}", error.code >= 500) from None
    except (OSError, ValueError, RecursionError, HTTPException) as error:
        # Not `error` itself: it may quote the address.
        kind = type(getattr(error, "reason", error)).__name__
        raise NoAnswer(f"does not answer ({kind})", True) from None


def _bounded(answer: Any) -> bytes:
    """All of it, unless it is too large, or comes a byte at a time."""
    until, parts, size = time.monotonic() + _LONGEST, [], 0
    while part := answer.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise TooLarge
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(parts)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Followed, over HTTP only, to what `follows` lets through; the login goes along where scheme, host and port stay
    the same."""

    max_redirections = 3

    def __init__(self, follows: Callable[[str], bool]) -> None:
        self._follows = follows

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """The request that comes next."""
        target, asked = urlsplit(newurl), urlsplit(req.full_url)
        if target.scheme not in ("http", "https"):
            fp.close()
            raise urllib.error.URLError("redirect")
        if not self._follows(newurl):
            fp.close()
            raise Elsewhere(target.netloc.rpartition("@")[2])
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        login = req.unredirected_hdrs.get("Authorization")
        if following is not None and login is not None and _origin(target) == _origin(asked):
            following.add_unredirected_header("Authorization", login)
        return following


def is_same_server(asked: str, target: str) -> bool:
    """Whether two addresses are of one server, but for HTTPS that the second one may have instead of HTTP."""
    first, second = urlsplit(asked), urlsplit(target)
    upgraded = _origin(first._replace(scheme="https")) if first.port is None else None
    return _origin(second) in (_origin(first), upgraded)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _opener(follows: Callable[[str], bool]) -> urllib.request.OpenerDirector:
    """Of urllib's handlers those for HTTP: by default it also opens files, FTP and data."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
        _Redirects(follows),
    ):
        opener.add_handler(handler)
    return opener
