"""Requests that create, grow and delete topics, as a client sends them."""

from typing import Any

from muster_coordinator.api.services import ApiSettings
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code

ORDERS_ID = b"orders----------"


def wanted(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 2, "replication_factor": 3, **more}


def create(surface: FakeSurface, *topics: dict[str, Any], version: int = 7, **more: Any) -> Any:
    settings = more.pop("settings", None)
    client = KafkaClient(surface, settings=settings)
    return client.ask(Api.CREATE_TOPICS, version, topics=topics, **{"timeout_ms": 5_000, **more})


def outcome(answer: Any) -> list[tuple[str, int]]:
    return [(t.name, code(t.error_code)) for t in answer.topics]


def assigned(*replicas: tuple[int, tuple[int, ...]], **more: Any) -> dict[str, Any]:
    assignments = [{"partition_index": i, "broker_ids": brokers} for i, brokers in replicas]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assignments, **more}


def unled(surface: FakeSurface) -> list[int]:
    """The Raft groups of partitions without leader."""
    groups = (p.group for t in surface.topics.values() for p in t.partitions)
    return [group for group in groups if group not in surface.leaders]


def delete(
    surface: FakeSurface, version: int, *names: str, settings: ApiSettings | None = None
) -> list[tuple[Any, int]]:
    topics = [{"name": name} for name in names]
    client = KafkaClient(surface, settings=settings)
    answer = client.ask(Api.DELETE_TOPICS, version, topic_names=names, topics=topics, timeout_ms=1_000)
    return [(r.name, code(r.error_code)) for r in answer.responses]


def grow(surface: FakeSurface, *topics: dict[str, Any], version: int = 3, **more: Any) -> list[tuple[str, int]]:
    answer = KafkaClient(surface).ask(
        Api.CREATE_PARTITIONS,
        version,
        topics=[{"assignments": None, **t} for t in topics],
        **{"timeout_ms": 1_000, **more},
    )
    return [(r.name, code(r.error_code)) for r in answer.results]
