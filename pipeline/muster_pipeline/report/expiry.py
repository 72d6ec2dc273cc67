"""Expiry calendar: which committed offsets Kafka's retention rules remove, and on which day."""

from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest

from muster_pipeline.report import limits
from muster_pipeline.report.source import Tables, rows

_DAY_MS = 86_400_000
_COLUMNS = ("group_id", "topic", "partition", "committed_offset", "group_state", "rule", "expires_at_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """One offset that expires if nothing changes."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    rule: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """`days`: (start of the day in ms, offsets that expire that day), oldest first, at most `EXPIRY_DAYS_MAX`."""

    offsets: int
    never: int
    """Offsets that do not expire as things are: a member subscribes to the topic, or no rule applies."""
    days: tuple[tuple[int, int], ...]
    later: int
    """Offsets that expire after the last day shown."""
    soonest: tuple[Expiring, ...]
    states: dict[str, str]
    """Group → state at the log's end."""


def calendar(tables: Tables) -> Calendar:
    """The calendar, in one pass over the table."""
    days: Counter[int] = Counter()
    states: dict[str, str] = {}
    total = never = 0
    expiring: list[Expiring] = []
    for group, topic, partition, committed, state, rule, expires_at_ms in rows(tables, "expiry", _COLUMNS):
        total += 1
        states[group] = state
        if expires_at_ms is None:
            never += 1
            continue
        days[expires_at_ms // _DAY_MS * _DAY_MS] += 1
        expiring.append(
            Expiring(
                group=group, topic=topic, partition=partition, committed_offset=committed, rule=rule,
                expires_at_ms=expires_at_ms,
            )
        )  # fmt: skip
        if len(expiring) > 4 * limits.EXPIRY_SHOWN_MAX:
            expiring = _soonest(expiring)
    first = sorted(days.items())[: limits.EXPIRY_DAYS_MAX]
    return Calendar(
        offsets=total,
        never=never,
        days=tuple(first),
        later=days.total() - sum(count for _, count in first),
        soonest=tuple(_soonest(expiring)),
        states=states,
    )


def _soonest(expiring: list[Expiring]) -> list[Expiring]:
    return nsmallest(
        limits.EXPIRY_SHOWN_MAX, expiring, key=lambda one: (one.expires_at_ms, one.group, one.topic, one.partition)
    )
