"""CRC-32C (Castagnoli), the check of record batches, WAL files and checkpoints.

Problem: a checksum that Kafka's tools share and that is cheap next to a write. Mechanism: the processor's instruction,
called through the `crc32c` package: 0.1 microseconds for a small batch. It detects damage; it is no defence against
forgery.
"""

from crc32c import crc32c as _crc32c


def crc32c(data: bytes | bytearray | memoryview, start: int = 0) -> int:
    """CRC-32C of `data`, continued from `start` (a former result) for data that comes in parts."""
    return _crc32c(data, start)
