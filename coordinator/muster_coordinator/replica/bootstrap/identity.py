"""The identity of a data folder: the replica's uuid, its number of starts, and the record of the cluster it belongs to.

Problem: a broker id does not tell one data folder from another: after the loss of a disk, a replica with the same id
has other promises (decision 14). Mechanism: two small files, each `magic u32 | version u16 | length u32 | crc32c u32 |
body`, replaced as a whole by write, sync, rename, and sync of the folder. `identity` is written at every start (its
incarnation counts the starts); `cluster` has the record of decision 15 with its phase, prepared or formed. A seat of
the record is a broker id, the folder that it is bound to, and how often it was bound to another one: a lost folder is
replaced under the same id (ADR 38). Brokers that joined the formed cluster have seats of their own behind those of its
voters (ADR 41). As long as there is neither, the files are those of releases that know none of it. A record also has
the cluster's epoch: how often the cluster was recovered from one folder after a majority was lost (ADR 40). Folders of
different epochs have different histories, whatever their cluster id says.

What it does not do: decide anything; `formation` does. These functions block, and run before the loop or in a job.
"""

import hashlib
import struct
from collections.abc import Sequence
from enum import IntEnum
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
_WITH_JOINED = 3
"""Version of a record with brokers that joined later: as of version 2, then how many, and their seats."""
_COUNT = struct.Struct(">H")
_WITH_EPOCH = 4
"""Version of a record of a cluster that was recovered: as version 3, then the epoch and its id."""
_EPOCH = struct.Struct(">I16s")
NO_EPOCH_ID = bytes(UUID_BYTES)
"""Of epoch 0: the cluster as it was formed."""


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
    """This folder came after the cluster was formed, and has been a part of it: a record that is missing was lost."""


class Phase(IntEnum):
    """State of a replica's cluster record (decision 15)."""

    EMPTY = 0
    PREPARED = 1
    FORMED = 2
    LEFT_BEHIND = 3
    """The cluster was recovered without this data folder: it takes part in nothing any more (ADR 40). Its record names
    the seats as this folder knew them, and the epoch in which it is not."""


class Voter(NamedTuple):
    """A seat of the cluster: a broker and its data folder. Those of `ClusterRecord.voters` vote for it."""

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
    """What all initial voters have agreed on, and who has joined since."""

    cluster_id: str
    voters: tuple[Voter, ...]
    """Ascending by broker id; always of the same brokers."""
    offsets_partitions: int
    offsets_topic_id: bytes
    joined: tuple[Voter, ...] = ()
    """Brokers that joined the formed cluster, ascending. It only grows."""
    epoch: int = 0
    """How often the cluster was recovered from one folder after a majority was lost (ADR 40)."""
    epoch_id: bytes = NO_EPOCH_ID
    """Drawn at that recovery: two folders that were recovered apart from each other are of different clusters."""

    @property
    def seats(self) -> tuple[Voter, ...]:
        return self.voters + self.joined

    def uuid_of(self, broker: int) -> bytes | None:
        """The replica uuid of this broker; None if it has no seat."""
        for seat in self.seats:
            if seat.broker == broker:
                return seat.replica_uuid
        return None

    def brokers(self) -> tuple[BrokerId, ...]:
        """The initial voters."""
        return tuple(voter.broker for voter in self.voters)

    def has_others(self, broker: BrokerId) -> bool:
        """Has any other broker a data folder that is bound to it?"""
        return any(seat.broker != broker and seat.replica_uuid != UNBOUND for seat in self.seats)

    def member_of(self, broker: BrokerId) -> MemberNo:
        """The member that a broker is to Raft. Raises `LookupError` if it has no seat."""
        for seat in self.seats:
            if seat.broker == broker:
                return member_no(broker, seat.binding)
        raise LookupError(f"broker {broker} has no seat")

    def is_same_cluster(self, other: "ClusterRecord") -> bool:
        """Are both records of one cluster, at whatever time? A binding names one folder, in all of them."""
        if self._replace(voters=(), joined=()) != other._replace(voters=(), joined=()):
            return False
        if self.brokers() != other.brokers():
            return False
        its = {seat.broker: seat for seat in other.seats}
        return all(
            one == mine or mine.is_later(one) or one.is_later(mine)
            for mine in self.seats
            if (one := its.get(mine.broker)) is not None
        )

    def was_recovered_after(self, other: "ClusterRecord") -> bool:
        """Is this record of the same cluster, recovered without the folders that `other` is about?"""
        same = (self.cluster_id, self.offsets_topic_id) == (other.cluster_id, other.offsets_topic_id)
        return same and self.epoch > other.epoch

    def wal_uuid(self) -> bytes:
        """16 bytes that stand for the cluster in the headers of its WAL files, in every epoch."""
        return hashlib.blake2b(self.cluster_id.encode(), digest_size=16).digest()

    def merged(self, seats: Sequence[Voter]) -> "ClusterRecord":
        """This record with those of these seats, of the same cluster, that are later states of its own, or of brokers
        that it does not know."""
        told = {seat.broker: seat for seat in seats}
        mine = [_later(own, told.pop(own.broker, own)) for own in self.voters]
        others = [_later(own, told.pop(own.broker, own)) for own in self.joined]
        joined = sorted([*others, *told.values()], key=lambda seat: seat.broker)
        return self._replace(voters=tuple(mine), joined=tuple(joined))


def _later(own: Voter, told: Voter) -> Voter:
    return told if told.is_later(own) else own


def open_identity(disk: Disk, broker: BrokerId, rand: Rand) -> Identity:
    """Read the identity, or make a new one, and count this start; durable when it returns.

    Raises `StartRefused` if the folder belongs to another broker, `Corruption` if the identity is damaged.
    """
    found = load_identity(disk, broker)
    if found is None:
        identity = Identity(broker, _fresh_uuid(rand), 1)
    else:
        identity = found._replace(incarnation=found.incarnation + 1)
    store_identity(disk, identity)
    return identity


def load_identity(disk: Disk, broker: BrokerId) -> Identity | None:
    """The identity as of the last start; None if the folder was never used. Errors as `open_identity`."""
    body = _load(disk, IDENTITY_FILE, _IDENTITY_MAGIC)
    if body is None:
        return None
    if body[_IDENTITY.size :] not in (b"", _JOINED) or len(body) < _IDENTITY.size:
        raise Corruption(f"the identity file holds {len(body)} bytes")
    owner, replica_uuid, incarnation = _IDENTITY.unpack_from(body)
    if owner != broker:
        record = load_cluster(disk)[1]
        whose = f"broker {owner}" + (f" of cluster {record.cluster_id}" if record is not None else "")
        raise StartRefused(f"this data folder belongs to {whose}, the configuration says broker {broker}")
    return Identity(broker, replica_uuid, incarnation, len(body) > _IDENTITY.size)


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
    if not body or body[0] not in (Phase.PREPARED, Phase.FORMED, Phase.LEFT_BEHIND):
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
    version = _VERSION
    if record.epoch:
        version = _WITH_EPOCH
    elif record.joined:
        version = _WITH_JOINED
    elif any(voter.binding for voter in record.voters):
        version = _WITH_BINDINGS
    fixed = _CLUSTER.pack(version, record.offsets_topic_id, record.offsets_partitions, len(record.voters), len(name))
    if version == _VERSION:
        seats = [_VOTER.pack(voter.broker, voter.replica_uuid) for voter in record.voters]
    else:
        seats = [_BOUND_VOTER.pack(*voter) for voter in record.voters]
    if version >= _WITH_JOINED:
        seats += [_COUNT.pack(len(record.joined)), *(_BOUND_VOTER.pack(*seat) for seat in record.joined)]
    if version == _WITH_EPOCH:
        seats.append(_EPOCH.pack(record.epoch, record.epoch_id))
    return fixed + name + b"".join(seats)


def unpack_record(data: bytes, position: int) -> tuple[ClusterRecord, int]:
    """The record at `position`, and where it ends. Raises `struct.error` or `UnicodeDecodeError` if it is malformed."""
    version, topic_id, partitions, voters, name_bytes = _CLUSTER.unpack_from(data, position)
    if not _VERSION <= version <= _WITH_EPOCH:
        raise UnsupportedFormat(f"cluster record version {version}; this binary knows up to {_WITH_EPOCH}")
    seat = _VOTER if version == _VERSION else _BOUND_VOTER
    position += _CLUSTER.size
    name = data[position : position + name_bytes].decode()
    position += name_bytes
    found, position = _seats(seat, data, position, voters)
    record = ClusterRecord(name, found, partitions, topic_id)
    if version >= _WITH_JOINED:
        (count,) = _COUNT.unpack_from(data, position)
        joined, position = _seats(seat, data, position + _COUNT.size, count)
        record = record._replace(joined=joined)
    if version < _WITH_EPOCH:
        return record, position
    epoch, epoch_id = _EPOCH.unpack_from(data, position)
    return record._replace(epoch=epoch, epoch_id=epoch_id), position + _EPOCH.size


def _seats(row: struct.Struct, data: bytes, position: int, count: int) -> tuple[tuple[Voter, ...], int]:
    found = tuple(Voter(*row.unpack_from(data, position + index * row.size)) for index in range(count))
    return found, position + count * row.size


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
