"""DeleteRecords (protocol notes 14)."""

from typing import Any

import pytest
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, topic
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
    surface.add_topic(topic("kept", 1, first_group=300, configs=(("cleanup.policy", "compact"),)))
    parts = (
        ("nope", 0, 1), ("orders", 9, 1), ("orders", 1, 1), ("orders", 0, -2), (OFFSETS_TOPIC, 0, 1), ("kept", 0, 1),
    )  # fmt: skip
    assert [c for c, _ in cut(surface, *parts)] == [3, 3, 6, 1, 17, 44]
    assert surface.log_of("orders", 0).deleted == []
