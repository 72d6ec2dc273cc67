"""Raft messages of many groups in few payloads: one turn's messages for one peer share a frame (docs/peer-links.md).

Body: messages back to back, each `group u32 | type u8 | flags u8 | term u64 | index u64 | log_term u64 | commit u64 |
hint u64 | context u64 | entries u32`, then for each entry `term u64 | kind u8 | length u32 | data`. The first entry's
index is the message's index + 1. Sender and receiver are not encoded: they are the two ends of the link. An entry list
that goes to several followers is packed once.
"""

import struct
from collections.abc import Iterable, Iterator

from muster_coordinator.errors import WireError
from muster_coordinator.limits import PEER_FRAME_BYTES_MAX
from muster_coordinator.raft.messages import Entry, Message, MsgType
from muster_coordinator.replica.multiraft.payloads import HEAD_BYTES, HEADS, Kind

_MESSAGE = struct.Struct(">IBBQQQQQQI")
_ENTRY = struct.Struct(">QBI")
_REJECT = 1
_KNOWN = frozenset(MsgType)

URGENT = frozenset((
    MsgType.PRE_VOTE, MsgType.PRE_VOTE_REPLY, MsgType.VOTE, MsgType.VOTE_REPLY, MsgType.HEARTBEAT,
    MsgType.HEARTBEAT_REPLY, MsgType.TIMEOUT_NOW,
))  # fmt: skip
"""Message types sent on the control channel; the others use the append channel."""


class RaftPacker:
    """Packs one turn's messages. `_packed` keeps entry lists that were packed for one follower, for the next one."""

    __slots__ = ("_packed",)

    def __init__(self) -> None:
        self._packed: dict[int, tuple[tuple[Entry, ...], bytes]] = {}

    def pack(self, messages: Iterable[tuple[int, Message]]) -> Iterator[bytes]:
        """Payloads of at most `PEER_FRAME_BYTES_MAX`, or of one message with one larger entry."""
        parts: list[bytes] = [HEADS[Kind.RAFT]]
        size = HEAD_BYTES
        for group, message in messages:
            head = _MESSAGE.pack(
                group,
                message.type,
                _REJECT if message.reject else 0,
                message.term,
                message.index,
                message.log_term,
                message.commit,
                message.hint,
                message.context,
                len(message.entries),
            )
            body = self._entries(message.entries) if message.entries else b""
            more = len(head) + len(body)
            if size + more > PEER_FRAME_BYTES_MAX and size > HEAD_BYTES:
                yield b"".join(parts)
                parts = [HEADS[Kind.RAFT]]
                size = HEAD_BYTES
            parts.append(head)
            if body:
                parts.append(body)
            size += more
        if size > HEAD_BYTES:
            yield b"".join(parts)

    def _entries(self, entries: tuple[Entry, ...]) -> bytes:
        known = self._packed.get(id(entries))
        if known is not None:
            return known[1]
        parts = []
        for entry in entries:
            parts.append(_ENTRY.pack(entry.term, entry.kind, len(entry.data)))
            parts.append(entry.data)
        body = b"".join(parts)
        self._packed[id(entries)] = (entries, body)  # Invariant: the tuple is kept alive, so its id stays unique
        return body


def unpack_raft(payload: bytes, sender: int, receiver: int) -> list[tuple[int, Message]]:
    """(group, message) in the order they were packed. Raises `WireError`."""
    found: list[tuple[int, Message]] = []
    position, end = HEAD_BYTES, len(payload)
    while position < end:
        if end - position < _MESSAGE.size:
            raise WireError("a Raft message is cut short")
        group, kind, flags, term, index, log_term, commit, hint, context, count = _MESSAGE.unpack_from(
            payload, position
        )
        if kind not in _KNOWN:
            raise WireError(f"Raft message type {kind} is unknown")
        position += _MESSAGE.size
        entries: tuple[Entry, ...] = ()
        if count:
            if count * _ENTRY.size > end - position:
                raise WireError("a Raft message is cut short")
            entries, position = _unpack_entries(payload, position, index + 1, count)
        found.append(
            (
                group,
                Message(
                    kind, sender, receiver, term, index, log_term, commit, entries, bool(flags & _REJECT), hint, context
                ),
            )
        )
    return found


def _unpack_entries(payload: bytes, position: int, index: int, count: int) -> tuple[tuple[Entry, ...], int]:
    entries = []
    end = len(payload)
    for _ in range(count):
        if end - position < _ENTRY.size:
            raise WireError("a Raft entry is cut short")
        term, kind, length = _ENTRY.unpack_from(payload, position)
        position += _ENTRY.size
        if length > end - position:
            raise WireError("a Raft entry is cut short")
        entries.append(Entry(term, index, kind, payload[position : position + length]))
        position += length
        index += 1
    return tuple(entries), position
