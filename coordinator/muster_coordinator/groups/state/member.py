"""One member of a classic group, as it is stored.

A value: changing a member means making another one, so a group's snapshot taken for a checkpoint, or for a record
that is in flight, cannot change under it. Timers and parked requests are no part of a member (`live_group`): they
die with leadership.
"""

from typing import NamedTuple

from muster_coordinator.groups.requests import JoinGroup, Protocol


class Member(NamedTuple):
    """Everything that survives the leader."""

    id: str
    instance: str | None
    """`group.instance.id` of a static member (KIP-345)."""
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    """In the member's order of preference."""
    assignment: bytes = b""
    """What the leader chose for it; empty until then. Never looked into."""

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for the chosen protocol; empty when it does not list it."""
        for listed in self.protocols:
            if listed.name == protocol:
                return listed.metadata
        return b""

    def stored_bytes(self) -> int:
        """What it adds to a record of its group at most, without the assignment."""
        size = _FIXED_BYTES
        for text in (self.id, self.instance, self.client_id, self.client_host):
            size += _text_bytes(text)
        for listed in self.protocols:
            size += _text_bytes(listed.name) + len(listed.metadata) + _PROTOCOL_FIXED_BYTES
        return size


def _text_bytes(text: str | None) -> int:
    if text is None:
        return 0
    return len(text) if text.isascii() else len(text.encode())


_FIXED_BYTES = 32
_PROTOCOL_FIXED_BYTES = 8


def rebalance_timeout_of(rebalance_timeout_ms: int, session_timeout_ms: int) -> int:
    """How long a rebalance waits for this member. Its session timeout, as in JoinGroup v0, when it names none that
    time could be: 0 would end every join phase at once, and begin the next."""
    return rebalance_timeout_ms if rebalance_timeout_ms > 0 else session_timeout_ms


def member_of(request: JoinGroup, member: str) -> Member:
    """The member that `request` describes, under the id it has or was given."""
    return Member(
        member,
        request.instance,
        request.client_id,
        request.client_host,
        rebalance_timeout_of(request.rebalance_timeout_ms, request.session_timeout_ms),
        request.session_timeout_ms,
        request.protocols,
    )
