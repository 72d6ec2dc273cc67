"""Member ids, and whether a name fits the offsets log."""

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
    """Whether the name fits the log's strings. Compact strings of newer request versions may be longer."""
    return name is None or _fits(name, limits.LOG_STRING_BYTES_MAX)


def storable_prefix(name: str | None) -> bool:
    """Whether a member id made of this client or instance id fits the log's strings."""
    return name is None or _fits(name, limits.LOG_STRING_BYTES_MAX - limits.MEMBER_ID_SUFFIX_BYTES)


def _fits(name: str, bytes_max: int) -> bool:
    # UTF-8 takes at most four bytes per character: most names need no encoding.
    return len(name) * 4 <= bytes_max or (len(name) <= bytes_max and len(name.encode()) <= bytes_max)
