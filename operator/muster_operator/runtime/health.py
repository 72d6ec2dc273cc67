"""The answers of /livez and /readyz. Pure.

Live means that work proceeds: no due key waits too long for a worker, no pass runs for ever, and the API server
answered a list recently. A restart does not help against an API server that is down, so an old list counts only after
three intervals, and a missing one never before the first list had its time; a refusal counts as an answer. Ready means
that every kind is listed and watched, on the leader and on a standby alike. A namespace that refuses us counts only if
every namespace does.
"""

from dataclasses import dataclass

from muster_operator.limits import LIST_AGE_MAX_MS, PASS_MAX_MS, QUEUE_OLDEST_MAX_MS, START_GRACE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    uptime_ms: int
    leading: bool
    oldest_ms: int
    """Longest wait of a due key for a worker."""
    longest_pass_ms: int
    list_age_ms: int | None
    """Since the API server last answered a list of any scope; None before the first answer."""
    unready: tuple[str, ...]
    """What is not listed or not watched (`scopes.Scopes.unready`)."""


def not_live(pulse: Pulse) -> list[str]:
    """Reasons against liveness; empty when live."""
    found = []
    if pulse.leading and pulse.oldest_ms > QUEUE_OLDEST_MAX_MS:
        found.append(f"an object has waited {pulse.oldest_ms // 1_000} s for a worker")
    if pulse.longest_pass_ms > PASS_MAX_MS:
        found.append(f"a pass has run for {pulse.longest_pass_ms // 1_000} s")
    if pulse.list_age_ms is not None and pulse.list_age_ms > LIST_AGE_MAX_MS:
        found.append(f"the API server last answered a list {pulse.list_age_ms // 1_000} s ago")
    if pulse.list_age_ms is None and pulse.uptime_ms > START_GRACE_MS:
        found.append("the API server has answered no list since the start")
    return found


def not_ready(pulse: Pulse) -> list[str]:
    """Reasons against readiness; empty when ready."""
    return list(pulse.unready)
