"""The Secret of a User: its credentials, and client settings that can be used as they are.

| key | |
|---|---|
| `username`, `password` | what `authentication.secret` of a ConsumerGroup, and of other clients, wants |
| `bootstrap.servers`, `security.protocol`, `sasl.mechanism` | each on its own, for environment variables |
| `ca.crt` | the trusted authorities in PEM, if the spec has `tls.caSecret` |
| `truststore.p12`, `truststore.password` | the same as a PKCS#12 store that Java loads |
| `client.properties` | Java's clients and tools: the trust is part of the file, so it needs no other |
| `librdkafka.properties` | librdkafka's names; `ca.crt` is expected in `/etc/muster/client` |
| `python.json` | keyword arguments of kafka-python, likewise |

Of a user that shows a certificate, instead of password and mechanism:

| key | |
|---|---|
| `tls.crt`, `tls.key` | certificate and key in PEM, as `authentication.secret` of a ConsumerGroup wants them |
| `keystore.p12`, `keystore.password` | the same as a PKCS#12 store that Java loads |

A ConsumerGroup mounts the whole Secret at `/etc/muster/client`. The values are made here and in no plan: the plan has
`ClientSettings`, without a password, and a hash of them by which it sees that the Secret is to be written anew.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Final

from muster_operator.api.client_access import CERTIFICATE_KEY, PRIVATE_KEY_KEY

KEYSTORE: Final = "keystore.p12"
FOLDER: Final = "/etc/muster/client"
TRUSTSTORE: Final = "truststore.p12"
TRUSTSTORE_PASSWORD: Final = "changeit"
"""Of both stores: certificates are public, and the key is beside its store."""
_FORM: Final = 1
"""Of what is written below: another one makes every Secret anew, with the password that it has."""
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What a user's client needs besides its password."""

    bootstrap: str
    protocol: str
    """Kafka's `security.protocol`."""
    mechanism: str
    username: str
    authorities: str
    """PEM; "": public ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCertificate:
    """Of a user, in PEM, and as PKCS#12."""

    certificate: str
    key: str = field(repr=False)
    keystore: bytes = field(repr=False)


def settings_hash(settings: ClientSettings, password_version: str) -> str:
    """`password_version`: of the user's own password Secret; "" for a password that the operator has made up."""
    told = json.dumps([_FORM, asdict(settings), password_version], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def data(
    settings: ClientSettings, password: str, truststore: bytes, own: OwnCertificate | None = None
) -> dict[str, bytes]:
    """The whole content. `truststore`: PKCS#12 of `authorities`, b"" without them. With a certificate of its `own` the
    user has no password."""
    found = {
        "username": settings.username,
        "bootstrap.servers": settings.bootstrap,
        "security.protocol": settings.protocol,
        "client.properties": java(settings, password, own),
        "librdkafka.properties": librdkafka(settings, password, own),
        "python.json": python(settings, password, own),
    }
    if own is None:
        found |= {"password": password, "sasl.mechanism": settings.mechanism}
    else:
        found |= {CERTIFICATE_KEY: own.certificate, PRIVATE_KEY_KEY: own.key, "keystore.password": TRUSTSTORE_PASSWORD}
    content = {key: value.encode() for key, value in found.items()}
    if own is not None:
        content[KEYSTORE] = own.keystore
    if settings.authorities:
        content["ca.crt"] = settings.authorities.encode()
        content[TRUSTSTORE] = truststore
        content["truststore.password"] = TRUSTSTORE_PASSWORD.encode()
    return content


def java(settings: ClientSettings, password: str, own: OwnCertificate | None = None) -> str:
    """`client.properties`; a backslash and what Java's reader takes for one are escaped."""
    lines = {"bootstrap.servers": settings.bootstrap, "security.protocol": settings.protocol}
    if own is None:
        jaas = f'{_MODULE} required username="{_quoted(settings.username)}" password="{_quoted(password)}";'
        lines |= {"sasl.mechanism": settings.mechanism, "sasl.jaas.config": jaas}
    else:
        lines |= {
            "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": own.certificate, "ssl.keystore.key": own.key
        }  # fmt: skip
    if settings.authorities:
        lines["ssl.truststore.type"] = "PEM"
        lines["ssl.truststore.certificates"] = settings.authorities
    return "".join(f"{key}={_property(value)}\n" for key, value in lines.items())


def librdkafka(settings: ClientSettings, password: str, own: OwnCertificate | None = None) -> str:
    lines = {"bootstrap.servers": settings.bootstrap, "security.protocol": settings.protocol}
    if own is None:
        lines |= {
            "sasl.mechanism": settings.mechanism, "sasl.username": settings.username, "sasl.password": password
        }  # fmt: skip
    else:
        lines |= {
            "ssl.certificate.location": f"{FOLDER}/{CERTIFICATE_KEY}", "ssl.key.location": f"{FOLDER}/{PRIVATE_KEY_KEY}"
        }  # fmt: skip
    if settings.authorities:
        lines["ssl.ca.location"] = f"{FOLDER}/ca.crt"
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def python(settings: ClientSettings, password: str, own: OwnCertificate | None = None) -> str:
    found: dict[str, str | list[str]] = {
        "bootstrap_servers": settings.bootstrap.split(","), "security_protocol": settings.protocol
    }  # fmt: skip
    if own is None:
        found |= {
            "sasl_mechanism": settings.mechanism, "sasl_plain_username": settings.username,
            "sasl_plain_password": password,
        }  # fmt: skip
    else:
        found |= {"ssl_certfile": f"{FOLDER}/{CERTIFICATE_KEY}", "ssl_keyfile": f"{FOLDER}/{PRIVATE_KEY_KEY}"}
    if settings.authorities:
        found["ssl_cafile"] = f"{FOLDER}/ca.crt"
    return json.dumps(found, indent=2) + "\n"


def _quoted(value: str) -> str:
    """In a JAAS value: its two special characters."""
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _property(value: str) -> str:
    """One line of a properties file, in ASCII: Java reads such files as Latin-1."""
    escaped = value.strip().replace("\\", "\\\\").replace("\r", "").replace("\n", "\\n")
    return "".join(one if one.isascii() else _unicode(one) for one in escaped)


def _unicode(one: str) -> str:
    units = one.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
