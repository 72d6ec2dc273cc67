"""End-transaction markers: the control batches that commit or abort a producer's open transaction (KIP-98)."""

import struct
from typing import NamedTuple

from muster_coordinator.records.batch import Record
from muster_coordinator.records.errors import MalformedError, UnsupportedError

ABORT = 0
COMMIT = 1
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class EndMarker(NamedTuple):
    """How a transaction ended."""

    commit: bool
    coordinator_epoch: int


def decode_control(record: Record) -> EndMarker | None:
    """The marker in a record of a control batch; None for control types that end no transaction."""
    if record.key is None or len(record.key) < _KEY.size:
        raise MalformedError("a control record without its key")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise MalformedError(f"control key version {version}")
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise MalformedError("an end-transaction marker without its value")
    value_version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if value_version < 0:
        raise UnsupportedError(f"end-transaction marker version {value_version}")
    return EndMarker(kind == COMMIT, coordinator_epoch)
