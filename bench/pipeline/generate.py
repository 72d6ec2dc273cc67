"""Segment files as brokers write them, with any number of offset commits: real batches, real CRCs, made with numpy.

Every group commits all its partitions in one batch every COMMIT_EVERY_MS. The encoder of the tests encodes one batch of
each group; then offsets, times and CRC are set in many copies at a time. Offsets advance at different speeds, some
stand still, and one commit in REWIND_EVERY goes back. The same number of records gives the same bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c
import numpy as np
from numpy.typing import NDArray

from tests.pipeline import logs

LOG_PARTITIONS = 16
GROUPS_PER_PARTITION = 62
KEYS_PER_GROUP = 16
TOPICS = 9
BATCHES_PER_ROUND = GROUPS_PER_PARTITION * KEYS_PER_GROUP
COMMIT_EVERY_MS = 5_000
START_MS = 1_750_000_020_000
SEGMENT_BYTES = 64 << 20
REWIND_EVERY = 97
_ROUNDS_AT_ONCE = 64
_OFFSET, _COMMIT_MS = 0x1122334455660000, 0x77AA55CC33EE1100
_BASE_AT, _CRC_AT, _AFTER_CRC, _FIRST_MS_AT, _LAST_MS_AT = 0, 17, 21, 27, 35

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Groups, partitions and rounds for a number of records."""

    rounds: int

    @classmethod
    def of(cls, records: int) -> "Shape":
        """At least one round; rounded down to whole rounds."""
        return cls(rounds=max(1, records // (LOG_PARTITIONS * BATCHES_PER_ROUND)))

    @property
    def records(self) -> int:
        return self.rounds * LOG_PARTITIONS * BATCHES_PER_ROUND


def make(folder: Path, shape: Shape) -> Path:
    """The log's folder, made once: a marker file beside it shows that it is complete."""
    root = folder / f"log-{shape.records}"
    marker = root / "whole"
    if not marker.exists():
        for number in range(LOG_PARTITIONS):
            _partition(root / f"__consumer_offsets-{number}", number, shape.rounds)
        marker.touch()
    return root


def _partition(folder: Path, number: int, rounds: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stack, offsets_at, times_at = _templates(number)
    segment, size = None, SEGMENT_BYTES
    for first in range(0, rounds, _ROUNDS_AT_ONCE):
        count = min(_ROUNDS_AT_ONCE, rounds - first)
        base = first * BATCHES_PER_ROUND
        data = b"".join(_filled(stack, offsets_at, times_at, number, first, count))
        if size + len(data) > SEGMENT_BYTES:
            if segment is not None:
                segment.close()
            segment, size = (folder / f"{base:020}.log").open("wb"), 0
        assert segment is not None
        segment.write(data)
        size += len(data)
    if segment is not None:
        segment.close()


def _templates(number: int) -> tuple[Bytes, list[int], list[int]]:
    """One batch per group, and the positions of its offsets and times."""
    batches = []
    for group in range(GROUPS_PER_PARTITION):
        name = f"group-{number * GROUPS_PER_PARTITION + group:06}"
        records = [
            logs.Record(
                key=logs.commit_key(name, f"topic-{group % TOPICS}", key),
                value=logs.commit_value(_OFFSET + key, commit_ms=_COMMIT_MS),
            )
            for key in range(KEYS_PER_GROUP)
        ]
        batches.append(logs.encode(logs.Batch(records=records, timestamp_ms=START_MS, producer_id=-1), 0))
    first = batches[0]
    offsets = [first.index(struct.pack(">q", _OFFSET + key)) for key in range(KEYS_PER_GROUP)]
    times, at = [], first.find(struct.pack(">q", _COMMIT_MS))
    while at >= 0:
        times.append(at)
        at = first.find(struct.pack(">q", _COMMIT_MS), at + 8)
    assert len(times) == KEYS_PER_GROUP
    assert {len(one) for one in batches} == {len(first)}
    return np.frombuffer(b"".join(batches), dtype=np.uint8).reshape(GROUPS_PER_PARTITION, len(first)), offsets, times


def _filled(
    stack: Bytes, offsets_at: list[int], times_at: list[int], number: int, first: int, count: int
) -> Iterator[bytes]:
    """The batches of some rounds, in log order."""
    data = np.broadcast_to(stack, (count, *stack.shape)).copy()
    turn = np.arange(first, first + count, dtype=np.int64)[:, None]
    group = np.arange(GROUPS_PER_PARTITION, dtype=np.int64)[None, :]
    _set(data, _BASE_AT, (turn * GROUPS_PER_PARTITION + group) * KEYS_PER_GROUP)
    now = START_MS + turn * COMMIT_EVERY_MS + group * 7
    for at in (_FIRST_MS_AT, _LAST_MS_AT, *times_at):
        _set(data, at, now)
    for key, at in enumerate(offsets_at):
        speed = (group * 31 + key * 17 + number) % 11
        back = (turn + group + key) % REWIND_EVERY == REWIND_EVERY - 1
        _set(data, at, 1_000 + turn * speed * 10 - back * 25)
    for batch in data.reshape(-1, stack.shape[1]):
        batch[_CRC_AT:_AFTER_CRC] = np.frombuffer(
            struct.pack(">I", crc32c.crc32c(batch[_AFTER_CRC:].tobytes())), dtype=np.uint8
        )
    yield data.tobytes()


def _set(data: Bytes, at: int, values: NDArray[np.int64]) -> None:
    """Write eight bytes, big-endian, into every batch."""
    whole = np.broadcast_to(values, data.shape[:2]).astype(">i8")
    data[:, :, at : at + 8] = whole[..., None].view(np.uint8).reshape(*data.shape[:2], 8)
