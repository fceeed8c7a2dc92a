"""The client of kafka-python behind `Broker`: it says why it can't connect, and leaves nothing running then.

Imported where a broker is asked: the import takes half a second.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import AuthorizationError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

#: What does not get better by trying again.
_FINAL = (AuthorizationError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError)


class CanNotConnect(Exception):
    """No connection to any of the servers; `reason`: why the last try failed, None if that is not known."""

    def __init__(self, reason: Exception | None) -> None:
        super().__init__()
        self.reason = reason


class _Connections(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python ships no types
    """Keeps why a connection failed: its own start knows only that time is up."""

    failure: Exception | None = None

    def get_connection(self, *arguments: Any, **named: Any) -> KafkaConnection:
        if isinstance(self.failure, _FINAL):
            raise self.failure
        connection = super().get_connection(*arguments, **named)
        connection.init_future.add_errback(self._failed)
        return connection

    def _failed(self, error: Exception) -> None:
        # The last tries can be cut short by the end of the time; what was refused stays refused.
        if not isinstance(self.failure, _FINAL):
            self.failure = error


def open_client(servers: Sequence[str], settings: Mapping[str, Any], timeout_s: float) -> KafkaAdminClient:
    """A client that is connected. Raises CanNotConnect."""
    # Below this level it logs its settings and what it sends: passwords. What goes wrong is said by our errors.
    log = logging.getLogger("kafka")
    log.setLevel(max(log.getEffectiveLevel(), logging.CRITICAL))
    opened: list[tuple[KafkaNetClient, NetworkSelector, _Connections]] = []

    def connect(**named: Any) -> KafkaNetClient:
        selector = NetworkSelector(**named)
        connections = _Connections(selector, **named)
        client = KafkaNetClient(net=selector, manager=connections, **named)
        opened.append((client, selector, connections))
        return client

    timeout_ms = int(timeout_s * 1000)
    try:
        return KafkaAdminClient(
            bootstrap_servers=list(servers),
            client_id="tidegate",
            bootstrap_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            kafka_client=connect,
            **settings,
        )
    except Exception as error:
        reason: Exception | None = error if isinstance(error, ValueError) else None
        for client, selector, connections in opened:
            reason = connections.failure or reason
            client.close()
            selector.stop()
        raise CanNotConnect(reason) from None
