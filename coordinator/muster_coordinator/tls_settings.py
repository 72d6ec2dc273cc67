"""Kafka's `ssl.*` keys: of all listeners, and of one by `listener.name.NAME.` before the key.

They are fields of `settings.Settings`, which inherits them, so that they are documented and bounded as all others. A
secret among them is shown nowhere: not in DescribeConfigs, not in an error, not in a repr.

What it does not do: read the files (`runtime.tls_files`).
"""

# ruff: noqa: RUF009  # a key is a dataclass field with metadata

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from muster_coordinator.links.peer_auth import Method, parse_methods
from muster_coordinator.security.principal_mapping import principal_rules
from muster_coordinator.security.tls_config import ClientAuth, StoreType, TlsConfig

LISTENER_PREFIX = "listener.name."
Parser = Callable[[str], Any]


def listener_key(name: str, parse: Parser, default: str, text: str, *, secret: bool = False) -> Any:  # noqa: ANN401
    """A key that a listener may have for itself, as `listener.name.NAME.KEY`. `secret`: its value is shown nowhere."""
    metadata = {"key": name, "parse": parse, "default": default, "text": text, "listener": True, "secret": secret}
    return field(default_factory=lambda: parse(default), metadata=metadata, repr=not secret)


def _location(text: str) -> Path | None:
    return Path(text) if text else None


def _text(text: str) -> str:
    return text


def _store_type(text: str) -> StoreType:
    if text.upper() in ("JKS", "JCEKS"):
        raise ValueError(
            "Java keystores are not supported; convert it: keytool -importkeystore -srckeystore store.jks "
            "-destkeystore store.p12 -deststoretype PKCS12"
        )
    if text.upper() not in StoreType.__members__:
        raise ValueError(f"not one of {', '.join(StoreType.__members__)}")
    return StoreType[text.upper()]


def _client_auth(text: str) -> ClientAuth:
    if text.upper() not in ClientAuth.__members__:
        raise ValueError("not one of none, requested, required")
    return ClientAuth[text.upper()]


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _tls_versions(text: str) -> tuple[str, ...]:
    found = _names(text)
    if not found or not set(found) <= {"TLSv1.2", "TLSv1.3"}:
        raise ValueError("not TLSv1.2, TLSv1.3 or both; older versions are not safe")
    return found


def _principal_rules(text: str) -> str:
    principal_rules(text)
    return text


@dataclass(frozen=True, kw_only=True)
class TlsKeys:
    """The part of `Settings` that is about TLS."""

    # TLS. Kafka's keys; those of one listener stand before those of all.
    ssl_keystore_type: StoreType = listener_key(
        "ssl.keystore.type", _store_type, "PEM", "PEM or PKCS12. Kafka's default, JKS, is not supported."
    )
    ssl_keystore_location: Path | None = listener_key(
        "ssl.keystore.location",
        _location,
        "",
        "File with the private key and the certificate chain. It is read again when it changes, as all files of TLS.",
    )
    ssl_keystore_chain: str = listener_key(
        "ssl.keystore.certificate.chain",
        _text,
        "",
        "Certificate chain, the server's first: PEM, or (not in Kafka) the path of a PEM file such as `tls.crt`.",
    )
    ssl_keystore_key: str = listener_key(
        "ssl.keystore.key",
        _text,
        "",
        "Private key of `ssl.keystore.certificate.chain`: PEM, or (not in Kafka) the path of a PEM file such as "
        "`tls.key`. PKCS#8, PKCS#1 or EC, encrypted or not.",
        secret=True,
    )
    ssl_keystore_password: str = listener_key(
        "ssl.keystore.password", _text, "", "Password of a PKCS#12 `ssl.keystore.location`.", secret=True
    )
    ssl_key_password: str = listener_key(
        "ssl.key.password", _text, "", "Password of an encrypted private key in PEM.", secret=True
    )
    ssl_truststore_type: StoreType = listener_key(
        "ssl.truststore.type", _store_type, "PEM", "PEM or PKCS12. Kafka's default, JKS, is not supported."
    )
    ssl_truststore_location: Path | None = listener_key(
        "ssl.truststore.location", _location, "", "File with the CAs whose certificates clients may show."
    )
    ssl_truststore_certificates: str = listener_key(
        "ssl.truststore.certificates", _text, "", "The same as PEM, or (not in Kafka) as the path of a PEM file."
    )
    ssl_truststore_password: str = listener_key(
        "ssl.truststore.password", _text, "", "Password of a PKCS#12 `ssl.truststore.location`.", secret=True
    )
    ssl_client_auth: ClientAuth = listener_key(
        "ssl.client.auth",
        _client_auth,
        "none",
        "none, requested or required: whether clients show a certificate. Who does is the user that its subject names.",
    )
    ssl_protocols: tuple[str, ...] = listener_key(
        "ssl.enabled.protocols", _tls_versions, "TLSv1.2,TLSv1.3", "TLSv1.2, TLSv1.3 or both."
    )
    ssl_cipher_suites: tuple[str, ...] = listener_key(
        "ssl.cipher.suites",
        _names,
        "",
        "Cipher suites of TLS 1.2 by Java's or OpenSSL's names; those of TLS 1.3 cannot be chosen, and a list of "
        "nothing else turns TLS 1.2 off. Empty: OpenSSL's choice.",
    )
    ssl_principal_rules: str = listener_key(
        "ssl.principal.mapping.rules",
        _principal_rules,
        "DEFAULT",
        "Rules that make a user's name of a certificate's subject: RULE:pattern/replacement/[LU], DEFAULT.",
    )

    of_listeners: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Listener -> field -> value of its `listener.name.NAME.KEY`."""

    def of_listener(self, listener: str, name: str) -> Any:  # noqa: ANN401  # as typed as the field
        """The field `name` for this listener."""
        return self.of_listeners.get(listener, {}).get(name, getattr(self, name))

    def tls(self, listener: str) -> TlsConfig:
        """How the listener of this name encrypts; "": by the keys of all."""
        names = {
            "keystore_type", "keystore_location", "keystore_chain", "keystore_key", "keystore_password", "key_password",
            "truststore_type", "truststore_location", "truststore_certificates", "truststore_password", "client_auth",
            "protocols", "cipher_suites", "principal_rules",
        }  # fmt: skip
        return TlsConfig(**{name: self.of_listener(listener, f"ssl_{name}") for name in names})

    def tls_problem(self, encrypts: Mapping[str, bool]) -> str | None:
        """What is wrong with these keys; `encrypts`: all listeners, and which of them have TLS."""
        unknown = sorted(set(self.of_listeners) - set(encrypts))
        if unknown:
            return f"{LISTENER_PREFIX}{unknown[0].lower()}. names a listener that is not in listeners"
        for name in (name for name, tls in encrypts.items() if tls):
            config = self.tls(name)
            if not config.has_key:
                return (
                    f"listener {name} needs a key: set ssl.keystore.location, or ssl.keystore.certificate.chain and "
                    "ssl.keystore.key"
                )
            trusts = config.truststore_location is not None or bool(config.truststore_certificates)
            if config.client_auth is not ClientAuth.NONE and not trusts:
                return f"listener {name}: ssl.client.auth={config.client_auth.value} needs ssl.truststore.location"
        return None


def _peer_key(name: str, parse: Parser, default: str, text: str) -> Any:  # noqa: ANN401
    metadata = {"key": name, "parse": parse, "default": default, "text": text}
    return field(default_factory=lambda: parse(default), metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class PeerKeys:
    """The part of `Settings` that says how replicas know each other."""

    peer_security: Method = _peer_key(
        "muster.peer.security",
        lambda text: parse_methods(text)[0],
        "none",
        "How this replica dials others, and what it accepts from them: none, secret (`muster.peer.secret.file`) or tls "
        "(`listener.name.peer.ssl.*` or `ssl.*`, certificates both ways).",
    )
    peer_accepts: tuple[Method, ...] = _peer_key(
        "muster.peer.security.accept",
        lambda text: parse_methods(text) if text else (),
        "",
        "What it accepts besides, while a cluster changes from one to another: a list of none, secret, tls.",
    )
    peer_secret_file: Path | None = _peer_key(
        "muster.peer.secret.file",
        _location,
        "",
        "File with the secret of all replicas, 32 bytes at least, and while it changes the one before in a second "
        "line. It is read again when it changes.",
    )

    @property
    def peer_methods(self) -> frozenset[Method]:
        """All that is spoken or accepted between replicas."""
        return frozenset({self.peer_security, *self.peer_accepts})

    def peer_problem(self) -> str | None:
        """What is wrong with these keys."""
        if Method.SECRET in self.peer_methods and self.peer_secret_file is None:
            return "muster.peer.security=secret needs muster.peer.secret.file"
        return None


def listener_values(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """(the other keys, listener -> field -> value). Raises `ValueError` that names the first wrong key."""
    known = {item.metadata["key"]: item for item in fields(TlsKeys) if item.metadata}
    others: dict[str, str] = {}
    found: dict[str, dict[str, Any]] = {}
    for key, text in values.items():
        listener, _, rest = key.removeprefix(LISTENER_PREFIX).partition(".")
        item = known.get(rest) if key.startswith(LISTENER_PREFIX) else None
        if item is None:
            others[key] = text
            continue
        try:
            found.setdefault(listener.upper(), {})[item.name] = item.metadata["parse"](text.strip())
        except ValueError as error:
            raise ValueError(f"{key}{shown(item.metadata, text)}: {error}") from error
    return others, found


def shown(metadata: Mapping[str, Any], text: str) -> str:
    """`=text` behind a key in an error, unless it is a secret."""
    return "" if metadata.get("secret") else f"={text}"
