"""Gold `expiry`: which rule of KIP-211 applies to each committed offset, and when it expires (protocol notes 4.6).

It holds at the end of the log. Compaction keeps the last record of every key and group, so this needs no history. What
it cannot do: distinguish a Kafka group that is rebalancing from a stable one, because Kafka does not log that.
"""

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from muster_pipeline.schemas.gold import EXPIRY
from muster_pipeline.transforms.arrays import NONE, Ints
from muster_pipeline.transforms.classic_groups import ClassicState
from muster_pipeline.transforms.consumer_state import ConsumerState
from muster_pipeline.transforms.key_state import KeyState
from muster_pipeline.transforms.keys import KeyNumbers
from muster_pipeline.transforms.settings import FoldSettings


class GroupNow(NamedTuple):
    """The state of a group that expiry depends on."""

    kind: str
    state: str
    protocol_type: str | None
    state_timestamp_ms: int | None
    topics: frozenset[str] | None
    """Topics that any member subscribes to; None if a subscription is not readable."""


SIMPLE = GroupNow("simple", "simple", None, None, frozenset())
UNKNOWN = GroupNow("unknown", "unknown", None, None, None)
"""A group of which some record could not be read."""


def classic_now(state: ClassicState) -> GroupNow:
    """A classic group at the end of the log."""
    topics: frozenset[str] | None = frozenset()
    for member in () if state.view is None else state.view.members.values():
        topics = None if topics is None or member.topics is None else topics | member.topics
    return GroupNow("classic", state.state, state.protocol_type, state.state_timestamp_ms, topics)


def consumer_now(state: ConsumerState) -> GroupNow:
    """A group whose members the server assigns, at the end of the log."""
    topics: frozenset[str] | None = frozenset()
    for member in state.members.values():
        known = state.topics(member)
        topics = None if topics is None or known is None else topics | known
    return GroupNow(state.kind, state.state, "consumer", None, topics)


def rule(group: GroupNow, topic: str, *, is_pending: bool) -> str:
    """The rule of `schemas.gold.EXPIRY_RULES` that applies, explicit expiry apart."""
    if is_pending:
        return "pending_transaction"
    if group.kind == "unknown":
        return "unknown"
    if group.kind == "share":
        return "not_consumer"
    if group.kind in ("consumer", "streams"):
        if group.topics is None:
            return "not_consumer"
        return "subscribed" if topic in group.topics else "not_subscribed"
    if group.protocol_type is None:
        return "simple_group"
    if group.state == "empty":
        return "empty_group"
    if group.state != "stable":
        return "rebalancing"
    if group.protocol_type != "consumer" or group.topics is None:
        return "not_consumer"
    return "subscribed" if topic in group.topics else "not_subscribed"


def expiry_table(
    chosen: Ints,
    keys: KeyNumbers,
    state: KeyState,
    groups: Mapping[str, GroupNow],
    pending: Container[int],
    settings: FoldSettings,
    log_partition: int,
) -> pa.Table:
    """One row for each of the chosen keys, which have a committed offset."""
    size = len(keys)
    columns = (state.offset, state.commit_ms, state.expire_ms)
    told = zip(chosen.tolist(), *(column.ensure(size)[chosen].tolist() for column in columns), strict=True)
    rows = []
    for key, offset, commit_ms, expire_ms in told:
        group_id, topic, partition = keys.keys[key]
        group = groups.get(group_id, SIMPLE)
        verdict = _verdict(rule(group, topic, is_pending=key in pending), group, commit_ms, expire_ms, settings)
        rows.append(
            {
                "cluster": settings.cluster,
                "log_partition": log_partition,
                "group_id": group_id,
                "topic": topic,
                "partition": partition,
                "committed_offset": offset,
                "commit_timestamp_ms": commit_ms,
                "group_kind": group.kind,
                "group_state": group.state,
                **verdict,
            }
        )
    return pa.Table.from_pylist(rows, schema=EXPIRY)


def _verdict(name: str, group: GroupNow, commit_ms: int, expire_ms: int, settings: FoldSettings) -> dict[str, Any]:
    if name in ("subscribed", "rebalancing", "not_consumer", "pending_transaction", "unknown"):
        return {"rule": name, "base_timestamp_ms": None, "retention_ms": None, "expires_at_ms": None}
    if expire_ms != NONE:
        return {"rule": "explicit", "base_timestamp_ms": None, "retention_ms": None, "expires_at_ms": expire_ms}
    base_ms = commit_ms
    if name == "empty_group" and group.state_timestamp_ms is not None:
        base_ms = group.state_timestamp_ms
    retention_ms = settings.offsets_retention_ms
    return {
        "rule": name,
        "base_timestamp_ms": base_ms,
        "retention_ms": retention_ms,
        "expires_at_ms": base_ms + retention_ms,
    }
