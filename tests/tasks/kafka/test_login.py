"""Tasks prove who they are, and who the broker is, to a real broker: PLAIN and SCRAM, with TLS and without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from infra.kafka.broker import HOST, LocalBroker, free_port
from infra.kafka.topics import Topics, producer, send
from tests.store.test_broker import CERTIFICATE, KEY, PLAIN, SCRAM
from tidegate.tasks.kafka.cluster import TopicAccess
from tidegate.tasks.kafka.reader import messages
from tidegate.tasks.reading import NeedsJava

#: Each takes the start of a broker of its own.
pytestmark = pytest.mark.long_run

LISTENERS = {"LOGIN": "SASL_PLAINTEXT", "SECURE": "SASL_SSL", "TLS": "SSL"}
TRUST = {
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": CERTIFICATE,
    "ssl.endpoint.identification.algorithm": "",
}
PASSWORD = "p,a=ss"


class SecureBroker(LocalBroker):
    """With a listener for each way of access beside the usual one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ports: dict[str, int] = {}

    def _launch(self, java: list[str], port: int, with_parent: bool) -> None:
        text = self._settings.read_text()
        for name in LISTENERS:
            self.ports[name] = free_port()
        listeners = [f"{name}://{HOST}:{at}" for name, at in self.ports.items()]
        given = dict(line.split("=", 1) for line in text.splitlines())
        pem = {"keystore.certificate.chain": CERTIFICATE, "keystore.key": KEY}
        added = {
            "listeners": ",".join([given["listeners"], *listeners]),
            "advertised.listeners": ",".join([given["advertised.listeners"], *listeners]),
            "listener.security.protocol.map": ",".join(
                [given["listener.security.protocol.map"], *(f"{n}:{p}" for n, p in LISTENERS.items())]
            ),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.type": "PEM",
        } | {f"ssl.{name}": value.replace("\n", "\\n") for name, value in pem.items()}
        for name in ("login", "secure"):
            added[f"listener.name.{name}.plain.sasl.jaas.config"] = f'{PLAIN} user_ann="{PASSWORD}";'
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                added[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = f"{SCRAM};"
        lines = [f"{name}={value}" for name, value in (given | added).items()]
        self._settings.write_text("\n".join(lines) + "\n")
        super()._launch(java, port, with_parent)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    broker = SecureBroker(tmp_path_factory.mktemp("secure"))
    port = free_port()
    try:
        broker.start(port, timeout_s=180, with_parent=True)
        with Topics(f"{HOST}:{port}") as topics:
            topics.create("t", 2)
        made = producer(f"{HOST}:{port}")
        send(made, "t", [(n % 2, None, f"{n}", 1_000) for n in range(20)])
        made.close()
        admin: Any = KafkaAdminClient(bootstrap_servers=f"{HOST}:{port}")
        add_users(admin)
        admin.close()
        yield broker
    finally:
        broker.kill()


def add_users(admin: Any) -> None:
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        user = UserScramCredentialUpsertion("b=ob,1", mechanism, PASSWORD.encode())
        assert admin.alter_user_scram_credentials([user]) == {"b=ob,1": None}


def jaas(module: str, user: str, password: str = PASSWORD) -> str:
    return f'{module} username="{user}" password="{password}";'


def read(broker: SecureBroker, listener: str, **properties: str) -> int:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    given["security.protocol"] = LISTENERS[listener]
    if listener != "LOGIN":
        given |= TRUST
    access = TopicAccess("t", (f"{HOST}:{broker.ports[listener]}",), False, tuple(given.items()))
    return sum(batch.num_rows for batch in messages(access, [(0, 0, 10), (1, 0, 10)]))


@pytest.mark.parametrize("listener", ["LOGIN", "SECURE"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_reads_and_nobody_else(secure: SecureBroker, listener: str, mechanism: str) -> None:
    module, user = (PLAIN, "ann") if mechanism == "PLAIN" else (SCRAM, "b=ob,1")
    assert read(secure, listener, sasl_mechanism=mechanism, sasl_jaas_config=jaas(module, user)) == 20
    for someone, password in ((user, "wrong"), ("nobody", PASSWORD)):
        with pytest.raises(NeedsJava, match="refuses the login") as refused:
            read(secure, listener, sasl_mechanism=mechanism, sasl_jaas_config=jaas(module, someone, password))
        assert password not in str(refused.value)


def test_tls_reads_and_trusts_nobody_else(secure: SecureBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.tasks.kafka.reader._PATIENCE_S", 0.2)
    assert read(secure, "TLS") == 20
    access = TopicAccess("t", (f"{HOST}:{secure.ports['TLS']}",), False, (("security.protocol", "SSL"),))
    with pytest.raises(NeedsJava, match="does not answer"):
        list(messages(access, [(0, 0, 10)]))
