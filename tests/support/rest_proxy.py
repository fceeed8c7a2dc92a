"""In front of the REST catalogs of tests: logins that end, beside the failures of `faulty_http`.

Iceberg's adapter gives a token to everybody, and none of them ever ends.
"""

from __future__ import annotations

import json
import secrets
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from tests.support.faulty_http import Act, Answer, Asked, FaultyHttp, Forward, answer, serving

CLIENT = "tidegate-tests"
_TOKENS = "/v1/oauth/tokens"


def refuse(status: int, **headers: str) -> Act:
    """Answer as a catalog refuses, instead of the server, which does not hear of the request."""
    error = {"error": {"message": "as the test wants it", "type": "Refused", "code": status}}
    act = answer(status, json.dumps(error).encode(), "application/json")

    def refused(asked: Asked, forward: Forward) -> Answer | None:
        got = act(asked, forward)
        assert got is not None
        return replace(got, headers=(*got.headers, *((k.replace("_", "-"), v) for k, v in headers.items())))

    return refused


def after(act: Act) -> Act:
    """The server does what it was asked for, and then this happens."""

    def done(asked: Asked, forward: Forward) -> Answer | None:
        forward(asked)
        return act(asked, forward)

    return done


class RestProxy(FaultyHttp):
    """Serves `/<name>/…` by the catalog of that name. `lifetime_s`: what a token's life is said to be; it is honoured
    `leeway_s` longer, since a busy machine may come late to renew it. `secret`: what a client has to know."""

    def __init__(self, lifetime_s: int = 3600, leeway_s: float = 300.0) -> None:
        super().__init__("")
        self.lifetime_s, self.leeway_s, self.secret = lifetime_s, leeway_s, secrets.token_urlsafe(24)
        #: Each with its catalog, and when it ends.
        self._tokens: dict[str, tuple[str, float]] = {}
        self._catalogs: dict[str, FaultyHttp] = {}
        self._open = ExitStack()
        self._open.enter_context(serving(self))

    def close(self) -> None:
        self._open.close()

    def add(self, name: str, port: int) -> dict[str, Any]:
        """The `catalog:` of a project whose catalog listens on `port`, without its credential."""
        self._catalogs[name] = FaultyHttp(f"http://127.0.0.1:{port}")
        uri = f"{self.url}/{name}"
        return {"type": "rest", "uri": uri, "properties": {"oauth2-server-uri": uri + _TOKENS}}

    @property
    def credential(self) -> str:
        return f"{CLIENT}:{self.secret}"

    def next_commit(self, *acts: Act) -> None:
        """These happen to the next commits of tables, one each."""
        for act in acts:
            self.fail("POST", "/tables/", act)

    @property
    def waiting(self) -> int:
        """How many of them have not happened yet."""
        return sum((fault.times or 0) - fault.met for fault in self._faults)

    def tokens(self, name: str) -> list[str]:
        """Those that were given for a catalog, in their order."""
        return [token for token, (catalog, _) in self._tokens.items() if catalog == name]

    def revoke(self, tokens: list[str]) -> None:
        """These are good for nothing from now on."""
        with self._lock:
            self._tokens |= {token: (self._tokens[token][0], 0.0) for token in tokens}

    def react(self, asked: Asked) -> Answer | None:
        name, path = self._split(asked)
        if path.partition("?")[0] == _TOKENS:
            return self._login(name, asked)
        if not self._is_known(name, asked.headers.get("authorization", "")):
            return refuse(401)(asked, self._forward)
        # Iceberg's client tells how long a scan took, whenever it likes.
        return self._forward(asked) if path.endswith("/metrics") else super().react(asked)

    def _forward(self, asked: Asked) -> Answer:
        name, path = self._split(asked)
        return self._catalogs[name]._forward(replace(asked, target=path))

    @staticmethod
    def _split(asked: Asked) -> tuple[str, str]:
        name, _, path = asked.target.removeprefix("/").partition("/")
        return name, f"/{path}"

    def _is_known(self, name: str, authorization: str) -> bool:
        """Whether a request to a catalog has a token that is good now."""
        kind, _, token = authorization.partition(" ")
        catalog, end = self._tokens.get(token, ("", 0.0))
        return kind.lower() == "bearer" and catalog == name and end > time.monotonic()

    def _login(self, name: str, asked: Asked) -> Answer:
        """A token, by the client's secret or in exchange for one that is good."""
        form = {key: values[0] for key, values in parse_qs(asked.body.decode()).items()}
        exchanged = form.get("grant_type", "").endswith(":token-exchange")
        known = exchanged and self._is_known(name, f"Bearer {form.get('subject_token')}")
        json_kind = (("Content-Type", "application/json"),)
        if not known and (form.get("client_id"), form.get("client_secret")) != (CLIENT, self.secret):
            return Answer(401, json_kind, json.dumps({"error": "invalid_client"}).encode())
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens[token] = (name, time.monotonic() + self.lifetime_s + self.leeway_s)
        given = {
            "access_token": token,
            "token_type": "bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "expires_in": self.lifetime_s,
        }
        return Answer(200, json_kind, json.dumps(given).encode())
