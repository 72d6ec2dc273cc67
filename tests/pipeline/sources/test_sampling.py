"""A sample of a whole cluster: how many requests it takes, and what a cluster that changes meanwhile makes of it."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from kafka import errors
from muster_pipeline.schemas.log_end_offsets import LOG_END_OFFSETS
from muster_pipeline.sources import cluster as clusters
from muster_pipeline.sources.cluster import EARLIEST, LATEST, MAX_TIMESTAMP, Cluster
from muster_pipeline.sources.errors import ClusterUnreachable, NoLog, RequestUnsupported
from muster_pipeline.sources.log_end_offsets import sample
from typing_extensions import override

OFFSETS = {EARLIEST: 5, LATEST: 1_000, MAX_TIMESTAMP: 900}
NOW_MS = 1_760_000_000_000


class Told(Cluster):
    """200 topics of 5 partitions and an internal one, on 3 brokers; answers as kafka-python gives them."""

    def __init__(self) -> None:
        super().__init__("nowhere:1")
        self.leaders = {f"t{one:03}": [(one + part) % 3 for part in range(5)] for one in range(200)}
        self.asked: list[tuple[str, int | None]] = []
        self.moved: dict[tuple[str, int], int] = {}
        """Partitions that are at another broker than metadata said first."""
        self.twice: list[tuple[str, int]] = []
        self.stores: dict[str, str] = {}
        """Topics with config `topic.store`; a broker that has none does not know it."""
        self.hidden: set[str] = set()
        """Topics whose configs may not be described."""
        self.busy = 0
        """So many answers say of every topic to ask again."""
        self.hides_configs = False

    @override
    def _ask(self, node: int | None, request: Any, what: str, *, once: bool = False) -> Any:
        self.asked.append((what, node))
        if what == "metadata":
            return SimpleNamespace(topics=self._metadata(request))
        if what == "configs of topics":
            if self.hides_configs:
                raise RequestUnsupported("configs of topics from nowhere:1: UnsupportedVersionError")
            results = [self._configs(one) for one in request.resources]
            self.busy = max(0, self.busy - 1)
            return SimpleNamespace(results=results)
        (timestamp,) = {one.timestamp for topic in request.topics for one in topic.partitions}
        topics = []
        for topic in request.topics:
            numbers = [one.partition_index for one in topic.partitions]
            self.twice += [(topic.name, one) for one in numbers if numbers.count(one) > 1]
            answers = [self._answer(topic.name, number, timestamp, node) for number in numbers]
            topics.append(SimpleNamespace(name=topic.name, partitions=answers))
        return SimpleNamespace(topics=topics)

    def _metadata(self, request: Any) -> list[Any]:
        names = [*self.leaders, "__consumer_offsets"] if request.topics is None else [t.name for t in request.topics]
        return [
            SimpleNamespace(
                name=name,
                is_internal=name.startswith("__"),
                error_code=0 if name in self.leaders or name.startswith("__") else 3,
                partitions=[
                    SimpleNamespace(partition_index=number, leader_id=leader)
                    for number, leader in enumerate(self.leaders.get(name, []))
                ],
            )
            for name in names
        ]

    def _configs(self, asked: Any) -> Any:
        assert (asked.resource_type, asked.configuration_keys) == (2, ["topic.store"])
        name = asked.resource_name
        known = [SimpleNamespace(name="topic.store", value=self.stores[name])] if name in self.stores else []
        if self.busy:
            return SimpleNamespace(error_code=7, resource_name=name, configs=[])
        if name in self.hidden:
            return SimpleNamespace(error_code=29, resource_name=name, configs=[])
        return SimpleNamespace(error_code=0, resource_name=name, configs=known)

    def _answer(self, topic: str, number: int, timestamp: int, node: int | None) -> Any:
        if topic not in self.leaders:
            return SimpleNamespace(partition_index=number, error_code=3, offset=-1, timestamp=-1)
        at = self.moved.get((topic, number))
        if at is not None and at != node:
            self.leaders[topic][number] = at
            code = errors.NotLeaderForPartitionError.errno
            return SimpleNamespace(partition_index=number, error_code=code, offset=-1, timestamp=-1)
        return SimpleNamespace(partition_index=number, error_code=0, offset=OFFSETS[timestamp], timestamp=NOW_MS - 1)


def sampled(told: Told, topics: list[str] | None = None) -> pa.Table:
    return sample(told, "c", topics, lambda: NOW_MS)


def test_each_leader_is_asked_once_for_each_kind_of_offset() -> None:
    told = Told()
    found = sampled(told)
    assert sorted(told.asked, key=str) == sorted(
        [
            ("metadata", None),
            ("configs of topics", None),
            *(("list offsets", node) for node in range(3) for _ in range(3)),
        ],
        key=str,
    )
    assert told.twice == [], "Kafka refuses a partition that stands twice in a request"
    assert found.schema == LOG_END_OFFSETS
    assert found.num_rows == 1_000
    assert found.slice(7, 1).to_pylist() == [
        {
            "cluster": "c", "topic": "t001", "partition": 2, "sample_timestamp_ms": NOW_MS, "start_offset": 5,
            "end_offset": 1_000, "max_timestamp_offset": 900, "max_timestamp_ms": NOW_MS - 1, "error": None,
            "has_gaps": False,
        }
    ]  # fmt: skip


def test_leaders_that_move_cost_one_question_for_all_of_them() -> None:
    told = Told()
    told.moved = {(f"t{one:03}", 0): (one + 1) % 3 for one in range(0, 200, 2)}
    found = sampled(told)
    assert found["error"].null_count == found.num_rows == 1_000
    assert told.asked.count(("metadata", None)) == 2
    assert len(told.asked) == 2 + 1 + 3 * 3 + 3, "the moved partitions once more, of each leader"


def test_a_topic_that_is_deleted_meanwhile_is_a_row_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no end of the stream; a topic that was asked for by name and is not there is told at once."""
    monkeypatch.setattr(clusters, "ATTEMPTS_MAX", 3)
    told = Told()
    found = told.all_partitions()
    del told.leaders["t007"]
    listed = told.list_all_offsets(found, LATEST)
    assert {place for place, one in listed.items() if one.offset is None} == {("t007", part) for part in range(5)}
    assert {one.error for one in listed.values()} == {None, "no answer"}
    told = Told()
    del told.leaders["t007"]
    with pytest.raises(NoLog, match="has no topic t007"):
        sampled(told, ["t006", "t007"])


def test_where_a_topic_is_stored_is_asked_of_one_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of topics in Redis have gaps; a Kafka has no such config; without the right nothing is said."""
    monkeypatch.setattr(clusters, "_ASKED_AT_ONCE_MAX", 60)
    told = Told()
    told.stores = {"t001": "redis", "t002": "embedded", "t199": "redis"}
    told.hidden = {"t003"}
    found = sampled(told)
    assert told.asked.count(("configs of topics", None)) == 4
    by_topic = {row["topic"]: row["has_gaps"] for row in found.to_pylist()}
    assert {name for name, has_gaps in by_topic.items() if has_gaps} == {"t001", "t199"}
    assert {name for name, has_gaps in by_topic.items() if has_gaps is None} == {"t003"}
    assert found["error"].null_count == found.num_rows


def test_a_server_without_that_request_is_sampled_all_the_same() -> None:
    told = Told()
    told.hides_configs = True
    found = sampled(told)
    assert found["has_gaps"].null_count == found["end_offset"].length() == 1_000
    assert set(found["end_offset"].to_pylist()) == {1_000}


def test_a_broker_that_cannot_tell_now_is_asked_again() -> None:
    """What is not known for a moment is not taken for what nobody tells: the difference would be a number again."""
    told = Told()
    told.stores, told.busy = {"t001": "redis"}, 2
    assert {row["topic"] for row in sampled(told).to_pylist() if row["has_gaps"]} == {"t001"}
    assert told.asked.count(("configs of topics", None)) == 3
    told.busy = clusters.ATTEMPTS_MAX
    with pytest.raises(ClusterUnreachable, match="configs of 200 topics from nowhere:1, such as t000"):
        sampled(told)


class Old(Cluster):
    """Connected to a server without DescribeConfigs, as kafka-python says it."""

    @override
    def _connected(self) -> Any:
        def refuse(*_: object, **__: object) -> None:
            raise errors.IncompatibleBrokerVersion("DescribeConfigs")

        return SimpleNamespace(least_loaded_node=lambda: 0, send_and_receive=refuse)


def test_a_request_that_a_server_does_not_have_is_not_repeated() -> None:
    assert Old("nowhere:1").configs(["t"], "topic.store") == {"t": None}
