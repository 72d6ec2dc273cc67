"""What /livez and /readyz say. Pure.

Live means that work moves: no key that is due waits too long for a worker, no pass runs for ever, and the API server
was read lately. An API server that is down must not get the operator restarted for ever, so a list that is merely old
counts only after three missed ones, and never before the first has had time; a refusal is an answer, and no restart
mends it. Ready means that every kind is listed and watched, leader or not: a standby that could take over is a good
pod. A namespace that refuses us counts only when every one does.
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
    """Since the API server last answered a list of any scope; None: it has not answered one yet."""
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
