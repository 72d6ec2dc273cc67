"""Batches of an offsets log, written once and then filled many times: what the generators of logs share.

The encoder of the tests makes the batches of one round; then log offsets, times, committed offsets, verdicts and CRCs
are set in many copies of their bytes at a time. The same rounds give the same bytes.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import crc32c
import numpy as np
from numpy.typing import NDArray

from tests.pipeline import logs

LOG_PARTITIONS = 16
KEYS_PER_GROUP = 16
TOPICS = 9
COMMIT_EVERY_MS = 5_000
START_MS = 1_750_000_020_000
SEGMENT_BYTES = 64 << 20
MARKER = "whole"
REWIND_EVERY = 97
ABORTED_EVERY = 89
OFFSET, COMMIT_MS = 0x1122334455660000, 0x77AA55CC33EE1100
_BASE_AT, _CRC_AT, _AFTER_CRC, _FIRST_MS_AT, _LAST_MS_AT = 0, 17, 21, 27, 35

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]


def make_once(root: Path, chunks: Callable[[int], Iterable[tuple[int, bytes]]]) -> Path:
    """A log's folder, made once: a marker file in it shows that it is complete. `chunks`: of a log partition, each with
    the log offset at which it begins."""
    marker = root / MARKER
    if not marker.exists():
        for number in range(LOG_PARTITIONS):
            _segments(root / f"__consumer_offsets-{number}", chunks(number))
        marker.touch()
    return root


def _segments(folder: Path, chunks: Iterable[tuple[int, bytes]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    segment, size = None, SEGMENT_BYTES
    for base, data in chunks:
        if size + len(data) > SEGMENT_BYTES:
            if segment is not None:
                segment.close()
            segment, size = (folder / f"{base:020}.log").open("wb"), 0
        assert segment is not None
        segment.write(data)
        size += len(data)
    if segment is not None:
        segment.close()


@dataclass(kw_only=True)
class Round:
    """The bytes of a round's batches, and where in them what differs from round to round stands."""

    data: bytearray = field(default_factory=bytearray)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Of each batch."""
    bases: list[tuple[int, int]] = field(default_factory=list)
    """(position, offset within the round)"""
    times: list[tuple[int, int]] = field(default_factory=list)
    """(position, ms within the round)"""
    offsets: list[tuple[int, int, int]] = field(default_factory=list)
    """(position, group, key) of committed offsets"""
    verdicts: list[tuple[int, int]] = field(default_factory=list)
    """(position, group) of markers' types"""
    numbers: list[int] = field(default_factory=list)
    """Positions of generations' numbers."""
    number_rounds: int = 1
    """Rounds from one generation to the next."""
    log_offset: int = 0

    def add(self, batch: logs.Batch, at_ms: int) -> int:
        """Returns its position."""
        at = len(self.data)
        self.data += logs.encode(batch, 0)
        self.spans.append((at, len(self.data)))
        self.bases.append((at + _BASE_AT, self.log_offset))
        self.times += [(at + one, at_ms) for one in (_FIRST_MS_AT, _LAST_MS_AT)]
        self.log_offset += len(batch.records)
        return at

    def found(self, at: int, pattern: bytes) -> list[int]:
        """Where a pattern stands in the batch at a position."""
        places, one = [], self.data.find(pattern, at)
        while one >= 0:
            places.append(one)
            one = self.data.find(pattern, one + len(pattern))
        return places

    def filled(self, base: int, per_round: int, first: int, count: int) -> bytes:
        """`count` rounds from `first` on, of which the first begins at the log offset `base`."""
        turn = np.arange(first, first + count, dtype=np.int64)[:, None]
        data = np.broadcast_to(np.frombuffer(bytes(self.data), dtype=np.uint8), (count, len(self.data))).copy()
        at, delta = _columns(self.bases, 2)
        _put(data, at, base + (turn - first) * per_round + delta, 8)
        at, ms = _columns(self.times, 2)
        _put(data, at, START_MS + turn * COMMIT_EVERY_MS + ms, 8)
        at, group, key = _columns(self.offsets, 3)
        speed = (group * 31 + key * 17) % 11
        back = (turn + group + key) % REWIND_EVERY == REWIND_EVERY - 1
        _put(data, at, 1_000 + turn * speed * 10 - back * 25, 8)
        at, group = _columns(self.verdicts, 2)
        _put(data, at, ((turn + group) % ABORTED_EVERY != 0).astype(np.int64), 2)
        (at,) = _columns([(one,) for one in self.numbers], 1)
        _put(data, at, np.broadcast_to(turn // self.number_rounds + 1, (count, len(self.numbers))), 4)
        for row in data:
            whole = memoryview(row)
            for begin, end in self.spans:
                struct.pack_into(">I", whole, begin + _CRC_AT, crc32c.crc32c(whole[begin + _AFTER_CRC : end]))
        return data.tobytes()

    def commit(self, group: int, at_ms: int, **owned: int) -> None:
        """A batch in which a group commits all its partitions; `owned`: by whom, in a transaction."""
        name, topic = f"group-{group:06}", f"topic-{group % TOPICS}"
        records = [
            logs.Record(
                key=logs.commit_key(name, topic, key), value=logs.commit_value(OFFSET + key, commit_ms=COMMIT_MS)
            )
            for key in range(KEYS_PER_GROUP)
        ]
        at = self.add(logs.Batch(records=records, transactional=bool(owned), **owned), at_ms)
        for key in range(KEYS_PER_GROUP):
            (found,) = self.found(at, struct.pack(">q", OFFSET + key))
            self.offsets.append((found, group, key))
        self.times += [(found, at_ms) for found in self.found(at, struct.pack(">q", COMMIT_MS))]


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> Sequence[Numbers]:
    """As arrays, also when there are no rows."""
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)


def _put(data: Bytes, at: Numbers, values: Numbers, size: int) -> None:
    """Write numbers of `size` bytes, big-endian, at these positions of every row. `values`: rows by positions."""
    if len(at):
        raw = np.ascontiguousarray(np.broadcast_to(values, (len(data), len(at))).astype(f">i{size}"))
        data[:, at[:, None] + np.arange(size)] = raw.view(np.uint8).reshape(len(data), len(at), size)
