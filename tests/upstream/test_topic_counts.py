"""Which partitions the upstream has: Kafka's schemas by kio, and when a topic is called absent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.errors import WireError
from muster_coordinator.upstream.topic_counts import agreed, ask_named, lacking, read_counts
from muster_coordinator.wire.versions import Api

from tests.upstream.test_brokers import framed
from tests.upstream.test_looks import read_request

NAMES = st.sampled_from(["a", "b", "c", "d"])
COUNTS = st.dictionaries(NAMES, st.integers(0, 4))


def told(version: int, *topics: tuple[str, int, int]) -> bytes:
    """(name, error, number of partitions) of each."""
    partition = {"error_code": 5, "leader_id": -1, "replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}
    values: dict[str, Any] = {
        "brokers": (), "cluster_id": "c", "controller_id": 1,
        "topics": [
            {
                "error_code": code, "name": name, "topic_id": bytes(15) + b"t", "is_internal": False,
                "partitions": [{**partition, "partition_index": number} for number in reversed(range(count))],
            }
            for name, code, count in topics
        ],
    }  # fmt: skip
    return framed(Api.METADATA, version, values, 2)


@pytest.mark.parametrize("version", range(4, 13))
def test_what_is_asked_makes_no_topic_and_what_is_answered_is_counted(version: int) -> None:
    asked: Any = read_request(Api.METADATA, version, ask_named(version, 2, ["a", "b"]))
    assert [topic.name for topic in asked.topics] == ["a", "b"]
    assert not asked.allow_auto_topic_creation
    answer = told(version, ("a", 0, 3), ("none", 3, 0), ("hidden", 29, 0), ("new", 5, 0), ("leaderless", 5, 2))
    assert read_counts(version, answer) == {"a": 3, "none": 0, "leaderless": 2}


@pytest.mark.parametrize("version", range(4))
def test_nobody_is_asked_who_would_make_the_topic(version: int) -> None:
    with pytest.raises(WireError):
        ask_named(version, 2, ["a"])


@given(COUNTS, COUNTS)
def test_two_answers_in_a_row_have_to_lack_it(first: dict[str, int], second: dict[str, int]) -> None:
    """An oracle by partitions: one is absent if both of two brokers say that their topic has not so many."""
    both = agreed(first, second)
    for name in "abcd":
        for partition in range(5):
            absent = all(name in said and said[name] <= partition for said in (first, second))
            if name in both:
                assert (both[name] <= partition) == absent
            else:
                assert not absent


@given(st.dictionaries(NAMES, st.integers(0, 4)), COUNTS)
def test_what_is_in_doubt(wanted: dict[str, int], counts: dict[str, int]) -> None:
    found = lacking(wanted, counts)
    for name, highest in wanted.items():
        assert (name not in found) == (name in counts and highest < counts[name])
    assert found.items() <= wanted.items()
