"""DeleteRecords (protocol notes 14)."""

from typing import Any

import pytest
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code


def cut(surface: FakeSurface, *parts: tuple[str, int, int], version: int = 2) -> list[tuple[int, int]]:
    topics: dict[str, list[Any]] = {}
    for name, index, offset in parts:
        topics.setdefault(name, []).append({"partition_index": index, "offset": offset})
    answer = KafkaClient(surface).ask(
        Api.DELETE_RECORDS,
        version,
        timeout_ms=1_000,
        topics=[{"name": name, "partitions": entries} for name, entries in topics.items()],
    )
    return [(code(p.error_code), p.low_watermark) for t in answer.topics for p in t.partitions]


@pytest.mark.parametrize("version", range(3))
def test_the_log_start_moves_and_minus_one_is_the_high_watermark(version: int) -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).append(b"x")
    assert cut(surface, ("orders", 0, 4), version=version) == [(0, 4)]
    assert cut(surface, ("orders", 0, -1), version=version) == [(0, 10)]
    assert surface.log_of("orders", 0).deleted == [4, -1]


def test_records_that_cannot_be_deleted() -> None:
    surface = FakeSurface()
    parts = (("nope", 0, 1), ("orders", 9, 1), ("orders", 1, 1), (OFFSETS_TOPIC, 0, 1))
    assert [c for c, _ in cut(surface, *parts)] == [3, 3, 6, 17]
    assert surface.log_of("orders", 0).deleted == []


@pytest.mark.parametrize("refused", [Code.POLICY_VIOLATION, Code.OFFSET_OUT_OF_RANGE, Code.NOT_LEADER_OR_FOLLOWER])
def test_the_leaders_log_says_whether_its_records_may_be_deleted(refused: Code) -> None:
    """It knows the policy in force, which may be the server's, and its offsets: `tests/replica/test_topic_defaults`."""
    surface = FakeSurface()
    surface.log_of("orders", 0).undeletable = refused
    assert cut(surface, ("orders", 0, -2)) == [(refused, -1)]
