"""The keys `listener.name.NAME.max.connections` and `listener.name.NAME.max.connection.creation.rate`: how many clients
one listener takes, beside what the whole replica takes (`max.connections`, `max.connection.creation.rate`; KIP-402,
KIP-612). And the keys of addresses and of the windows of quotas, which `settings.Settings` inherits."""

# ruff: noqa: RUF009  # a key is a dataclass field with metadata

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_coordinator.quotas import limits as quotas_limits
from muster_coordinator.quotas.admission import ListenerLimits
from muster_coordinator.sasl_settings import PREFIX
from muster_coordinator.setting_values import Parser, address_counts, integer

CONNECTIONS, RATE = "max.connections", "max.connection.creation.rate"
_FIELDS = {CONNECTIONS: "connections_max", RATE: "rate_max"}


def _quota_key(name: str, parse: Parser, default: str, text: str) -> Any:  # noqa: ANN401  # typed where it is assigned
    metadata = {"key": name, "parse": parse, "default": default, "text": text}
    return field(default_factory=lambda: parse(default), metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class QuotaKeys:
    """The part of `Settings` that is about addresses and windows of quotas."""

    connections_per_ip_overrides: dict[str, int] = _quota_key(
        "max.connections.per.ip.overrides",
        address_counts,
        "",
        "Most connections of single addresses, as IP:number between commas, in place of `max.connections.per.ip`. "
        "Names of hosts are not looked up: write addresses.",
    )
    quota_windows: int = _quota_key(
        "quota.window.num",
        integer(1, quotas_limits.WINDOWS_MAX),
        str(quotas_limits.QUOTA_WINDOWS),
        "Windows of samples that are kept for each client that has a quota.",
    )
    quota_window_seconds: int = _quota_key(
        "quota.window.size.seconds",
        integer(1, quotas_limits.WINDOW_SECONDS_MAX),
        str(quotas_limits.QUOTA_WINDOW_SECONDS),
        "Length of each window.",
    )
    mutation_windows: int = _quota_key(
        "controller.quota.window.num",
        integer(1, quotas_limits.WINDOWS_MAX),
        str(quotas_limits.QUOTA_WINDOWS),
        "Windows of the quota `controller_mutation_rate`: what flows into a bucket within all of them fills it.",
    )
    mutation_window_seconds: int = _quota_key(
        "controller.quota.window.size.seconds",
        integer(1, quotas_limits.WINDOW_SECONDS_MAX),
        str(quotas_limits.QUOTA_WINDOW_SECONDS),
        "Length of each of these.",
    )


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
