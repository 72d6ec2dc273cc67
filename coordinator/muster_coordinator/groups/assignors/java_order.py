"""The orders of Java that show through in Kafka's assignors.

Two leaders of one group must come to one plan, or a change of leader moves partitions for nothing. Kafka's assignors
compare strings by UTF-16 units, and the sticky ones walk a `HashMap` of members: its iteration order decides who keeps
an extra partition. Both orders are part of the JDK's documented `String.hashCode` and of the long-standing layout of
`HashMap`: a power-of-two table, filled to three quarters, indexed by the hash with its upper half folded in; inside one
bucket entries stay in insertion order. What is left out: a bucket of more than eight entries becomes a tree, which
keeps insertion order for iteration as well unless it shrinks again.
"""

from collections.abc import Iterable, Sequence

from muster_coordinator.groups.assignors.membership import Member

_TABLE_MIN = 16
_MASK = 0xFFFFFFFF


def utf16_key(text: str) -> bytes:
    """Sort key that orders strings as Java's `String.compareTo` does."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """`String.hashCode` as an unsigned 32-bit number."""
    units = memoryview(utf16_key(text))
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8) + units[i + 1]) & _MASK
    return value


def hash_map_order(keys: Sequence[str]) -> list[str]:
    """Iteration order of a `HashMap` into which distinct `keys` were put one after the other."""
    table = hash_table_size(len(keys))
    return sorted(keys, key=lambda key: bucket(string_hash(key), table))


def hash_table_size(entries: int) -> int:
    """Buckets of a `HashMap` that has grown to hold that many entries (it never shrinks)."""
    table = _TABLE_MIN
    while entries * 4 > table * 3:
        table *= 2
    return table


def bucket(key_hash: int, table: int) -> int:
    """Where a `HashMap` of `table` buckets keeps a key."""
    return (key_hash ^ key_hash >> 16) & (table - 1)


def partition_hash(topic_hash: int, partition: int) -> int:
    """`TopicPartition.hashCode`, from that of the topic's name."""
    return (31 * (31 + partition) + topic_hash) & _MASK


def by_member_id(members: Iterable[Member]) -> list[Member]:
    """Members ordered by id."""
    return sorted(members, key=lambda member: utf16_key(member.member_id))


def static_first(members: Iterable[Member]) -> list[Member]:
    """Kafka's member order for range and round-robin: members with an instance id by that, then the others by id.

    So a restarted static member, which gets a new member id, keeps its place.
    """

    def key(member: Member) -> tuple[bool, bytes]:
        if member.instance_id is not None:
            return (False, utf16_key(member.instance_id))
        return (True, utf16_key(member.member_id))

    return sorted(members, key=key)
