"""The records that change a classic group, between their schemas and `ClassicGroup` (protocol notes 5.3, own types 1000
and 1001).

| record | replays as |
|---|---|
| GroupMetadata (2) with members | Stable |
| GroupMetadata (2) without | Empty |
| CandidateGeneration (1000) | CompletingRebalance |
| GroupRebalance (1001) | PreparingRebalance |

GroupMetadata holds each member's metadata for the chosen protocol only. Members that are also in an earlier record of
the same generation keep that record's full protocol lists. Otherwise, after a failover, a rolling change of assignors
would find members that seem to support only one.
"""

from muster_coordinator.groups.requests import Protocol
from muster_coordinator.groups.state.classic_group import ClassicGroup, State
from muster_coordinator.groups.state.member import Member, rebalance_timeout_of
from muster_coordinator.records.keys import encode_candidate_key, encode_group_key, encode_rebalance_key
from muster_coordinator.records.offsets_log import (
    GroupMetadataValue,
    MetadataMember,
    decode_group_value,
    encode_group_value,
)
from muster_coordinator.records.own import (
    CandidateGeneration,
    GroupRebalance,
    OwnMember,
    decode_candidate,
    decode_rebalance,
    encode_candidate,
    encode_rebalance,
)

KeyAndValue = tuple[bytes, bytes]


def metadata_record(group_id: str, group: ClassicGroup) -> KeyAndValue:
    """Kafka's GroupMetadata of a Stable or Empty group."""
    assert group.state in (State.STABLE, State.EMPTY)
    members = tuple(
        MetadataMember(
            m.id,
            m.instance,
            m.client_id,
            m.client_host,
            m.rebalance_timeout_ms,
            m.session_timeout_ms,
            m.metadata(group.protocol),
            m.assignment,
        )
        for m in group.members.values()
    )
    value = GroupMetadataValue(
        group.protocol_type or "", group.generation, group.protocol, group.leader, group.state_timestamp_ms, members
    )
    return encode_group_key(group_id), encode_group_value(value)


def candidate_record(group_id: str, group: ClassicGroup) -> KeyAndValue:
    """Own type 1000: a generation that waits for its leader's assignments."""
    assert group.members
    value = CandidateGeneration(
        group.protocol_type or "",
        group.generation,
        group.protocol or "",
        group.leader or "",
        group.state_timestamp_ms,
        _own_members(group),
    )
    return encode_candidate_key(group_id), encode_candidate(value)


def rebalance_record(group_id: str, group: ClassicGroup, reason: str) -> KeyAndValue:
    """Own type 1001: the generation has ended; the members that remain."""
    assert group.state is State.PREPARING
    value = GroupRebalance(
        group.protocol_type or "",
        group.generation,
        group.protocol,
        group.leader,
        group.state_timestamp_ms,
        _own_members(group),
        reason[:REASON_CHARS_MAX],
    )
    return encode_rebalance_key(group_id), encode_rebalance(value)


REASON_CHARS_MAX = 255
"""Clients truncate their reasons to this length (KIP-800)."""


def decode_group(base: tuple[State, bytes] | None, metadata: bytes | None) -> ClassicGroup:
    """The group of its last records: `base` is the last own record, `metadata` a GroupMetadata that came after it."""
    started = None if base is None else _decode_own(*base)
    if metadata is None:
        assert started is not None, "a group is stored by one of the two at least"
        return started
    value = decode_group_value(metadata)
    known = {} if started is None else started.members
    return ClassicGroup(
        state=State.STABLE if value.members else State.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        state_timestamp_ms=value.state_timestamp_ms,
        members=[_member(m, value.protocol or "", known.get(m.id)) for m in value.members],
    )


def _member(stored: MetadataMember, protocol: str, known: Member | None) -> Member:
    chosen = Protocol(protocol, stored.subscription)
    return Member(
        stored.id,
        stored.instance,
        stored.client_id,
        stored.client_host,
        rebalance_timeout_of(stored.rebalance_timeout_ms, stored.session_timeout_ms),
        stored.session_timeout_ms,
        known.protocols if known is not None and chosen in known.protocols else (chosen,),
        stored.assignment,
    )


def _own_members(group: ClassicGroup) -> tuple[OwnMember, ...]:
    return tuple(
        OwnMember(
            m.id,
            m.instance,
            m.client_id,
            m.client_host,
            m.rebalance_timeout_ms,
            m.session_timeout_ms,
            tuple((p.name, p.metadata) for p in m.protocols),
            m.assignment,
        )
        for m in group.members.values()
    )


def _decode_own(state: State, value: bytes) -> ClassicGroup:
    own = decode_candidate(value) if state is State.COMPLETING else decode_rebalance(value)
    return ClassicGroup(
        state=state,
        generation=own.generation,
        protocol_type=own.protocol_type or None,
        protocol=own.protocol,
        leader=own.leader,
        state_timestamp_ms=own.state_timestamp_ms,
        members=[
            Member(
                m.id,
                m.instance,
                m.client_id,
                m.client_host,
                rebalance_timeout_of(m.rebalance_timeout_ms, m.session_timeout_ms),
                m.session_timeout_ms,
                tuple(Protocol(name, metadata) for name, metadata in m.protocols),
                m.assignment,
            )
            for m in own.members
        ],
    )
