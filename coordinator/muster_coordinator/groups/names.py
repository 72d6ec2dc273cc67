"""Member ids, and which names the offsets log can store."""

from muster_coordinator.groups import limits
from muster_coordinator.ports import Rand


def new_member_id(rand: Rand, prefix: str) -> str:
    """`<client id or instance id>-<random uuid>` (protocol notes 3.5)."""
    bits = rand.getrandbits(128)
    bits = bits & ~(0xF << 76) | 4 << 76
    bits = bits & ~(0x3 << 62) | 2 << 62
    text = f"{bits:032x}"
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def storable(name: str | None) -> bool:
    """Does it fit the log's strings? Compact strings of newer request versions could be longer."""
    return name is None or _fits(name, limits.LOG_STRING_BYTES_MAX)


def storable_prefix(name: str | None) -> bool:
    """Does the member id that is made of this client or instance id fit?"""
    return name is None or _fits(name, limits.LOG_STRING_BYTES_MAX - limits.MEMBER_ID_SUFFIX_BYTES)


def _fits(name: str, bytes_max: int) -> bool:
    # No character takes more than four bytes.
    return len(name) * 4 <= bytes_max or (len(name) <= bytes_max and len(name.encode()) <= bytes_max)
