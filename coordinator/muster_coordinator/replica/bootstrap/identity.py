"""The identity of a data folder: the replica's uuid, its number of starts, and the record of the cluster it belongs to.

Problem: a broker id does not tell one data folder from another: after the loss of a disk, a replica with the same id
has other promises (decision 14). Mechanism: two small files, each `magic u32 | version u16 | length u32 | crc32c u32 |
body`, replaced as a whole by write, sync, rename, and sync of the folder. `identity` is written at every start (its
incarnation counts the starts); `cluster` has the record of decision 15 with its phase, prepared or formed. A seat of
the record is a broker id, the folder that it is bound to, and how often it was bound to another one: a lost folder is
replaced under the same id (ADR 38). As long as none was, the files are those of releases that know no bindings.

What it does not do: decide anything; `formation` does. These functions block, and run before the loop or in a job.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from itertools import zip_longest
from typing import NamedTuple

from crc32c import crc32c

from muster_coordinator.errors import Corruption, EnvironmentFault, UnsupportedFormat
from muster_coordinator.ids import BrokerId, MemberNo, member_no
from muster_coordinator.ports import Disk, Rand

IDENTITY_FILE = "identity"
CLUSTER_FILE = "cluster"
UUID_BYTES = 16
UNBOUND = bytes(UUID_BYTES)
"""The folder of a seat whose own is gone for good, until a new one is bound to it."""

_HEADER = struct.Struct(">IHII")
_IDENTITY = struct.Struct(">i16sQ")
_JOINED = b"\x01"
"""One more byte of the identity, see `Identity.joined`."""
_CLUSTER = struct.Struct(">B16sIHH")
_VOTER = struct.Struct(">i16s")
_BOUND_VOTER = struct.Struct(">i16sI")
"""As in a record of version 2: with the binding."""
_IDENTITY_MAGIC = 0x4D55_4944
_CLUSTER_MAGIC = 0x4D55_434C
_VERSION = 1
_WITH_BINDINGS = 2
"""Version of a record in which some seat was bound anew."""


class StartRefused(EnvironmentFault):
    """The data folder and the configuration contradict each other; the message names both values."""


class Identity(NamedTuple):
    """Identity of a data folder, at one start."""

    broker: BrokerId
    replica_uuid: bytes
    """16 bytes, drawn when the folder is first used, never all zero."""
    incarnation: int
    """Number of this start, from 1."""
    joined: bool = False
    """This folder replaced another one, and has been a part of the cluster: if its record is missing, that was lost."""


class Phase(IntEnum):
    """State of a replica's cluster record (decision 15)."""

    EMPTY = 0
    PREPARED = 1
    FORMED = 2


class Voter(NamedTuple):
    """A seat of the cluster: a broker and the data folder that votes for it."""

    broker: BrokerId
    replica_uuid: bytes
    """`UNBOUND`: the folder is gone for good, and no other is bound yet."""
    binding: int = 0
    """How often the broker's id was bound to another folder. It never falls."""

    def is_later(self, other: "Voter") -> bool:
        """Is this a later state of the same seat? With the same binding, being bound follows being unbound."""
        mine, its = (self.binding, self.replica_uuid != UNBOUND), (other.binding, other.replica_uuid != UNBOUND)
        return mine > its


class ClusterRecord(NamedTuple):
    """What all initial voters have agreed on."""

    cluster_id: str
    voters: tuple[Voter, ...]
    """Ascending by broker id."""
    offsets_partitions: int
    offsets_topic_id: bytes

    def uuid_of(self, broker: int) -> bytes | None:
        """The replica uuid of this voter; None if `broker` is not a voter."""
        for voter in self.voters:
            if voter.broker == broker:
                return voter.replica_uuid
        return None

    def brokers(self) -> tuple[BrokerId, ...]:
        return tuple(voter.broker for voter in self.voters)

    def member_of(self, broker: BrokerId) -> MemberNo:
        """The member that a voter is to Raft. Raises `LookupError` if `broker` is not a voter."""
        for voter in self.voters:
            if voter.broker == broker:
                return member_no(broker, voter.binding)
        raise LookupError(f"broker {broker} has no seat")

    def is_same_cluster(self, other: "ClusterRecord") -> bool:
        """Are both records of one cluster, at whatever time? A binding names one folder, in all of them."""
        return self._replace(voters=()) == other._replace(voters=()) and all(
            mine.broker == its.broker and (mine == its or mine.is_later(its) or its.is_later(mine))
            for mine, its in zip_longest(self.voters, other.voters, fillvalue=_NO_SEAT)
        )

    def merged(self, seats: Sequence[Voter]) -> "ClusterRecord":
        """This record with those of these seats, of the same cluster, that are later states of its own."""
        told = {seat.broker: seat for seat in seats}
        merged = []
        for own in self.voters:
            seat = told.get(own.broker, own)
            merged.append(seat if seat.is_later(own) else own)
        return self._replace(voters=tuple(merged))


_NO_SEAT = Voter(BrokerId(-1), UNBOUND)


def open_identity(disk: Disk, broker: BrokerId, rand: Rand) -> Identity:
    """Read the identity, or make a new one, and count this start; durable when it returns.

    Raises `StartRefused` if the folder belongs to another broker, `Corruption` if the identity is damaged.
    """
    body = _load(disk, IDENTITY_FILE, _IDENTITY_MAGIC)
    if body is None:
        identity = Identity(broker, _fresh_uuid(rand), 1)
    else:
        if body[_IDENTITY.size :] not in (b"", _JOINED) or len(body) < _IDENTITY.size:
            raise Corruption(f"the identity file holds {len(body)} bytes")
        owner, replica_uuid, incarnation = _IDENTITY.unpack_from(body)
        if owner != broker:
            record = load_cluster(disk)[1]
            whose = f"broker {owner}" + (f" of cluster {record.cluster_id}" if record is not None else "")
            raise StartRefused(f"this data folder belongs to {whose}, the configuration says broker {broker}")
        identity = Identity(broker, replica_uuid, incarnation + 1, len(body) > _IDENTITY.size)
    store_identity(disk, identity)
    return identity


def store_identity(disk: Disk, identity: Identity) -> None:
    """Replace the stored identity; durable when it returns."""
    body = _IDENTITY.pack(identity.broker, identity.replica_uuid, identity.incarnation)
    store(disk, IDENTITY_FILE, _IDENTITY_MAGIC, body + (_JOINED if identity.joined else b""))


def _fresh_uuid(rand: Rand) -> bytes:
    while True:
        uuid = rand.randbytes(UUID_BYTES)
        if any(uuid):
            return uuid


def load_cluster(disk: Disk) -> tuple[Phase, ClusterRecord | None]:
    """The stored cluster record; (EMPTY, None) when there is none."""
    body = _load(disk, CLUSTER_FILE, _CLUSTER_MAGIC)
    if body is None:
        return Phase.EMPTY, None
    if not body or body[0] not in (Phase.PREPARED, Phase.FORMED):
        raise Corruption("the cluster file has no known phase")
    try:
        return Phase(body[0]), unpack_record(body, 1)[0]
    except (struct.error, UnicodeDecodeError) as error:
        raise Corruption("the cluster file is malformed") from error


def store_cluster(disk: Disk, phase: Phase, record: ClusterRecord) -> None:
    """Replace the stored record; durable when it returns."""
    store(disk, CLUSTER_FILE, _CLUSTER_MAGIC, bytes([phase]) + pack_record(record))


def pack_record(record: ClusterRecord) -> bytes:
    """Encode a record, for the file and for bootstrap states."""
    name = record.cluster_id.encode()
    bound_anew = any(voter.binding for voter in record.voters)
    version = _WITH_BINDINGS if bound_anew else _VERSION
    fixed = _CLUSTER.pack(version, record.offsets_topic_id, record.offsets_partitions, len(record.voters), len(name))
    if bound_anew:
        seats = [_BOUND_VOTER.pack(*voter) for voter in record.voters]
    else:
        seats = [_VOTER.pack(voter.broker, voter.replica_uuid) for voter in record.voters]
    return fixed + name + b"".join(seats)


def unpack_record(data: bytes, position: int) -> tuple[ClusterRecord, int]:
    """The record at `position`, and where it ends. Raises `struct.error` or `UnicodeDecodeError` if it is malformed."""
    version, topic_id, partitions, voters, name_bytes = _CLUSTER.unpack_from(data, position)
    if version not in (_VERSION, _WITH_BINDINGS):
        raise UnsupportedFormat(f"cluster record version {version}; this binary knows up to {_WITH_BINDINGS}")
    seat = _VOTER if version == _VERSION else _BOUND_VOTER
    position += _CLUSTER.size
    name = data[position : position + name_bytes].decode()
    position += name_bytes
    found = []
    for _ in range(voters):
        found.append(Voter(*seat.unpack_from(data, position)))
        position += seat.size
    return ClusterRecord(name, tuple(found), partitions, topic_id), position


def store(disk: Disk, path: str, magic: int, body: bytes) -> None:
    """Replace a small file as a whole; durable when it returns."""
    temporary = path + ".tmp"
    if disk.exists(temporary):
        disk.unlink(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.pwrite(0, [_HEADER.pack(magic, _VERSION, len(body), crc32c(body)), body])
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_dir(path.rpartition("/")[0])


def load(disk: Disk, path: str, magic: int) -> bytes | None:
    """Body of a file that `store` has written; None if there is no such file."""
    return _load(disk, path, magic)


def _load(disk: Disk, path: str, magic: int) -> bytes | None:
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        data = file.pread(0, file.size())
    finally:
        file.close()
    if len(data) < _HEADER.size:
        raise Corruption(f"{path} is cut short")
    found, version, length, checksum = _HEADER.unpack_from(data)
    body = data[_HEADER.size : _HEADER.size + length]
    if found != magic:
        raise Corruption(f"{path} is not a file of this kind: its magic number is wrong")
    if version != _VERSION:
        raise UnsupportedFormat(f"{path} has version {version}; this binary knows {_VERSION}")
    if len(body) != length or crc32c(body) != checksum:
        raise Corruption(f"{path} fails its checksum")
    return body
