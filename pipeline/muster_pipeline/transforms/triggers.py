"""Why a group rebalanced, as far as the log proves it.

Muster's log gives the reasons (type 1001); the first one counts, since it began the rebalance. In Kafka's log only the
members before and after can be compared, which distinguishes a join from a departure, but not a departure from an
expired session; such a trigger has a name of its own. Reasons that clients gave (KIP-800) are free text and count as
"left".
"""

from collections.abc import Sequence
from typing import Final

from muster_pipeline.transforms.group_view import HistoricGroup, Moves, Owned

REASONS_MAX: Final = 5
"""Reasons that `evidence` quotes."""

_FIXED: Final = {
    "session expired": "session_timeout",
    "join phase timed out": "rebalance_timeout",
    "no SyncGroup in time": "sync_timeout",
    "group.max.size is exceeded": "group_full",
}


def trigger(
    before: HistoricGroup | None,
    after: HistoricGroup,
    *,
    history_complete: bool,
    reasons: Sequence[str],
    changes: Moves | None,
    lost_before: frozenset[Owned],
) -> tuple[str, str]:
    """A trigger of `schemas.gold.TRIGGERS` and the evidence. `lost_before`: what the rebalance before left unowned."""
    if reasons:
        told = _told(reasons[0], before, after)
        quoted = "; ".join(repr(reason) for reason in reasons[:REASONS_MAX])
        if told is not None:
            return told, f"the log says: {quoted}"
        name, why = _compared(before, after, history_complete, changes, lost_before)
        return ("rejoin" if name == "unknown" else name), f"the log says: {quoted}; {why}"
    return _compared(before, after, history_complete, changes, lost_before)


def _told(reason: str, before: HistoricGroup | None, after: HistoricGroup) -> str | None:
    """The trigger that a reason names. None: a member rejoined, so the difference between the generations decides."""
    if reason in _FIXED:
        return _FIXED[reason]
    if reason.endswith(" rejoins"):
        return None
    if reason.endswith(" joins"):
        return "join"
    if " replaces " in reason:
        return "static_replace"
    gone = before is not None and bool(before.identities() - after.identities())
    return "leave" if gone else None


def _compared(
    before: HistoricGroup | None,
    after: HistoricGroup,
    history_complete: bool,
    changes: Moves | None,
    lost_before: frozenset[Owned],
) -> tuple[str, str]:
    if before is None:
        return "first", "no earlier generation of the group is in what was read"
    if not history_complete:
        return "unknown", f"generations between {before.generation} and {after.generation} are not in the log"
    came, went = after.identities() - before.identities(), before.identities() - after.identities()
    if came and went:
        return "join_and_leave", f"new members: {len(came)}, gone: {len(went)}, since generation {before.generation}"
    if came:
        return "join", f"new members: {len(came)}, since generation {before.generation}"
    if went:
        return "leave_or_expiry", f"members gone: {len(went)}, since generation {before.generation}"
    return _same_members(before, after, changes, lost_before)


def _same_members(
    before: HistoricGroup, after: HistoricGroup, changes: Moves | None, lost_before: frozenset[Owned]
) -> tuple[str, str]:
    if before.subscriptions() != after.subscriptions():
        return "subscription_change", "the same members subscribe to other topics"
    if before.members.keys() != after.members.keys():
        return "static_replace", "the same instance ids under other member ids"
    if before.protocol != after.protocol:
        return "assignor_change", f"the same members, {before.protocol} before and {after.protocol} after"
    if changes is not None and changes.gained and changes.gained <= lost_before and not changes.lost:
        return "cooperative_followup", "partitions that the rebalance before had taken away found an owner"
    if changes is not None and (changes.gained or changes.lost):
        return "partition_change", f"new partitions: {len(changes.gained)}, gone: {len(changes.lost)}, same members"
    return "rejoin", "same members, topics and partitions"
