"""Copies of partitions keep to the rates in the controller's log (ADR 46), in whole clusters on virtual time.

A move of 4 MiB at 512 KiB a second takes eight seconds, by entries of the log as by files of a checkpoint, whichever
side has the rate; without one it takes less than three. What is produced meanwhile is answered as quickly as before.

A member that lacks `LAG_ENTRIES_MAX` entries or fewer counts as level, and votes; from then on it is not throttled.
"""

from typing import Any, NamedTuple

import pytest
from muster_coordinator.controller.broker_configs import FOLLOWER_RATE, LEADER_RATE
from muster_coordinator.controller.commands import AlterBrokerConfigs
from muster_coordinator.controller.image import EVERY_BROKER
from muster_coordinator.controller.limits import THROTTLE_BYTES_PER_SECOND_MIN
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import KIB, MIB
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.maintenance.preferred import LAG_ENTRIES_MAX

from tests.replica.cluster import SimCluster, produce_when_room
from tests.replica.test_moves import FOUNDERS, GROUP, NEW, await_moved, cluster_of_six, move


class Data(NamedTuple):
    """What is in the partition when the move begins, and by what it is copied."""

    batches: int
    batch_bytes: int
    settings: dict[str, Any]


SIZE = 4 * MIB
RATE = 512 * KIB
BY_FILES = Data(64, SIZE // 64, {"checkpoint_bytes": 512 * KIB, "trailing_entries": 1, "segment_flush_ms": 100})
BY_ENTRIES = Data(
    512 + LAG_ENTRIES_MAX,
    SIZE // 512,
    {"checkpoint_bytes": 64 * MIB, "trailing_entries": 5_000, "wal_bytes_max": 64 * MIB},
)
EACH_WAY = pytest.mark.parametrize("data", [BY_ENTRIES, BY_FILES], ids=["entries", "files"])
QUICK_MS = 300
"""An answer to a producer, of two disks of 2 ms."""
AT_ONCE = 16


def produce(cluster: SimCluster, batch_bytes: int, count: int, at_once: int = 1) -> float:
    """Some at once, and then the next; the longest wait for an answer in ms."""
    longest_us = 0
    batch = encode_batch([(b"k", bytes(batch_bytes))], timestamp_ms=1_700_000_000_000)
    for _ in range(0, count, at_once):
        began_us = cluster.world.now_us
        leader = cluster.wait_leader(GROUP, ms=30_000)
        log = cluster.nodes[leader].local_log(GROUP)
        assert log is not None
        codes: list[Code] = []
        for _ in range(at_once):
            produce_when_room(log, batch, cluster.loops[leader].monotonic_ms() + 5_000, codes.append)
        cluster.world.run_until("the answers", lambda codes=codes: len(codes) == at_once, 20_000)
        assert set(codes) == {Code.NONE}
        longest_us = max(longest_us, cluster.world.now_us - began_us)
    return longest_us / 1_000


def limit(cluster: SimCluster, broker: int, before: dict[str, int], **rates: int) -> None:
    """Set the rates `leader` and `follower` of a broker; without one it has none."""
    names = {"leader": LEADER_RATE, "follower": FOLLOWER_RATE}
    command = AlterBrokerConfigs(
        broker=BrokerId(broker),
        expected=tuple(sorted((names[which], str(rate)) for which, rate in before.items())),
        configs=tuple(sorted((names[which], str(rate)) for which, rate in rates.items())),
    )
    assert cluster.submit(cluster.wait_leader(0), command).error == Code.NONE


def full(data: Data, seed: int = 1) -> SimCluster:
    cluster = cluster_of_six(seed, **data.settings)
    produce(cluster, data.batch_bytes, data.batches, AT_ONCE)
    cluster.world.run_for(2_000)
    return cluster


def moved_in_ms(cluster: SimCluster, *voters: int) -> float:
    began_us = cluster.world.now_us
    move(cluster, *voters)
    await_moved(cluster, *voters)
    return (cluster.world.now_us - began_us) / 1_000


@EACH_WAY
def test_without_a_rate_a_move_is_quick(data: Data) -> None:
    cluster = full(data)
    assert moved_in_ms(cluster, 0, 1, 7) < 6_000
    assert bool(cluster.nodes[7].formed.installs.bytes_received) is (data is BY_FILES)


@EACH_WAY
@pytest.mark.parametrize("side", ["leader", "follower", "all"])
def test_a_move_takes_as_long_as_its_bytes_at_the_rate(data: Data, side: str) -> None:
    cluster = full(data)
    if side == "leader":
        for broker in FOUNDERS:
            limit(cluster, broker, {}, leader=RATE)
    elif side == "follower":
        limit(cluster, 7, {}, follower=RATE)
    else:
        limit(cluster, EVERY_BROKER, {}, leader=RATE, follower=RATE)
    cluster.world.run_for(100)
    took_ms = moved_in_ms(cluster, 0, 1, 7)
    wanted_ms = SIZE * 1_000 / RATE
    # A window of entries is under way before the first has to wait.
    assert 0.75 * wanted_ms <= took_ms <= 1.25 * wanted_ms + 6_000
    assert bool(cluster.nodes[7].formed.installs.bytes_received) is (data is BY_FILES)


@EACH_WAY
def test_two_moves_of_one_broker_share_its_rate_and_the_slowest_rate_still_arrives(data: Data) -> None:
    cluster = full(data)
    slowest = THROTTLE_BYTES_PER_SECOND_MIN
    limit(cluster, EVERY_BROKER, {}, leader=slowest, follower=slowest)
    took_ms = moved_in_ms(cluster, 0, 7, 8)
    assert took_ms >= 0.75 * 2 * SIZE * 1_000 / slowest
    given_up = [cluster.nodes[broker].formed.installs.given_up for broker in (7, 8)]
    assert given_up == [0, 0]
    if data is BY_FILES:
        assert [cluster.nodes[broker].formed.installs.installed[GROUP] for broker in (7, 8)] == [1, 1]


def test_what_is_produced_meanwhile_does_not_wait() -> None:
    cluster = full(BY_ENTRIES)
    limit(cluster, EVERY_BROKER, {}, leader=RATE, follower=RATE)
    move(cluster, 0, 1, 7)
    assert produce(cluster, KIB, 5) < QUICK_MS
    assert 7 not in cluster.nodes[0].host.groups[GROUP].core.config.voters, "it is under way"
    await_moved(cluster, 0, 1, 7)


@EACH_WAY
def test_a_rate_that_is_taken_away_does_not_hold_any_more(data: Data) -> None:
    cluster = full(data)
    slowest = THROTTLE_BYTES_PER_SECOND_MIN
    limit(cluster, EVERY_BROKER, {}, leader=slowest)
    move(cluster, 0, 1, 7)
    cluster.world.run_for(4_000)
    began_us = cluster.world.now_us
    limit(cluster, EVERY_BROKER, {"leader": slowest})
    await_moved(cluster, 0, 1, 7)
    assert cluster.world.now_us - began_us < 8_000_000, "16 seconds at the rate"


def test_rates_outlive_restarts_and_are_known_to_brokers_that_join() -> None:
    cluster = cluster_of_six(3)
    limit(cluster, 7, {}, leader=RATE, follower=2 * RATE)
    limit(cluster, EVERY_BROKER, {}, leader=3 * RATE)
    for broker in (*FOUNDERS, *NEW):
        cluster.kill(broker)
    for broker in (*FOUNDERS, *NEW):
        cluster.restart(broker)
    cluster.wait_ready()
    throttles = {broker: node.host.throttle for broker, node in cluster.nodes.items()}
    assert (throttles[7].sends.rate, throttles[7].takes.rate) == (RATE, 2 * RATE)
    assert (throttles[0].sends.rate, throttles[0].takes.rate) == (3 * RATE, None)
