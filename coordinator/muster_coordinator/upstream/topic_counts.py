"""Which partitions the upstream has, for commits that name them. Values in, values out.

Problem: a commit for a partition that is not there is refused by Kafka with 3, which Java's consumer takes as final;
but the partition may have been made a moment ago, and be known to one broker and not to another. Mechanism: the last
list of all topics settles most commits without a question. What it lacks is asked for by name, and is called absent
only when two answers in a row, of different brokers where there are several, lack it. What this does not do: ask
(`runtime.upstream_topics`).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from muster_coordinator.errors import Code, WireError
from muster_coordinator.upstream.frames import framed, read_answer
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import Api

Counts = Mapping[str, int]
"""Topic -> number of its partitions; 0: there is no such topic. One that is not in it: nobody knows."""
NOBODY_KNOWS: Counts = MappingProxyType({})


def ask_named(version: int, correlation: int, names: Iterable[str]) -> bytes:
    """The request for these topics. Asking makes none. Raises `WireError` where it would, before Metadata 4."""
    if version < 4:
        raise WireError("asking it for a topic would make the topic")
    asked = {
        "topics": [{"name": name} for name in names],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return framed(Api.METADATA, version, correlation, asked)


def read_counts(version: int, frame: bytes) -> dict[str, int]:
    """Of its answer. Raises `WireError`."""
    return counts_of(read_answer(Api.METADATA, version, frame))


def counts_of(answer: Value) -> dict[str, int]:
    """Of an answer to Metadata. A topic of which it says neither is left out."""
    found = {}
    for topic in answer.topics:
        if topic.name is None:
            continue
        if topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            found[topic.name] = 0
        elif topic.partitions:
            # An error of a topic with partitions is about their leaders.
            found[topic.name] = 1 + max(partition.partition_index for partition in topic.partitions)
    return found


def lacking(wanted: Mapping[str, int], counts: Counts) -> dict[str, int]:
    """Of `wanted` (topic -> its highest partition) those that are not in `counts`, or are beyond its number."""
    return {name: highest for name, highest in wanted.items() if counts.get(name, 0) <= highest}


def agreed(first: Counts, second: Counts) -> dict[str, int]:
    """What both say; of two numbers the greater, since topics grow."""
    return {name: max(first[name], second[name]) for name in first.keys() & second.keys()}
