"""The settings of listeners that ask who a client is, from the keys that begin with `listener.name.` (ADR 52).

Kafka has them for one listener, and for one of its mechanisms: `listener.name.NAME.sasl.enabled.mechanisms`,
`listener.name.NAME.MECHANISM.connections.max.reauth.ms` and `listener.name.NAME.plain.sasl.jaas.config`. What is not
said for a listener is what the key without this prefix says. An error names the key and never its value, which may be a
secret.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from muster_coordinator.security.jaas import plain_users
from muster_coordinator.security.protocol import SecurityProtocol
from muster_coordinator.security.session import MECHANISMS, OAUTHBEARER, PLAIN, ListenerSasl

PREFIX = "listener.name."
_ENABLED = "sasl.enabled.mechanisms"
_REAUTH = "connections.max.reauth.ms"
_JAAS = "sasl.jaas.config"
_OF_USERS = ("sasl.oauthbearer.sub.claim.name",)
_OF_TOKENS = (
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.expected.audience",
    *_OF_USERS,
)
REAUTH_MS_MAX = 2**31 - 1
T = TypeVar("T")


def parse_mechanisms(text: str) -> tuple[str, ...]:
    """Raises ValueError for one that no listener can offer."""
    found = tuple(filter(None, (item.strip() for item in text.split(","))))
    for name in found:
        if name == "GSSAPI":
            raise ValueError("GSSAPI (Kerberos) is not supported")
        if name not in MECHANISMS:
            raise ValueError(f"{name} is none of {', '.join(MECHANISMS)}")
    if len(set(found)) < len(found):
        raise ValueError("a mechanism comes twice")
    return found


def parse_reauth_ms(text: str) -> int:
    """Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or int(text) > REAUTH_MS_MAX:
        raise ValueError(f"not between 0 and {REAUTH_MS_MAX}")
    return int(text)


def parse_jwks_url(text: str) -> str:
    """Raises ValueError."""
    if text and not text.startswith(("https://", "file:///")):
        raise ValueError("neither https:// nor file:///")
    return text


def parse_list(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(filter(None, (item.strip() for item in text.split(","))))


def lacking_key(offered: ListenerSasl, texts: Mapping[str, str]) -> str | None:
    """The key that is needed for what the listener offers, and is empty."""
    if OAUTHBEARER not in offered.mechanisms:
        return None
    needed = _OF_USERS if offered.elsewhere else _OF_TOKENS
    return next((key for key in needed if not texts.get(key, "").strip(", ")), None)


def of_listener(
    listener: str,
    protocol: SecurityProtocol,
    texts: Mapping[str, str],
    mechanisms: tuple[str, ...],
    reauth_ms: int,
    *,
    elsewhere: bool = False,
    subject_claim: str = "",
) -> ListenerSasl | None:
    """What the listener offers; None: it asks nobody. `texts` are the keys below `listener.name.` that are about it.
    `elsewhere`: another server judges its clients, and takes `subject_claim` of a token for the user. Raises ValueError
    that names the key."""
    known = {_ENABLED, _REAUTH, f"plain.{_JAAS}"} | {f"{name.lower()}.{_REAUTH}" for name in MECHANISMS}
    for key in texts:
        if key not in known:
            raise ValueError(f"unknown key {PREFIX}{listener.lower()}.{key}")
    if not protocol.sasl:
        if texts:
            raise ValueError(f"{PREFIX}{listener.lower()}.{min(texts)}: the listener's protocol is {protocol.name}")
        return None
    if _ENABLED in texts:
        mechanisms = _parsed(listener, _ENABLED, texts, parse_mechanisms)
    if not mechanisms:
        raise ValueError(f"listener {listener} has protocol {protocol.name}, but {_ENABLED} names no mechanism")
    if PLAIN in mechanisms and not protocol.tls:
        raise ValueError(
            f"listener {listener} offers PLAIN, which sends passwords as they are: its protocol must be SASL_SSL"
        )
    if _REAUTH in texts:
        reauth_ms = _parsed(listener, _REAUTH, texts, parse_reauth_ms)
    lasting = {
        name: _parsed(listener, f"{name.lower()}.{_REAUTH}", texts, parse_reauth_ms)
        if f"{name.lower()}.{_REAUTH}" in texts
        else reauth_ms
        for name in mechanisms
    }
    jaas = f"plain.{_JAAS}"
    users = _parsed(listener, jaas, texts, plain_users) if jaas in texts else {}
    if elsewhere and users:
        raise ValueError(
            f"{PREFIX}{listener.lower()}.{jaas}: with upstream.sasl.passthrough.enable users are the upstream's alone"
        )
    if PLAIN in mechanisms and not users and not elsewhere:
        raise ValueError(f"{PREFIX}{listener.lower()}.{jaas}: PLAIN is offered, and no user_NAME is set")
    return ListenerSasl(
        mechanisms=mechanisms,
        reauth_ms=lasting,
        plain_users=users,
        elsewhere=elsewhere,
        subject_claim=subject_claim if elsewhere else "",
    )


def _parsed(listener: str, key: str, texts: Mapping[str, str], parse: Callable[[str], T]) -> T:
    try:
        return parse(texts[key].strip())
    except ValueError as error:
        raise ValueError(f"{PREFIX}{listener.lower()}.{key}: {error}") from error


def by_listener(values: Mapping[str, str], listeners: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Listener -> rest of the key -> value, of keys that begin with `listener.name.`. Raises ValueError for one that is
    about no listener."""
    found: dict[str, dict[str, str]] = {name: {} for name in listeners}
    for key, text in values.items():
        name, _, rest = key.removeprefix(PREFIX).partition(".")
        if name.upper() not in found:
            raise ValueError(f"{key} is about {name}, which is not in listeners")
        found[name.upper()][rest] = text
    return found
