"""How Java's Kafka client is told to prove who it is and to trust a broker, for kafka-python."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

from tidegate.errors import TidegateError
from tidegate.project.disk import temporary_space

_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
#: Names of classes: only Java can load them.
_CLASSES = (
    "sasl.login.class",
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "ssl.engine.factory.class",
    "ssl.provider",
    "security.providers",
)
_PEM = "PEM: ssl.{0}.type = 'PEM' and ssl.{0}.location, or {1}"
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")


class OnlyForJava(TidegateError):
    """TG621: what only Java's client can do."""


def client_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """The settings of access for a client of kafka-python that mean the same as Java's `properties`, expanded.

    Properties that say nothing about access are left out. Raises OnlyForJava, with what
    works instead, and TG621 for certificates that can't be read; never with a value that could be a secret.
    """
    for name in _CLASSES:
        if properties.get(name):
            raise _refuse(f"{name} names a Java class", "PLAIN or SCRAM by sasl.jaas.config, PEM for TLS")
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        hint = f"available: {', '.join(_PROTOCOLS)}"
        raise TidegateError("TG621", "properties.security.protocol is not a protocol of Kafka", hint=hint)
    settings: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        settings |= _sasl(properties)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = _context(properties)
    return settings


def _sasl(properties: Mapping[str, str]) -> dict[str, Any]:
    # GSSAPI is Java's default.
    mechanism = properties.get("sasl.mechanism", "GSSAPI").upper()
    instead = f"sasl.mechanism = {', '.join(_PASSWORD_MECHANISMS)}"
    if mechanism == "GSSAPI":
        raise _refuse("Kerberos (sasl.mechanism = GSSAPI) is configured by JAAS, in Java", instead)
    if mechanism not in _PASSWORD_MECHANISMS:
        raise _refuse("sasl.mechanism names no mechanism that takes a user name and a password", instead)
    text = properties.get("sasl.jaas.config", "")
    expected = ("Plain" if mechanism == "PLAIN" else "Scram") + "LoginModule"
    module = text.split(None, 1)[0].rpartition(".")[2] if text.split() else ""
    example = f'sasl.jaas.config = \'… {expected} required username="…" password="${{…}}";\''
    if module != expected:
        raise _refuse(f"sasl.jaas.config has no {expected}, which {mechanism} needs", example)
    given = {name: _unquoted(value) for name, value in _JAAS_OPTION.findall(text)}
    if given.get("tokenauth", "").lower() == "true":
        raise _refuse("sasl.jaas.config asks for a delegation token", example)
    if missing := [name for name in ("username", "password") if name not in given]:
        raise _refuse(f"sasl.jaas.config has no {' and no '.join(missing)}", example)
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": given["username"],
        "sasl_plain_password": given["password"],
    }


def _unquoted(value: str) -> str:
    if value[:1] in ('"', "'"):
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    enabled = properties.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").replace(" ", "").split(",")
    only_newest = enabled == ["TLSv1.3"]
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if only_newest else ssl.TLSVersion.TLSv1_2
    # An empty name is how Java turns it off; the certificate is verified all the same.
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != ""
    try:
        _trust(context, properties)
        _identify(context, properties)
    except (OSError, ValueError) as error:
        # OpenSSL's words and the system's have no values in them; other errors' may.
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        message = f"properties.ssl.*: the certificates or the key can't be read: {reason}"
        raise TidegateError("TG621", message, hint="files or text in PEM, and ssl.key.password") from None
    return context


def _trust(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    text = properties.get("ssl.truststore.certificates")
    location = properties.get("ssl.truststore.location")
    if (text or location) and properties.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise _refuse(
            "ssl.truststore.* is a Java key store", _PEM.format("truststore", "ssl.truststore.certificates")
        )
    if text:
        context.load_verify_locations(cadata=text)
    elif location:
        context.load_verify_locations(cafile=location)
    else:
        context.load_default_certs()


def _identify(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    chain, key = (properties.get(f"ssl.keystore.{name}") for name in ("certificate.chain", "key"))
    location = properties.get("ssl.keystore.location")
    if not (chain or key or location):
        return
    inline = "ssl.keystore.certificate.chain and ssl.keystore.key"
    if properties.get("ssl.keystore.type", "JKS").upper() != "PEM":
        raise _refuse("ssl.keystore.* is a Java key store", _PEM.format("keystore", inline))
    # Without a password OpenSSL would ask for one on the terminal.
    password = properties.get("ssl.key.password", "")
    if not (chain and key):
        if not location:
            raise _refuse("ssl.keystore.* has a key or a chain without the other", inline)
        context.load_cert_chain(location, password=password)
        return
    # Python's ssl reads keys from files only: for a moment, and for this user alone.
    handle, path = tempfile.mkstemp(suffix=".pem", dir=temporary_space())
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{key}\n{chain}\n")
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)


def _refuse(what: str, instead: str) -> OnlyForJava:
    message = f"{what}: tidegate reads offsets without a JVM, where this is not possible"
    return OnlyForJava("TG621", message, hint=f"use {instead}")
