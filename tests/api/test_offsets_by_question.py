"""ListOffsets and OffsetForLeaderEpoch (protocol notes 14)."""

from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import EpochEnd, OffsetResult
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code


def ask(surface: FakeSurface, version: int, *parts: dict[str, Any], name: str = "orders") -> list[tuple[int, int, int]]:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1, **p} for p in parts]}]
    answer = KafkaClient(surface).ask(Api.LIST_OFFSETS, version, replica_id=-1, topics=topics)
    return [(code(p.error_code), p.offset, p.timestamp) for t in answer.topics for p in t.partitions]


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("timestamp", [-1, -2, 0, 1_700_000_000_000])
def test_the_log_is_asked(version: int, timestamp: int) -> None:
    surface = FakeSurface()
    assert ask(surface, version, {"timestamp": timestamp}) == [(0, 7, -1)]
    assert surface.log_of("orders", 0).asked_offsets == [timestamp]


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("isolation", [0, 1])
def test_the_isolation_level_reaches_the_log(version: int, isolation: int) -> None:
    surface = FakeSurface()
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    more = {"isolation_level": isolation} if version >= 2 else {}
    KafkaClient(surface).ask(Api.LIST_OFFSETS, version, replica_id=-1, topics=topics, **more)
    assert surface.log_of("orders", 0).asked_committed == [isolation == 1 and version >= 2]


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99), (-(2**63), 99)])
def test_special_timestamps_exist_since_their_version(timestamp: int, since: int) -> None:
    for version in range(1, 12):
        ((error, _, _),) = ask(FakeSurface(), version, {"timestamp": timestamp})
        assert error == (0 if version >= since else 35)


@pytest.mark.parametrize("timestamp", [-5, -6])
def test_there_is_no_remote_storage(timestamp: int) -> None:
    assert ask(FakeSurface(), 11, {"timestamp": timestamp}) == [(0, -1, -1)]


def test_the_same_partition_twice_gets_one_answer_42() -> None:
    surface = FakeSurface()
    assert ask(surface, 5, {}, {"timestamp": -2}) == [(42, -1, -1)]
    assert surface.log_of("orders", 0).asked_offsets == []


def test_unknown_partitions_and_other_leaders() -> None:
    parts = ({"partition_index": 9}, {"partition_index": 1})
    assert [e for e, _, _ in ask(FakeSurface(), 5, *parts)] == [3, 6]
    assert [e for e, _, _ in ask(FakeSurface(), 5, {}, name="nope")] == [3]


@pytest.mark.parametrize(("epoch", "expected"), [(2, 74), (3, 0), (4, 75), (-1, 0)])
def test_the_leader_epoch_is_checked(epoch: int, expected: int) -> None:
    assert ask(FakeSurface(), 4, {"current_leader_epoch": epoch})[0][0] == expected


@pytest.mark.parametrize(("version", "expected"), [(1, 5), (4, 5), (5, 78), (11, 78)])
def test_before_its_terms_first_entry_a_leader_does_not_know_the_end(version: int, expected: int) -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).code = Code.OFFSET_NOT_AVAILABLE
    assert ask(surface, version, {"timestamp": -1}) == [(expected, -1, -1)]
    assert ask(surface, version, {"timestamp": -2}) == [(0, 7, -1)]


def test_a_read_round_that_failed_is_mapped_the_same_way() -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).offset_result = OffsetResult(Code.OFFSET_NOT_AVAILABLE)
    assert [ask(surface, v, {})[0][0] for v in (4, 5)] == [5, 78]


@pytest.mark.parametrize("version", range(2, 5))
def test_the_end_of_an_epoch(version: int) -> None:
    surface = FakeSurface()
    surface.log_of("orders", 0).epochs = {2: EpochEnd(Code.NONE, 2, 17)}
    parts = [
        {"partition": 0, "leader_epoch": 2},
        {"partition": 0, "leader_epoch": 9},
        {"partition": 0, "leader_epoch": 2, "current_leader_epoch": 1},
        {"partition": 1, "leader_epoch": 2},
        {"partition": 7, "leader_epoch": 2},
    ]
    topics = [{"topic": "orders", "partitions": parts}]
    answer = KafkaClient(surface).ask(Api.OFFSET_FOR_LEADER_EPOCH, version, topics=topics)
    assert [(code(p.error_code), p.leader_epoch, p.end_offset) for p in answer.topics[0].partitions] == [
        (0, 2, 17), (0, -1, -1), (74, -1, -1), (6, -1, -1), (3, -1, -1),
    ]  # fmt: skip
