"""The orders of Java collections and strings on which the plans of Kafka's assignors depend.

Two leaders of one group must compute the same plan, or a change of leader moves partitions needlessly. Kafka's
assignors compare strings by UTF-16 units, and the sticky ones iterate over a `HashMap` of members, whose iteration
order decides which member keeps an extra partition. Both orders are stable: the JDK documents `String.hashCode`, and
`HashMap` has had one layout for long: a power-of-two table, at most three quarters full, indexed by the hash XORed
with its upper half; entries of one bucket stay in insertion order. Deliberately left out: a bucket of more than eight
entries becomes a tree, whose iteration order differs only after it shrinks again.
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
    """Iteration order of a `HashMap` into which the distinct `keys` were inserted in this order."""
    table = hash_table_size(len(keys))
    return sorted(keys, key=lambda key: bucket(string_hash(key), table))


def hash_table_size(entries: int) -> int:
    """Number of buckets of a `HashMap` that has grown to this many entries (it never shrinks)."""
    table = _TABLE_MIN
    while entries * 4 > table * 3:
        table *= 2
    return table


def bucket(key_hash: int, table: int) -> int:
    """Index of the bucket of a key in a `HashMap` of `table` buckets."""
    return (key_hash ^ key_hash >> 16) & (table - 1)


def partition_hash(topic_hash: int, partition: int) -> int:
    """`TopicPartition.hashCode`, given the hash of the topic's name."""
    return (31 * (31 + partition) + topic_hash) & _MASK


def by_member_id(members: Iterable[Member]) -> list[Member]:
    """Members ordered by id."""
    return sorted(members, key=lambda member: utf16_key(member.member_id))


def static_first(members: Iterable[Member]) -> list[Member]:
    """Kafka's member order for range and round-robin: first the members with an instance id, by instance id, then the
    others by member id. A restarted static member gets a new member id, but keeps its place by its instance id.
    """

    def key(member: Member) -> tuple[bool, bytes]:
        if member.instance_id is not None:
            return (False, utf16_key(member.instance_id))
        return (True, utf16_key(member.member_id))

    return sorted(members, key=key)
