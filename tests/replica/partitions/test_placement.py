"""Which offsets partition a group lives in: Kafka's formula, by values of Java's `String.hashCode` (invariant G20)."""

import pytest
from muster_coordinator.replica.partitions.surface import partition_of


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("test", 48),
        ("my-group", 12),  # a negative hash
        ("consumer-group-1", 20),
        ("console-consumer-12345", 6),
        ("höhe", 45),
        ("日本", 47),
        ("😀", 49),  # two UTF-16 units
        ("polygenelubricants", 0),  # the least i32, whose absolute value is none
    ],
)
def test_a_group_lives_where_kafka_would_put_it(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition
