"""One member of a classic group, as stored.

A value: a changed member is a new one, so neither a checkpoint's snapshot of the group nor a record in flight can
change. Timers and parked requests are not part of a member but of `live_group`, because they are lost with leadership.
"""

from typing import NamedTuple

from muster_coordinator.groups.requests import JoinGroup, Protocol


class Member(NamedTuple):
    """All that a new leader knows of a member."""

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
    """The assignment from the group's leader; empty until there is one. Its bytes are never interpreted."""

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for the chosen protocol; empty when it does not list it."""
        for listed in self.protocols:
            if listed.name == protocol:
                return listed.metadata
        return b""

    def stored_bytes(self) -> int:
        """Upper bound of the member's size in a record of its group, without the assignment."""
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
    """How long a rebalance waits for this member. If the timeout is not positive, its session timeout, as in JoinGroup
    v0: with 0 every join phase would end at once and the next would start."""
    return rebalance_timeout_ms if rebalance_timeout_ms > 0 else session_timeout_ms


def member_of(request: JoinGroup, member: str) -> Member:
    """The member that `request` describes, with the id `member`."""
    return Member(
        member,
        request.instance,
        request.client_id,
        request.client_host,
        rebalance_timeout_of(request.rebalance_timeout_ms, request.session_timeout_ms),
        request.session_timeout_ms,
        request.protocols,
    )
