"""Payloads that replicas send each other: each is `version u8 | kind u8 | body`, big-endian (docs/format.md).

Here: the head of a payload and the small bodies (heartbeats, leaders, forwarded commands, hello). Raft messages are in
`raft_payload`, snapshot install in `install_payload`, the bootstrap state in `bootstrap_payload`. A payload that is
malformed, of another version or of an unknown kind raises `WireError`: the link that brought it is closed. What this
does not do: decoding checks the form of a payload, not whether its content is plausible.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import PEER_FRAME_BYTES_MAX
from muster_coordinator.replica import limits

VERSION = 1


class Kind(IntEnum):
    """Kind of a payload. Never renumber, never reuse."""

    RAFT = 1
    HEARTBEAT = 2
    HEARTBEAT_ACK = 3
    LEADERS = 4
    COMMAND = 5
    COMMAND_RESULT = 6
    BOOTSTRAP_STATE = 7
    INSTALL_ASK = 8
    INSTALL_OFFER = 9
    INSTALL_REFUSAL = 10
    CHUNK_ASK = 11
    CHUNK = 12
    CHECK_ASK = 13
    """Sent only to a peer whose offer says that it knows this kind."""
    CHECK = 14
    MARKERS = 15
    """This and those after it only between replicas of a cluster that has a transaction log, which none of an older
    release is part of (ADR 63)."""
    MARKERS_RESULT = 16
    VERIFY = 17
    VERIFY_RESULT = 18
    WEIGHTS = 19
    """This and those after it are sent from `MEMBERS_LEVEL` on only, which no replica of an older release has come to
    (ADR 81)."""
    ELECT = 20


_HEAD = struct.Struct(">BB")
HEAD_BYTES = _HEAD.size
HEADS = {kind: _HEAD.pack(VERSION, kind) for kind in Kind}
_KINDS = {kind.value: kind for kind in Kind}

_HEARTBEAT = struct.Struct(">BQQIQII")
_NAMED = struct.Struct(">IQQQ")
_GROUP = struct.Struct(">I")
_ACK = struct.Struct(">BQQI")
_REJECTED = struct.Struct(">IQ")
_LOW = b"\x01"
_LEADER = struct.Struct(">IQi")
_COUNT = struct.Struct(">I")
_COMMAND = struct.Struct(">QI")
_RESULT = struct.Struct(">Q")

assert HEAD_BYTES + _HEARTBEAT.size + limits.HEARTBEAT_ROWS_MAX * (_GROUP.size + _NAMED.size) <= PEER_FRAME_BYTES_MAX
assert HEAD_BYTES + _ACK.size + limits.HEARTBEAT_ROWS_MAX * _REJECTED.size + len(_LOW) <= PEER_FRAME_BYTES_MAX
assert HEAD_BYTES + _COUNT.size + limits.LEADERS_PER_FRAME_MAX * _LEADER.size <= PEER_FRAME_BYTES_MAX


def encode_elect(group: GroupNo) -> bytes:
    """To the group's leader: a client asks that its preferred replica leads it."""
    return HEADS[Kind.ELECT] + _GROUP.pack(group)


def decode_elect(payload: bytes) -> GroupNo:
    """Raises `WireError`."""
    if len(payload) < HEAD_BYTES + _GROUP.size:
        raise WireError("a wanted election is cut short")
    return GroupNo(_GROUP.unpack_from(payload, HEAD_BYTES)[0])


def kind_of(payload: bytes) -> Kind:
    """Raises `WireError` for another version or an unknown kind."""
    if len(payload) < HEAD_BYTES:
        raise WireError("a peer payload without its head")
    if payload[0] != VERSION:
        raise WireError(f"peer payload version {payload[0]}; this binary knows {VERSION}")
    kind = _KINDS.get(payload[1])
    if kind is None:
        raise WireError(f"peer payload kind {payload[1]} is unknown")
    return kind


def table(row: struct.Struct, data: bytes, position: int, count: int, what: str) -> tuple[list[tuple[int, ...]], int]:
    """`count` rows at `position`, and where they end. The length is checked before rows are made."""
    end = position + row.size * count
    if end > len(data):
        raise WireError(f"{what} is cut short")
    return list(row.iter_unpack(data[position:end])), end


class NamedGroup(NamedTuple):
    """A group whose term or commit changed since the last heartbeat to this peer."""

    group: int
    term: int
    commit: int
    """The commit index for the peer. Invariant: not above what the peer is known to hold."""
    leader_commit: int
    """The leader's own commit index, by which the peer judges how far behind it is. 0 until the leader has committed an
    entry of its term: before that its commit index may be lower than its predecessor's."""


class HostHeartbeat(NamedTuple):
    """One host's heartbeat for all groups it leads with a voter at this peer (decision 19)."""

    anew: bool
    """Forget what earlier heartbeats of this host covered; `named` holds all covered groups."""
    round: int
    sent_ms: int
    """The sender's monotonic clock; the ack returns it."""
    covered: int
    """How many groups this heartbeat covers, `named` included."""
    cover_hash: int
    dropped: tuple[int, ...]
    """Groups removed from what the sender covers: it no longer leads them, or the peer has rejected them."""
    named: tuple[NamedGroup, ...]


class HostHeartbeatAck(NamedTuple):
    """Answer to a heartbeat."""

    matched: bool
    """The receiver's set of covered groups equals the sender's. For each of them that is not rejected, it follows the
    sender in the covered term."""
    round: int
    sent_ms: int
    rejected: tuple[tuple[int, int], ...]
    """(group, the receiver's term) of covered groups that do not follow the sender; acks of round 0 before this one may
    have carried some of them."""
    low: bool = False
    """The disk of the ack's sender is low. Encoded as one more byte at the end, which older releases do not read."""


def encode_heartbeat(heartbeat: HostHeartbeat) -> bytes:
    parts = [
        HEADS[Kind.HEARTBEAT],
        _HEARTBEAT.pack(
            heartbeat.anew,
            heartbeat.round,
            heartbeat.sent_ms,
            heartbeat.covered,
            heartbeat.cover_hash,
            len(heartbeat.dropped),
            len(heartbeat.named),
        ),
    ]
    parts += [_GROUP.pack(group) for group in heartbeat.dropped]
    parts += [_NAMED.pack(*named) for named in heartbeat.named]
    return b"".join(parts)


def decode_heartbeat(payload: bytes) -> HostHeartbeat:
    if len(payload) < HEAD_BYTES + _HEARTBEAT.size:
        raise WireError("a heartbeat is cut short")
    anew, round_no, sent_ms, covered, cover_hash, drops, names = _HEARTBEAT.unpack_from(payload, HEAD_BYTES)
    dropped, position = table(_GROUP, payload, HEAD_BYTES + _HEARTBEAT.size, drops, "a heartbeat")
    named, _ = table(_NAMED, payload, position, names, "a heartbeat")
    return HostHeartbeat(
        bool(anew),
        round_no,
        sent_ms,
        covered,
        cover_hash,
        tuple(row[0] for row in dropped),
        tuple(NamedGroup(*row) for row in named),
    )


def encode_heartbeat_ack(ack: HostHeartbeatAck) -> bytes:
    fixed = _ACK.pack(ack.matched, ack.round, ack.sent_ms, len(ack.rejected))
    return b"".join(
        [HEADS[Kind.HEARTBEAT_ACK], fixed, *(_REJECTED.pack(*row) for row in ack.rejected), _LOW if ack.low else b""]
    )


def decode_heartbeat_ack(payload: bytes) -> HostHeartbeatAck:
    if len(payload) < HEAD_BYTES + _ACK.size:
        raise WireError("a heartbeat ack is cut short")
    matched, round_no, sent_ms, count = _ACK.unpack_from(payload, HEAD_BYTES)
    rows, end = table(_REJECTED, payload, HEAD_BYTES + _ACK.size, count, "a heartbeat ack")
    rejected = tuple((row[0], row[1]) for row in rows)
    return HostHeartbeatAck(bool(matched), round_no, sent_ms, rejected, payload[end : end + len(_LOW)] == _LOW)


class LeaderNews(NamedTuple):
    """The leader of a group in a term."""

    group: GroupNo
    term: int
    leader: BrokerId


def encode_leaders(news: Sequence[LeaderNews]) -> list[bytes]:
    """The news in as many payloads as needed, each complete in itself; none if there is no news."""
    return [
        b"".join([HEADS[Kind.LEADERS], _COUNT.pack(len(rows)), *(_LEADER.pack(*row) for row in rows)])
        for start in range(0, len(news), limits.LEADERS_PER_FRAME_MAX)
        if (rows := news[start : start + limits.LEADERS_PER_FRAME_MAX])
    ]


def decode_leaders(payload: bytes) -> list[LeaderNews]:
    if len(payload) < HEAD_BYTES + _COUNT.size:
        raise WireError("news of leaders is cut short")
    (count,) = _COUNT.unpack_from(payload, HEAD_BYTES)
    rows, _ = table(_LEADER, payload, HEAD_BYTES + _COUNT.size, count, "news of leaders")
    return [LeaderNews(GroupNo(group), term, BrokerId(leader)) for group, term, leader in rows]


def encode_command(request: int, wait_ms: int, command: bytes) -> bytes:
    """A controller command forwarded to the leader, which must not propose it later than `wait_ms` after it came."""
    return HEADS[Kind.COMMAND] + _COMMAND.pack(request, wait_ms) + command


def decode_command(payload: bytes) -> tuple[int, int, bytes]:
    if len(payload) < HEAD_BYTES + _COMMAND.size:
        raise WireError("a forwarded command is cut short")
    request, wait_ms = _COMMAND.unpack_from(payload, HEAD_BYTES)
    return request, wait_ms, payload[HEAD_BYTES + _COMMAND.size :]


def encode_result(request: int, result: bytes) -> bytes:
    return HEADS[Kind.COMMAND_RESULT] + _RESULT.pack(request) + result


def decode_result(payload: bytes) -> tuple[int, bytes]:
    if len(payload) < HEAD_BYTES + _RESULT.size:
        raise WireError("the result of a forwarded command is cut short")
    return _RESULT.unpack_from(payload, HEAD_BYTES)[0], payload[HEAD_BYTES + _RESULT.size :]


class Hello(NamedTuple):
    """The replica's part of a link's handshake (decision 14)."""

    broker: BrokerId
    replica_uuid: bytes
    incarnation: int
    cluster_id: str
    """"" before the replica belongs to a cluster."""
    epoch: int = 0
    """How often its cluster was recovered, and the id of the last time (ADR 40). Encoded behind the rest, where older
    releases do not read it, and only if it is not 0."""
    epoch_id: bytes = bytes(16)


_HELLO = struct.Struct(">Bi16sQH")
_EPOCH = struct.Struct(">I16s")


def encode_hello(hello: Hello) -> bytes:
    name = hello.cluster_id.encode()
    fixed = _HELLO.pack(VERSION, hello.broker, hello.replica_uuid, hello.incarnation, len(name))
    return fixed + name + (_EPOCH.pack(hello.epoch, hello.epoch_id) if hello.epoch else b"")


def decode_hello(data: bytes) -> Hello:
    if len(data) < _HELLO.size:
        raise WireError("a replica's hello is cut short")
    version, broker, uuid, incarnation, name_bytes = _HELLO.unpack_from(data)
    if version != VERSION:
        raise WireError(f"hello version {version}; this binary knows {VERSION}")
    try:
        name = data[_HELLO.size : _HELLO.size + name_bytes].decode()
    except UnicodeDecodeError as error:
        raise WireError("a replica's hello with a bad cluster id") from error
    hello = Hello(BrokerId(broker), uuid, incarnation, name)
    behind = _HELLO.size + name_bytes
    if len(data) < behind + _EPOCH.size:
        return hello
    epoch, epoch_id = _EPOCH.unpack_from(data, behind)
    return hello._replace(epoch=epoch, epoch_id=epoch_id)
