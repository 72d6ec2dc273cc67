"""The file `recovery`: a recovery of the cluster from this folder that has begun and is not complete yet (ADR 40).

Problem: a recovery changes two WALs and the cluster record, which no disk changes at once. Mechanism: first everything
that is to be written is put into this file, and the file into the folder. From then on no replica starts on the folder,
and `muster recover` carries out what the file says, as often as it takes; the file goes last. So a power loss leaves
the folder as it was, or one whose recovery can be completed, and never one that is half of each. What it does not do:
decide what a recovery writes (`recovery.plan`), or write it (`recovery.execution`).
"""

import struct
from typing import NamedTuple

from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.ports import Disk
from muster_coordinator.replica.bootstrap.identity import (
    ClusterRecord,
    StartRefused,
    load,
    pack_record,
    store,
    unpack_record,
)

RECOVERY_FILE = "recovery"
_MAGIC = 0x4D55_5243
_HEAD = struct.Struct(">BQI")
"""Version, term, bytes of the command; then the command and the cluster record."""
_VERSION = 1


class RecoveryFile(NamedTuple):
    """What a recovery writes."""

    term: int
    """Term of the entries that it appends, above any term that this folder has seen."""
    command: bytes
    """The `RecoverCluster` of the controller's log, encoded."""
    record: ClusterRecord
    """The cluster record of the new epoch."""


def load_recovery(disk: Disk) -> RecoveryFile | None:
    """None: no recovery has begun, or it is complete. Raises `Corruption`, `UnsupportedFormat`."""
    body = load(disk, RECOVERY_FILE, _MAGIC)
    if body is None:
        return None
    try:
        version, term, command_bytes = _HEAD.unpack_from(body)
        if version != _VERSION:
            raise UnsupportedFormat(f"{RECOVERY_FILE} has version {version}; this binary knows {_VERSION}")
        record, end = unpack_record(body, _HEAD.size + command_bytes)
    except (struct.error, UnicodeDecodeError) as error:
        raise Corruption(f"{RECOVERY_FILE} is malformed") from error
    if end != len(body):
        raise Corruption(f"{RECOVERY_FILE} is malformed")
    return RecoveryFile(term, body[_HEAD.size : _HEAD.size + command_bytes], record)


def store_recovery(disk: Disk, recovery: RecoveryFile) -> None:
    """A recovery has begun. Durable when it returns."""
    head = _HEAD.pack(_VERSION, recovery.term, len(recovery.command))
    store(disk, RECOVERY_FILE, _MAGIC, head + recovery.command + pack_record(recovery.record))


def remove_recovery(disk: Disk) -> None:
    """The recovery is complete. Durable when it returns."""
    disk.unlink(RECOVERY_FILE)
    disk.sync_dir("")


def refuse_unfinished(disk: Disk) -> None:
    """Raises `StartRefused` while a recovery is not complete."""
    if disk.exists(RECOVERY_FILE):
        raise StartRefused("a recovery of this data folder was begun and not completed: run muster recover again")
