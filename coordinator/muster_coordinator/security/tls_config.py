"""How one listener or link encrypts: the values of Kafka's `ssl.*` keys."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from typing_extensions import override


class ClientAuth(Enum):
    """`ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    """A client may show a certificate; one that is not trusted ends the connection."""
    REQUIRED = "required"


class StoreType(Enum):
    """`ssl.keystore.type` and `ssl.truststore.type`."""

    PEM = "PEM"
    PKCS12 = "PKCS12"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Texts of secrets are kept out of its repr."""

    keystore_type: StoreType
    keystore_location: Path | None
    """PEM: key and chain in one file; PKCS12: the store."""
    keystore_chain: str
    """PEM text, or the path of a PEM file, of the chain."""
    keystore_key: str
    """PEM text, or the path of a PEM file, of the key."""
    keystore_password: str
    key_password: str
    truststore_type: StoreType
    truststore_location: Path | None
    truststore_certificates: str
    truststore_password: str
    client_auth: ClientAuth
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principal_rules: str

    @override
    def __repr__(self) -> str:
        return f"TlsConfig(keystore={self.keystore_location or '(inline)'}, client_auth={self.client_auth.value})"

    @property
    def has_key(self) -> bool:
        return self.keystore_location is not None or bool(self.keystore_chain and self.keystore_key)
