"""Records behind committed offsets, for `muster group lag`.

Problem: offsets of topics in Redis have gaps, so their difference is no number of records, and Kafka's protocol has
none. Mechanism: the topic's configs say where it is; of an embedded one the difference is the number, as with every
tool of Kafka; of one in Redis the entries are counted there (`redis_streams.lag`), over one connection, if the caller
has named the Redis. What this does not do: end the command because of Redis. What is not known is `unknown`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster_coordinator.cli.exits import CliError
from muster_coordinator.cli.group_view import PartitionLag
from muster_coordinator.cli.kafka_client import KafkaSide
from muster_coordinator.cli.output import note
from muster_coordinator.cli.redis_groups import RedisAt
from muster_coordinator.cli.redis_nodes import RedisNodes
from muster_coordinator.groups.assignors.membership import TopicPartition
from muster_coordinator.redis_streams.answers import of_script
from muster_coordinator.redis_streams.lag import UNKNOWN, Quality, Records, behind_arguments, records_behind
from muster_coordinator.redis_streams.server import BEHIND
from muster_coordinator.replica.partitions.stream_place import StreamPlace
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG

Configs = Mapping[str, Mapping[str, str]]


class Counted(NamedTuple):
    """Records behind each partition's commit, and which of the partitions are in Redis."""

    records: Mapping[TopicPartition, Records]
    in_redis: frozenset[TopicPartition]

    def lacks(self) -> bool:
        """A commit in Redis of which nothing is known."""
        return any(self.records[one].quality is Quality.UNKNOWN for one in self.in_redis)


class _Question(NamedTuple):
    place: StreamPlace
    committed: int


def counted(side: KafkaSide, lags: Sequence[PartitionLag], at: RedisAt | None) -> Counted:
    """`at`: the Redis that the caller has named. What cannot be found out is a remark."""
    configs = _configs(side, sorted({one.partition.topic for one in lags}), told=at is not None)
    found: dict[TopicPartition, Records] = {}
    asked: dict[TopicPartition, _Question] = {}
    in_redis = set()
    for one in lags:
        told = configs.get(one.partition.topic)
        found[one.partition] = UNKNOWN
        if told is not None and told.get(STORE_CONFIG) == REDIS.name:
            if one.committed is not None:
                in_redis.add(one.partition)
                if at is not None:
                    place = _place(at, one.partition, told)
                    if place is not None:
                        asked[one.partition] = _Question(place, one.committed)
        elif told is not None and isinstance(one.lag, int):
            found[one.partition] = Records(one.lag, Quality.EXACT)
    if at is not None and asked:
        cluster = side.ask(lambda admin: admin.describe_cluster()["cluster_id"], "cannot look up the cluster's id")
        found.update(_count(at, cluster, asked))
    return Counted(found, frozenset(in_redis))


def _configs(side: KafkaSide, topics: Sequence[str], *, told: bool) -> Configs:
    """The configs of the topics that tell them; `told`: say why some do not."""
    kinds = side.kafka.admin
    resources = [kinds.ConfigResource(kinds.ConfigResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    try:
        answer = side.ask(lambda admin: admin.describe_configs(resources), "cannot read the configs of the topics")
    except CliError as error:
        if told:
            note(f"records are unknown: {error}")
        return {}
    return {
        topic: {name: one["value"] for name, one in values.items() if one.get("value") is not None}
        for topic, values in answer["topic"].items()
        if isinstance(values, Mapping)
    }


def _place(at: RedisAt, partition: TopicPartition, configs: Mapping[str, str]) -> StreamPlace | None:
    try:
        return StreamPlace.of(at.keys.redis_prefix, partition.topic, configs, partition.partition)
    except ValueError as error:  # of a release that comes after this command's
        note(f"records of {partition.topic} are unknown: its configs are not understood: {error}")
        return None


def _count(at: RedisAt, cluster: str, asked: Mapping[TopicPartition, _Question]) -> dict[TopicPartition, Records]:
    from redis.exceptions import RedisError

    found: dict[TopicPartition, Records] = {}
    try:
        asyncio.run(_ask_all(at, cluster, asked, found))
    except (RedisError, OSError) as error:
        note(f"records of {len(asked) - len(found)} partitions are unknown: Redis: {error}")
    return found


async def _ask_all(
    at: RedisAt, cluster: str, asked: Mapping[TopicPartition, _Question], found: dict[TopicPartition, Records]
) -> None:
    """Fills `found`; raises at what is not answered."""
    async with RedisNodes(at.keys, at.timeout_ms) as nodes:
        for partition, (place, committed) in asked.items():
            connection = await nodes.to(place.stream)
            arguments = behind_arguments(cluster, None, committed, place.offsets)
            await connection.send_command("EVAL", BEHIND.text, len(place.keys), *place.keys, *arguments)
            answer = await connection.read_response(disable_decoding=True)
            if not of_script(BEHIND.name, answer):
                raise OSError(f"no answer of a script of ours: {answer!r:.100}")
            found[partition] = records_behind(answer, committed, place.offsets)
            if answer[0] != b"OK":
                note(f"records of {partition.topic}-{partition.partition} are unknown: {_WHY[answer[0]]}")


_WHY = {
    b"FENCED": "its stream is another topic's",
    b"UNCLAIMED": "its stream is not this cluster's",
    b"TYPE": "the key is no stream",
    b"BEYOND": "the committed offset is beyond the last entry that the stream ever had",
}
