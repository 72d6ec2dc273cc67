"""A transaction coordinator's state as a checkpoint body: equal bytes for equal state.

Body, version 1: the head is u16 version and u32 number of ids; each id is a blob, its key the id in UTF-8 and its value
the record's value as the log has it. The snapshot copies one dict of immutable values, and is encoded on an I/O thread.
"""

import hashlib
import struct
from collections.abc import Iterator

from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody, CheckpointParts
from muster_coordinator.ordering import in_order
from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.transaction_log import decode_transaction_value, encode_transaction_value
from muster_coordinator.transactions.log_state import LogState
from muster_coordinator.transactions.metadata import transaction_of, value_of

VERSION = 1
_HEAD = struct.Struct(">HI")
_U32 = struct.Struct(">I")


class CoordinatorImage:
    """An immutable snapshot of one coordinator's state."""

    __slots__ = ("_transactions",)

    def __init__(self, state: LogState) -> None:
        self._transactions = state.transactions.copy()

    def encode(self) -> CheckpointBody:
        """The whole body. O(ids)."""
        return self.parts().whole()

    def parts(self) -> CheckpointParts:
        """The body with blobs made on demand; it reads nothing that the loop may change."""
        return CheckpointParts(_HEAD.pack(VERSION, len(self._transactions)), self._blobs())

    def _blobs(self) -> Iterator[tuple[bytes, bytes]]:
        for transactional_id in in_order(self._transactions):
            value = encode_transaction_value(value_of(self._transactions[transactional_id]))
            yield transactional_id.encode(), value


def restore_state(body: CheckpointBody) -> LogState:
    """The state of which `body` was made. Raises Corruption or UnsupportedFormat if it cannot be read."""
    if len(body.head) < _HEAD.size:
        raise Corruption(f"a transaction coordinator's checkpoint of {len(body.head)} bytes")
    version, count = _HEAD.unpack_from(body.head)
    if version != VERSION:
        raise UnsupportedFormat(f"transaction coordinator checkpoint version {version}; this binary knows {VERSION}")
    if len(body.head) != _HEAD.size or count != len(body.blobs):
        raise Corruption(f"a transaction coordinator's checkpoint of {count} ids with {len(body.blobs)}")
    state = LogState()
    try:
        for key, blob in body.blobs:
            state.put(key.decode(), transaction_of(decode_transaction_value(blob)))
    except UnsupportedError as error:
        raise UnsupportedFormat(f"transaction coordinator checkpoint: {error}") from error
    except (MalformedError, UnicodeDecodeError) as error:
        raise Corruption(f"transaction coordinator checkpoint: {error}") from error
    return state


def body_hash(body: CheckpointBody) -> str:
    """SHA-256 over head, keys and blobs with their lengths."""
    digest = hashlib.sha256(body.head)
    for key, blob in body.blobs:
        digest.update(_U32.pack(len(key)) + key + _U32.pack(len(blob)) + blob)
    return digest.hexdigest()
