"""A log partition as segment files: some bits are flipped, the last file is torn; and what is left sound."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.pipeline import logs
from tests.pipeline.logs import Batch

SEGMENTS = 3
ONE_IN = 400
EPOCH_BITS = range(12 * 8, 16 * 8)
"""A leader epoch that is still in order after a flip cannot be told from a right one (decode/test_damage.py)."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One segment: what is sound of it, and how many bytes are not."""

    base: int
    sound: bytes
    size: int
    quarantined: int
    pending: int


def write(folder: Path, batches: Sequence[Batch], seed: int) -> list[File]:
    """The files are in `folder`, made here."""
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    placed = logs.placed(batches)
    encoded = [logs.encode(batch, batch.base) for batch in placed]
    cuts = [len(encoded) * number // SEGMENTS for number in range(SEGMENTS + 1)]
    files = []
    for first, end in pairwise(cuts):
        parts, sound = list(encoded[first:end]), list(encoded[first:end])
        is_last = end == len(encoded)
        lost = chance.sample(range(len(parts) - 3 * is_last), len(parts) // ONE_IN)
        for place in lost:
            parts[place], sound[place] = flipped(parts[place], chance), b""
        pending = 0
        if is_last:
            pending = len(parts[-1]) // 2
            parts[-1], sound[-1] = parts[-1][:pending], b""
        data = b"".join(parts)
        (folder / f"{placed[first].base:020}.log").write_bytes(data)
        quarantined = sum(len(parts[place]) for place in lost)
        files.append(
            File(
                base=placed[first].base, sound=b"".join(sound), size=len(data), quarantined=quarantined, pending=pending
            )
        )
    return files


def flipped(data: bytes, chance: random.Random) -> bytes:
    bit = chance.choice([bit for bit in range(len(data) * 8) if bit not in EPOCH_BITS])
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]
