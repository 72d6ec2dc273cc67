"""Member ids, and which names the offsets log can store."""

from muster_coordinator.ports import Rand

_STRING_BYTES_MAX = 32_767
"""Kafka's non-compact string: the keys and values of the offsets log carry an int16 length."""


def new_member_id(rand: Rand, prefix: str) -> str:
    """`<client id or instance id>-<random uuid>` (protocol.md 3.5)."""
    bits = rand.getrandbits(128)
    bits = bits & ~(0xF << 76) | 4 << 76
    bits = bits & ~(0x3 << 62) | 2 << 62
    text = f"{bits:032x}"
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def storable(name: str | None) -> bool:
    """Does it fit the log's strings? Compact strings of newer request versions could be longer."""
    if name is None or len(name) * 4 <= _STRING_BYTES_MAX:
        return True
    return len(name.encode()) <= _STRING_BYTES_MAX
