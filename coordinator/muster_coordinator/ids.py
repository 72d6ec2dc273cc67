"""Types for the numbers that must not be mixed up.

Raft index and Kafka offset are two number spaces (docs/architecture.md, "Two number spaces"): an entry has an
index in its Raft group, a record batch has an offset in its partition, and only `apply` turns one into the other.
"""

from typing import NewType

BrokerId = NewType("BrokerId", int)
"""i32. Given at registration, never reused."""
MemberNo = NewType("MemberNo", int)
"""i64. Number of a member of a Raft group: a broker id together with the data folder that it is bound to (ADR 37). It
is never given to another folder, so what a lost folder had promised binds nobody else."""
GroupNo = NewType("GroupNo", int)
"""u32. Number of a Raft group; 0 is the controller group; never reused."""
Term = NewType("Term", int)
"""Raft term (u64); also written as partitionLeaderEpoch (so it must stay below 2**31)."""
LogIndex = NewType("LogIndex", int)
"""Index of an entry in one Raft group's log, from 1; 0 means "before the first"."""
Offset = NewType("Offset", int)
"""Kafka offset of a record in one partition, from 0."""

CONTROLLER_GROUP = GroupNo(0)
FIRST_OFFSETS_GROUP = GroupNo(1)
"""Offsets partition p is Raft group 1 + p; topic partitions take the numbers after them."""

_BINDING_SHIFT = 32
_BROKER_MASK = (1 << _BINDING_SHIFT) - 1


def member_no(broker: BrokerId, binding: int) -> MemberNo:
    """`binding`: how often the broker's id was bound to another data folder. Of the first folder, 0, the number is the
    broker's id: clusters that never replaced a replica know no other."""
    assert 0 <= broker <= _BROKER_MASK >> 1, "a broker id is an i32, and not negative"
    assert 0 <= binding <= _BROKER_MASK >> 1, "with it, the number is an i64"
    return MemberNo(binding << _BINDING_SHIFT | broker)


def broker_of(member: int) -> BrokerId:
    """The broker of a member; of a negative number, such as `raft.messages.NOBODY`, that number."""
    return BrokerId(member if member < 0 else member & _BROKER_MASK)


def binding_of(member: MemberNo) -> int:
    """Which of its broker's folders the member is; 0 is the first."""
    return member >> _BINDING_SHIFT
