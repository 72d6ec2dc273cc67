"""Types for the numbers that must not be mixed up.

Raft index and Kafka offset are two number spaces (docs/architecture.md, "Two number spaces"): an entry has an
index in its Raft group, a record batch has an offset in its partition, and only `apply` turns one into the other.
"""

from typing import NewType

BrokerId = NewType("BrokerId", int)
"""i32. Given at registration, never reused; also the id of a Raft voter."""
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
