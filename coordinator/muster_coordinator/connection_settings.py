"""The keys `listener.name.NAME.max.connections` and `listener.name.NAME.max.connection.creation.rate`: how many clients
one listener takes, beside what the whole replica takes (`max.connections`, `max.connection.creation.rate`; KIP-402,
KIP-612)."""

from collections.abc import Mapping

from muster_coordinator.quotas.admission import ListenerLimits
from muster_coordinator.sasl_settings import PREFIX
from muster_coordinator.setting_values import integer

CONNECTIONS, RATE = "max.connections", "max.connection.creation.rate"
_FIELDS = {CONNECTIONS: "connections_max", RATE: "rate_max"}


def listener_values(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, ListenerLimits]]:
    """(the other keys, listener -> its limits). Raises `ValueError` that names the first wrong key."""
    others: dict[str, str] = {}
    found: dict[str, dict[str, int]] = {}
    for key, text in values.items():
        listener, _, rest = key.removeprefix(PREFIX).partition(".")
        if not key.startswith(PREFIX) or rest not in _FIELDS:
            others[key] = text
            continue
        try:
            found.setdefault(listener.upper(), {})[_FIELDS[rest]] = integer(1)(text.strip())
        except ValueError as error:
            raise ValueError(f"{key}={text}: {error}") from error
    return others, {listener: ListenerLimits(**said) for listener, said in found.items()}
