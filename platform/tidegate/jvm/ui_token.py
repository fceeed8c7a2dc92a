"""Spark's own UI, which has no login: where somebody asks for it, it answers to a token alone (X4).

Spark's `JWSFilter` lets in requests whose header Authorization holds a signed JSON Web Token. The key is new in each
process, is a secret among the settings, and nobody else has it; the token is in a file of mode 0600.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from tidegate.masking import conceal

_FILTERS = "spark.ui.filters"
_FILTER = "org.apache.spark.ui.JWSFilter"
_KEY = f"spark.{_FILTER}.param.secretKey"


def guarded(settings: Mapping[str, str], file: Path | None) -> dict[str, str]:
    """What to add to the settings of a Spark that is to start: a filter, if its UI is on and has none. `file`: where
    the token is put. Without one the UI is off."""
    if settings.get("spark.ui.enabled") != "true" or settings.get(_FILTERS):
        return {}
    if file is None:
        return {"spark.ui.enabled": "false"}
    key = secrets.token_bytes(32)
    token = _signed(key)
    # Py4J logs at DEBUG what it sends to the JVM.
    conceal(_text(key), token)
    _write(file, token)
    return {_FILTERS: _FILTER, _KEY: _text(key)}


def _signed(key: bytes) -> str:
    """A JSON Web Token, as RFC 7515 has it: compact, HMAC with SHA-256."""
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": "tidegate"}]
    said = ".".join(_text(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
    return f"{said}.{_text(hmac.digest(key, said.encode(), hashlib.sha256))}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _write(path: Path, token: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(f"{token}\n")
