"""Small WALs on a simulated disk, and the writes that fill them."""

from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.members import Placed, encode_config
from muster_coordinator.raft.messages import Entry, EntryKind, HardState
from muster_coordinator.raft.quorum import Config
from muster_coordinator.storage.contract import GroupWrites, RecoveryPoint
from muster_coordinator.storage.limits import WAL_STATES_PER_BATCH
from muster_coordinator.storage.wal import Wal

NODE = bytes(range(16))
CLUSTER = bytes(range(16, 32))
FOLDER = "wal/offsets"
FILE_BYTES = 4096


def open_wal(
    disk,
    *,
    node=NODE,
    file_bytes=FILE_BYTES,
    files_max=16,
    cache_bytes_max=1 << 20,
    states_per_batch=WAL_STATES_PER_BATCH,
):
    return Wal.open(
        disk,
        FOLDER,
        node_uuid=node,
        cluster_uuid=CLUSTER,
        file_bytes=file_bytes,
        bytes_max=file_bytes * files_max,
        cache_bytes_max=cache_bytes_max,
        states_per_batch=states_per_batch,
    )


def entry(index, term=1, data=None):
    return Entry(term, index, EntryKind.NORMAL, b"%d:%d" % (term, index) if data is None else data)


def entries(low, high, term=1, size=None):
    """[low, high) of one term; `size` bytes each if given."""
    return tuple(
        entry(i, term, None if size is None else (b"%d:%d|" % (term, i)).ljust(size, b".")) for i in range(low, high)
    )


def conf(index, config, term=1):
    return Entry(term, index, EntryKind.CONF, encode_config(config))


def some_config(number):
    """Different ones for different numbers; some are joint, and members are of any size that a number may have."""
    few = [(number + n) << (31 * (n % 2)) for n in range(1, 2 + number % 5)]
    return Config(tuple(few), tuple(few[:1]) if number % 3 == 0 else (), (number + 9,) if number % 2 else ())


def writes(group, new=(), *, hard=None, recovery_point=None, checkpoint=None, config=None):
    """`config`: the one at the checkpoint."""
    return GroupWrites(
        GroupNo(group),
        HardState(*hard) if hard else None,
        tuple(new),
        RecoveryPoint(*recovery_point) if recovery_point else None,
        checkpoint,
        None if config is None else Placed(checkpoint[0], config),
    )


def commit(wal, *some):
    """Stage and make durable, as one turn would."""
    for one in some:
        wal.stage(one)
    job = wal.take_job()
    assert job is not None
    job()
    wal.job_done()


def all_entries(wal, group):
    """Everything the WAL still holds of a group."""
    low = 1
    while wal.term_at(GroupNo(group), low) is None or not wal.read(GroupNo(group), low, low + 1, 1):
        low += 1
        if low > 5000:
            return []
    return wal.read(GroupNo(group), low, 1 << 40, 1 << 40)


def wal_files(disk):
    return [name for name in disk.listdir(FOLDER) if name.endswith(".wal")]
