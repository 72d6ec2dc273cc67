"""What a read_committed consumer makes of a Fetch answer, as Java's `CompletedFetch` does it."""

import heapq
import struct
from collections.abc import Iterable

from muster_coordinator.records.batch import BatchHeader, parse_header

ABORT_KEY = struct.pack(">hh", 0, 0)


def batches(data: bytes) -> list[tuple[BatchHeader, bytes]]:
    """The whole batches in `data`."""
    found, at = [], 0
    while at < len(data):
        header = parse_header(data, at)
        found.append((header, data[at : at + header.size_bytes]))
        at += header.size_bytes
    return found


def delivered(data: bytes, aborted: Iterable[tuple[int, int]]) -> list[BatchHeader]:
    """The data batches that reach the application. `aborted`: (producer id, first offset) of the answer."""
    ahead = [(first, producer) for producer, first in aborted]
    heapq.heapify(ahead)
    skipped: set[int] = set()
    found = []
    for header, batch in batches(data):
        if header.producer_id >= 0:
            while ahead and ahead[0][0] <= header.next_offset - 1:
                skipped.add(heapq.heappop(ahead)[1])
            if header.is_control and batch[66:70] == ABORT_KEY:
                skipped.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in skipped:
                continue
        if not header.is_control:
            found.append(header)
    return found
