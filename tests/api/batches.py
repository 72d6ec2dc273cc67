"""Record batches, as far as the API looks into them."""

import struct

TRANSACTIONAL = 0x10
ZSTD = 4


def batch(
    payload: bytes = b"payload",
    *,
    magic: int = 2,
    attributes: int = 0,
    producer_id: int = -1,
    length: int | None = None,
) -> bytes:
    """One batch: header of 61 bytes and some payload; CRC and counts are the topic's business."""
    body = struct.pack(
        ">ibIhiqqqhii", 0, magic, 0, attributes, 0, 1_700_000_000_000, 1_700_000_000_000, producer_id, 0, 0, 1
    )
    body += payload
    return struct.pack(">qi", 0, len(body) if length is None else length) + body
