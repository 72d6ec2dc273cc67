"""Whom a quota is for, and what quotas there are: Kafka's client quotas as values.

An entity is a tuple of (type, name) in the order of the types' names; `DEFAULT` stands for whoever has none of their
own. There are user, client-id, both together, and ip alone.
"""

import math
from collections.abc import Iterable, Mapping

from muster_coordinator.security import limits

USER, CLIENT_ID, IP = "user", "client-id", "ip"
DEFAULT = ""
"""Kafka's null name: the quota of everybody who has none of their own. An empty name cannot be given to anybody."""
QuotaEntity = tuple[tuple[str, str], ...]

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
WHOLE_NUMBERS = frozenset((PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE))
OF_CLIENTS = frozenset((PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE))
OF_ADDRESSES = frozenset((CONNECTION_CREATION_RATE,))


def entity_of(parts: Iterable[tuple[str, str]]) -> QuotaEntity:
    return tuple(sorted(parts))


def entity_error(entity: QuotaEntity) -> str | None:
    """Why quotas are not for such an entity (Kafka answers INVALID_REQUEST); None if they are."""
    kinds = [kind for kind, _ in entity]
    if not kinds:
        return "Invalid empty client quota entity"
    if len(set(kinds)) < len(kinds):
        return "a type of entity is given twice"
    unknown = [kind for kind in kinds if kind not in (USER, CLIENT_ID, IP)]
    if unknown:
        return f"Unhandled client quota entity type: {unknown[0][:100]}"
    if IP in kinds and len(kinds) > 1:
        return "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
    if any(len(name) > limits.ACL_TEXT_CHARS_MAX for _, name in entity):
        return f"a name has at most {limits.ACL_TEXT_CHARS_MAX} characters"
    return None


def quota_error(entity: QuotaEntity, key: str, value: float | None) -> str | None:
    """Why this quota cannot be set for the entity; None if it can."""
    if key not in (OF_ADDRESSES if entity[0][0] == IP else OF_CLIENTS):
        return f"Invalid configuration key {key[:100]}"
    if value is None:
        return None
    if not math.isfinite(value) or value <= 0:
        return f"Quota {key} must be greater than 0"
    if key in WHOLE_NUMBERS and not value.is_integer():
        return f"{key} cannot be a fraction"
    return None


def changed(
    quotas: Mapping[QuotaEntity, tuple[tuple[str, float], ...]], entity: QuotaEntity, key: str, value: float | None
) -> dict[QuotaEntity, tuple[tuple[str, float], ...]]:
    """All quotas after this change."""
    after = dict(quotas)
    own = dict(after.pop(entity, ()))
    own.pop(key, None)
    if value is not None:
        own[key] = value
    if own:
        after[entity] = tuple(sorted(own.items()))
    return after
