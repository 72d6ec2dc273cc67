"""How fast the disk makes a small append durable: the lower bound of every durable answer's latency."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK_BYTES = 4_096
FILE_BLOCKS = 4_096


def durable_appends_s(folder: Path, seconds: float) -> list[float]:
    """Seconds of each pwrite + fdatasync into a preallocated file, like a WAL, one after the other."""
    block = os.urandom(BLOCK_BYTES)
    with preallocated(folder / "fdatasync.probe") as descriptor:
        took: list[float] = []
        deadline = time.monotonic() + seconds
        while (began := time.monotonic()) < deadline:
            os.pwrite(descriptor, block, len(took) % FILE_BLOCKS * BLOCK_BYTES)
            os.fdatasync(descriptor)
            took.append(time.monotonic() - began)
        return took


@contextmanager
def preallocated(path: Path, blocks: int = FILE_BLOCKS) -> Iterator[int]:
    """A file of so many blocks, which are on the disk; open in the body of the `with`, then removed."""
    block = os.urandom(BLOCK_BYTES)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
    try:
        for _ in range(blocks):
            os.write(descriptor, block)
        os.fsync(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()
