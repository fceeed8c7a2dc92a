"""How a client proves to a broker who it is: SASL with a user name and a password. Executor side."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable

from tidegate.tasks.reading import NeedsJava

#: Sends a message of the mechanism, and gives the broker's answer.
Exchange = Callable[[bytes], bytes]

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: What RFC 7677 calls the least; a broker that asks for fewer is not one.
_LEAST_ROUNDS, _MOST_ROUNDS = 4096, 10_000_000


def log_in(mechanism: str, user: str, password: str, exchange: Exchange) -> None:
    """Raises NeedsJava if the broker does not know the password itself, or says nothing that belongs here."""
    if mechanism == "PLAIN":
        exchange(f"\0{user}\0{password}".encode())
        return
    _scram(_HASHES[mechanism], user, password.encode(), exchange)


def _scram(name: str, user: str, password: bytes, exchange: Exchange) -> None:
    """RFC 5802, without a channel binding."""
    own = base64.b64encode(secrets.token_bytes(24)).decode()
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={own}"
    answer = exchange(f"n,,{first}".encode()).decode()
    said = _parts(answer)
    nonce, salt, rounds = said.get("r", ""), said.get("s", ""), said.get("i", "")
    if not nonce.startswith(own) or not rounds.isdigit():
        raise NeedsJava("a broker whose answer to the login can't be read")
    if not _LEAST_ROUNDS <= int(rounds) <= _MOST_ROUNDS:
        raise NeedsJava("a broker that asks for a strange number of rounds")
    salted = hashlib.pbkdf2_hmac(name, password, base64.b64decode(salt), int(rounds))
    last = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
    signed = ",".join((first, answer, last)).encode()
    key = hmac.digest(salted, b"Client Key", name)
    proof = _xor(key, hmac.digest(hashlib.new(name, key).digest(), signed, name))
    said = _parts(exchange(f"{last},p={base64.b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    if not hmac.compare_digest(base64.b64decode(said.get("v", "")), expected):
        raise NeedsJava("a broker that does not know the password itself")


def _parts(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))
