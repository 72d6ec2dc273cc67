"""Whose quotas a line of `muster quota` means, and which: by the options that Kafka's own tool has. Pure.

`kafka-configs` knows users, clients and ips, each by name or as the default of all who have none of their own, and user
and client together. What this does not do: ask a cluster (`quotas`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster_coordinator.security.quota_entities import (
    CLIENT_ID,
    DEFAULT,
    IP,
    OF_ADDRESSES,
    OF_CLIENTS,
    USER,
    QuotaEntity,
    entity_error,
    entity_of,
    quota_error,
)

DEFAULT_SHOWN = "<default>"
"""How Kafka's tools write the default."""


class Named(NamedTuple):
    """What a line says of whom."""

    user: str | None = None
    client: str | None = None
    ip: str | None = None
    user_defaults: bool = False
    client_defaults: bool = False
    ip_defaults: bool = False

    def entity(self) -> QuotaEntity:
        """Raises ValueError. Empty: the line names nobody."""
        said = (
            (USER, "user", self.user, self.user_defaults),
            (CLIENT_ID, "client", self.client, self.client_defaults),
            (IP, "ip", self.ip, self.ip_defaults),
        )
        parts = []
        for kind, option, name, default in said:
            if name is not None and default:
                raise ValueError(f"--{option} and --{option}-defaults exclude each other")
            if name == "":
                raise ValueError(f"--{option} is empty")
            if name is not None or default:
                parts.append((kind, DEFAULT if name is None else name))
        entity = entity_of(parts)
        error = entity_error(entity) if entity else None
        if error is not None:
            raise ValueError(error)
        return entity


def assigned(entity: QuotaEntity, texts: Sequence[str]) -> dict[str, float]:
    """`KEY=VALUE` of each text. Raises ValueError."""
    if not entity:
        raise ValueError("say whose: --user, --client, --ip, or one of the defaults")
    found: dict[str, float] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text} is not KEY=VALUE, such as producer_byte_rate=1048576")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"{key}: {value!r} is no number") from None
        error = quota_error(entity, key, number) or ("a quota is given twice" if key in found else None)
        if error is not None:
            raise ValueError(error + _known(entity))
        found[key] = number
    return found


def removed(entity: QuotaEntity, keys: Sequence[str], have: Iterable[str]) -> list[str]:
    """The quotas to remove: those that are named, else all that there are. Raises ValueError."""
    if not entity:
        raise ValueError("say whose: --user, --client, --ip, or one of the defaults")
    for key in keys:
        error = quota_error(entity, key, None)
        if error is not None:
            raise ValueError(error + _known(entity))
    return list(dict.fromkeys(keys)) or sorted(have)


def _known(entity: QuotaEntity) -> str:
    return f" ({', '.join(sorted(OF_ADDRESSES if entity[0][0] == IP else OF_CLIENTS))})"


def shown(entity: QuotaEntity) -> dict[str, str]:
    """Type -> name, for a row; "" where the entity has no such part."""
    named = {kind: name or DEFAULT_SHOWN for kind, name in entity}
    return {"user": named.get(USER, ""), "client": named.get(CLIENT_ID, ""), "ip": named.get(IP, "")}


def number(value: float) -> int | float:
    """Without `.0`, as Kafka's users write it."""
    return int(value) if value.is_integer() else value
