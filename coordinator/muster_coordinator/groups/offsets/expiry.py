"""Expiry of offsets and of empty groups (KIP-211; protocol notes 4.6, invariant O11).

The wall clock is compared only with timestamps in the log, and only while it agrees with the monotonic clock: a sweep
that finds a jump since the last one removes nothing. Nothing expires in a group that rebalances or whose subscriptions
cannot be read, nor on a partition with an open transaction.
"""

from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core, Record
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.membership.subscription import CONSUMER, subscribed_topics
from muster_coordinator.groups.offsets.sweep import Sweep
from muster_coordinator.groups.offsets.tombstones import group_tombstones, offset_tombstone
from muster_coordinator.groups.state.classic_group import State
from muster_coordinator.groups.state.offset_row import commit_timestamp_of, expire_timestamp_of
from muster_coordinator.groups.state.offset_table import OffsetTable
from muster_coordinator.groups.state.stored_group import StoredGroup

_INSPECTION = 4
"""Work of inspecting one group's stored head, in units of one offset."""


def expiry_sweep(core: Core) -> Sweep:
    """One pass over all groups of the shard."""
    return Sweep(ExpiryRule(), dict.fromkeys([*core.state.groups, *core.state.offsets.groups()]))


class ExpiryRule:
    """Which offsets and groups are expired (protocol notes 4.6)."""

    def begins(self, core: Core, now: Now) -> bool:
        """False when the wall clock jumped since the last sweep."""
        base_ms = now.wall_ms - now.monotonic_ms
        jumped = abs(base_ms - core.clock_base_ms) > limits.CLOCK_JUMP_SUSPECTED_MS
        core.clock_base_ms = base_ms
        return not jumped

    def inspect(self, core: Core, now: Now, group: str) -> tuple[int, bool]:
        stored = core.state.groups.get(group)
        if _rebalances(core, group, stored):
            return _INSPECTION, False
        if group not in core.state.offsets:
            return _INSPECTION, _deletable(core, group, stored)
        oldest_ms, expires = core.state.offsets.oldest_ms(group)
        return _INSPECTION, expires or now.wall_ms - oldest_ms >= core.config.offsets_retention_ms

    def tombstones(self, core: Core, now: Now, group: str) -> tuple[list[Record], bool]:
        stored = core.state.groups.get(group)
        if _rebalances(core, group, stored):
            return [], False
        table = core.state.offsets.table(group)
        found = [] if table is None else _expired(core, now, group, stored, table)
        if len(found) > limits.GROUP_TOMBSTONES_PER_BATCH:
            return found[: limits.GROUP_TOMBSTONES_PER_BATCH], True
        left = 0 if table is None else table.count - len(found)
        if not left and _deletable(core, group, stored):
            found += group_tombstones(core, group)
        return found, False

    def written(self, core: Core, records: int) -> None:
        core.stats.offsets_expired += records


def _rebalances(core: Core, group: str, stored: StoredGroup | None) -> bool:
    live = core.lives.get(group)
    state = live.state if live is not None else State.EMPTY if stored is None else stored.state
    return state in (State.PREPARING, State.COMPLETING)


def _deletable(core: Core, group: str, stored: StoredGroup | None) -> bool:
    """Whether the group is Empty, has no pending member id, and no open transaction that may commit into it."""
    empty = stored is not None and stored.state is State.EMPTY
    return empty and group not in core.lives and group not in core.state.pending_offsets


def _expired(core: Core, now: Now, group: str, stored: StoredGroup | None, table: OffsetTable) -> list[Record]:
    """Tombstones of the offsets that are expired by the rule of this kind of group; at most a little over one batch."""
    base_ms, kept = _rule(stored)
    if kept is None:
        return []
    open_for = core.state.pending_offsets.holds
    retention_ms = core.config.offsets_retention_ms
    found: list[Record] = []
    for topic, rows in table.topics.items():
        if topic in kept:
            continue
        found += (
            offset_tombstone(group, topic, partition)
            for partition, row in rows.items()
            if _is_expired(row, base_ms, now.wall_ms, retention_ms) and not open_for(group, topic, partition)
        )
        if len(found) > limits.GROUP_TOMBSTONES_PER_BATCH:
            break
    return found


def _rule(stored: StoredGroup | None) -> tuple[int, frozenset[str] | None]:
    """(earliest time from which retention counts, topics that do not expire; None = all of them)."""
    if stored is None:
        return -1, frozenset()
    if stored.state is State.EMPTY:
        return (-1 if stored.protocol_type is None else stored.decode().state_timestamp_ms), frozenset()
    if stored.state is State.STABLE and stored.protocol_type == CONSUMER:
        return -1, subscribed_topics(stored.decode())
    return -1, None


def _is_expired(row: bytes, base_ms: int, now_ms: int, retention_ms: int) -> bool:
    """`base_ms`: when the group became Empty; a later commit counts from its own timestamp. A commit with an expiry of
    its own ignores both."""
    expire_ms = expire_timestamp_of(row)
    if expire_ms != -1:
        return now_ms >= expire_ms
    return now_ms - max(commit_timestamp_of(row), base_ms) >= retention_ms
