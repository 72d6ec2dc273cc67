"""`--config FILE` as Kafka's tools have it; a password in it is never shown."""

from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from muster_coordinator.cli.client_properties import read_client_properties
from muster_coordinator.cli.exits import CliError
from muster_coordinator.cli.kafka_client import client_settings

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def read(folder: Path, *lines: str) -> dict[str, str]:
    path = folder / "client.properties"
    path.write_text("\n".join(lines))
    return read_client_properties(path)


@pytest.mark.parametrize("kind", [KafkaAdminClient, KafkaConsumer, KafkaProducer])
def test_a_login_reaches_every_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    monkeypatch.setenv("PASSWORD", "canary")
    found = read(
        tmp_path,
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-512",
        f'sasl.jaas.config={SCRAM} required username="alice" \\',
        '  password="${env:PASSWORD}";',
    )
    assert client_settings(found, kind.DEFAULT_CONFIG, "x") == {  # type: ignore[attr-defined]
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "canary",
    }


@pytest.mark.parametrize("kind", [KafkaAdminClient, KafkaConsumer, KafkaProducer])
def test_files_of_tls_reach_every_client(tmp_path: Path, kind: type) -> None:
    found = read(
        tmp_path,
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        "ssl.truststore.location=/etc/ca.pem",
        "ssl.keystore.type=pem",
        "ssl.keystore.location=/etc/me.pem",
        "ssl.key.password=canary",
        "ssl.endpoint.identification.algorithm=https",
    )
    assert client_settings(found, kind.DEFAULT_CONFIG, "x") == {  # type: ignore[attr-defined]
        "security_protocol": "SSL",
        "ssl_cafile": "/etc/ca.pem",
        "ssl_certfile": "/etc/me.pem",
        "ssl_password": "canary",
    }


def test_without_a_file_or_a_login_nothing_is_added(tmp_path: Path) -> None:
    assert read_client_properties(None) == {}
    assert read(tmp_path, "client.id=x") == {"client.id": "x"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["security.protocol=SASL_SSL"], "sasl.mechanism is needed"),
        (["sasl.mechanism=GSSAPI"], "sasl.mechanism=GSSAPI is none of"),
        (["sasl.mechanism=PLAIN", "sasl.jaas.config=canary"], "sasl.jaas.config: not a login module"),
        (["sasl.mechanism=PLAIN", f'sasl.jaas.config={SCRAM} required username="a" password="canary";'], "is not that"),
        ([f'sasl.jaas.config={PLAIN} required username="a" password="canary";'], "is not that"),
        (["sasl.mechanism=PLAIN", f'sasl.jaas.config={PLAIN} required username="a";'], "needs username and password"),
        (["sasl.mechanism=PLAIN", f'sasl.jaas.config={PLAIN} required password="canary";'], "needs username"),
        (["ssl.truststore.location=/etc/trust.jks"], "ssl.truststore.type=PEM"),
        (["ssl.keystore.type=PKCS12", "ssl.keystore.location=/etc/me.p12"], "ssl.keystore.type=PEM"),
        (["ssl.keystore.key=canary"], "ssl.keystore.key: write it to a file"),
        (["ssl.endpoint.identification.algorithm="], "is always verified"),
        (["a=${env:MUSTER_NOT_SET_ANYWHERE}"], "is not set"),
    ],
)
def test_what_cannot_be_used_is_said_without_a_secret(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(CliError) as caught:
        read(tmp_path, *lines)
    assert said in str(caught.value)
    assert "canary" not in str(caught.value)
