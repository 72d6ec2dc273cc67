"""Brokers tell what they lead, and exchange partitions until each holds about as much, on virtual time (ADR 81)."""

import pytest
from muster_coordinator.controller.commands import CreateTopic, PauseBalancer
from muster_coordinator.controller.weighing import UNKNOWN, Verdict, Weight
from muster_coordinator.errors import Code, WireError
from muster_coordinator.events import BALANCER_MOVE, MOVE_COMPLETE
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.limits import KIB
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.formed import FormedNode
from muster_coordinator.replica.maintenance import weights
from muster_coordinator.replica.maintenance.balancer import WEIGH_MS, State
from muster_coordinator.replica.maintenance.weight_payload import (
    WEIGHTS_PER_FRAME_MAX,
    decode_weights,
    encode_weights,
)
from muster_coordinator.replica.maintenance.weights import COUNTS_MS, RATE_KNOWN_MS, REPORT_MS, SMOOTHED_MS, Meter
from muster_coordinator.replica.multiraft.payloads import HEAD_BYTES, Kind, kind_of

from tests.replica.cluster import SimCluster, produce_when_room
from tests.replica.serving_cluster import formed
from tests.replica.test_balancer import held, image_of, orders, under_way

ORDERS = bytes([9]) * 16
LARGE = 300 * KIB
SMALL_PARTITIONS_SETTINGS = {
    "balancer_quiet_ms": 3_000,
    "balancer_difference_min_bytes": 64 * KIB,
    "takeback_ms": 1_000,
}


def cluster_with_large_partitions_on_one_broker(**settings: int) -> SimCluster:
    """Three partitions with one replica on each of three brokers; those of broker 0 have 300 KiB."""
    cluster = formed(**{**SMALL_PARTITIONS_SETTINGS, **settings})
    placed = tuple((BrokerId(at // 3),) for at in range(9))
    topic = CreateTopic(name="orders", topic_id=ORDERS, partitions=9, configs=(), placed=placed)
    assert cluster.submit(0, topic).error == Code.NONE
    for number in range(3):
        produce(cluster, number, LARGE)
    return cluster


def produce(cluster: SimCluster, number: int, size: int) -> None:
    group = orders(cluster)[number].group
    leader = cluster.wait_leader(group)
    log = cluster.nodes[leader].local_log(group)
    assert log is not None
    codes: list[Code] = []
    batch = encode_batch([(b"k", bytes(size))], timestamp_ms=1_700_000_000_000)
    produce_when_room(log, batch, cluster.loops[leader].monotonic_ms() + 5_000, codes.append)
    cluster.world.run_until("an answer", lambda: codes, 20_000)
    assert codes == [Code.NONE]


def first(cluster: SimCluster) -> FormedNode:
    """Of the controller's leader."""
    node = cluster.nodes[cluster.wait_leader(CONTROLLER_GROUP)].formed
    assert node is not None
    return node


def verdicts(cluster: SimCluster) -> list[Verdict]:
    return [one.verdict for one in first(cluster).balancer.weighed.decisions]


def held_bytes(cluster: SimCluster) -> dict[int, int]:
    """Read from each broker's own segments."""
    found = {}
    for broker, node in cluster.nodes.items():
        logs = (node.local_log(partition.group) for partition in orders(cluster))
        found[broker] = sum(log.size_bytes() for log in logs if log is not None)
    return found


def test_what_one_broker_has_too_much_of_is_exchanged_and_there_it_ends() -> None:
    cluster = cluster_with_large_partitions_on_one_broker()
    before = held(cluster)
    cluster.world.run_until("an exchange", lambda: cluster.told(BALANCER_MOVE), 120_000)
    assert under_way(cluster) <= 2
    cluster.world.run_until("level", lambda: verdicts(cluster)[:1] == [Verdict.LEVEL], 300_000)
    sizes = held_bytes(cluster)
    assert max(sizes.values()) - min(sizes.values()) < 64 * KIB, sizes
    assert min(sizes.values()) > LARGE
    assert held(cluster) == before, "each has as many replicas as it had"
    told = cluster.told(BALANCER_MOVE)
    assert len(told) == 4, "two exchanges of two partitions"
    assert len({one["moved_partition"] for one in told}) == 4, "each partition once"
    assert all("bytes, broker" in str(one["reason"]) for one in told)
    cluster.world.run_for(90_000)
    assert len(cluster.told(BALANCER_MOVE)) == 4, "and nothing goes back"
    assert len(cluster.told(MOVE_COMPLETE)) == 4
    balancer = first(cluster).balancer
    assert balancer.status == (State.LEVEL, "", 0)
    assert balancer.weighed.exchanges <= 2
    assert [one.size_bytes for one in balancer.weighed.held] == [
        sum(told.size_bytes for told in known) for known in by_broker(cluster)
    ]


def by_broker(cluster: SimCluster) -> list[list[Weight]]:
    known = first(cluster).weights.known().partitions
    places = [place for topic in image_of(cluster).topics.values() for place in topic.partitions]
    return [[known[place.group] for place in places if broker in place.voters] for broker in sorted(cluster.nodes)]


def test_it_is_begun_by_nobody_while_it_is_paused_or_switched_off_or_a_broker_is_away() -> None:
    cluster = cluster_with_large_partitions_on_one_broker()
    assert cluster.submit(0, PauseBalancer(paused=True)).error == Code.NONE
    cluster.world.run_for(60_000)
    assert not cluster.told(BALANCER_MOVE)
    cluster.kill(2)
    cluster.world.run_for(5_000)
    leader = first(cluster)
    away, here = orders(cluster)[6].group, orders(cluster)[0].group
    known = leader.weights.known().partitions
    assert away not in known, "what it led is not known any more, although it told that lately"
    leader.weights.received(BrokerId(2), encode_weights(2**62, [(away, Weight(2**64 - 1)), (here, Weight(0))]))
    assert leader.weights.known().partitions == known, "a report that comes late counts for nothing"
    assert cluster.submit(0, PauseBalancer(paused=False)).error == Code.NONE
    cluster.world.run_for(COUNTS_MS + WEIGH_MS)
    assert not cluster.told(BALANCER_MOVE)
    leader = first(cluster)
    assert [one.broker for one in leader.balancer.weighed.held] == [0, 1], "who is away is given nothing"
    never = cluster_with_large_partitions_on_one_broker(balancer_difference_percent=-1)
    never.world.run_for(60_000)
    assert verdicts(never) == [Verdict.OFF, Verdict.OFF]
    assert not never.told(BALANCER_MOVE)


def test_another_leader_of_the_controllers_group_is_told_anew() -> None:
    cluster = cluster_with_large_partitions_on_one_broker(balancer_quiet_ms=-1, takeback_ms=600_000)
    cluster.world.run_for(2 * REPORT_MS)
    was = cluster.wait_leader(CONTROLLER_GROUP)
    groups = {place.group for topic in image_of(cluster).topics.values() for place in topic.partitions}
    assert first(cluster).weights.known().partitions.keys() == groups
    assert cluster.nodes[was].transfer(CONTROLLER_GROUP, BrokerId((was + 1) % 3))
    cluster.world.run_until("another", lambda: cluster.leader_of(CONTROLLER_GROUP) not in (None, was), 20_000)
    cluster.world.run_for(2 * REPORT_MS)
    assert first(cluster).weights.known().partitions.keys() == groups
    assert not cluster.nodes[was].formed.balancer.weighed.decisions  # type: ignore[union-attr]
    cluster.world.run_for(COUNTS_MS)
    assert not cluster.nodes[was].formed.weights.known().partitions  # type: ignore[union-attr]
    assert not cluster.told(BALANCER_MOVE)


def test_reports_come_in_slices_and_rates_are_known_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "SLICE_GROUPS", 1)
    cluster = cluster_with_large_partitions_on_one_broker(balancer_quiet_ms=-1)
    group = orders(cluster)[0].group
    cluster.world.run_for(2 * REPORT_MS)
    known = first(cluster).weights.known().partitions
    assert len(known) == 13
    assert (known[group].write_rate, known[group].read_rate) == (UNKNOWN, UNKNOWN)
    cluster.world.run_for(RATE_KNOWN_MS)
    assert first(cluster).weights.known().partitions[group].write_rate >= 0
    log = cluster.nodes[0].local_log(group)
    assert log is not None
    log.read(0, 2 * LARGE, whole_first_batch=True)
    cluster.world.run_for(REPORT_MS)
    assert first(cluster).weights.known().partitions[group].read_rate > 1_000, "300 KiB in 80 s"


def test_a_rate_is_the_mean_at_first_and_follows_slowly_then() -> None:
    meter = Meter(0, 1_000)
    assert meter.look(0, 1_000) == UNKNOWN
    assert meter.look(RATE_KNOWN_MS // 2, 1_000 + 500 * 30) == UNKNOWN
    assert meter.look(RATE_KNOWN_MS, 1_000 + 500 * 30) == 250, "the mean of 500 and nothing"
    now_ms, count = RATE_KNOWN_MS, 16_000
    for _ in range(6 * SMOOTHED_MS // REPORT_MS):
        now_ms, count = now_ms + REPORT_MS, count + 10_000
        rate = meter.look(now_ms, count)
    assert 980 <= rate <= 1_000
    assert 980 <= meter.look(now_ms + REPORT_MS, count + 30_000) <= 1_050, "one peak of three times as much"
    assert meter.look(now_ms + 2 * REPORT_MS, 10_000) <= 1_050, "a count that began anew"


def test_a_report_is_read_as_written_at_the_extremes_of_each_field() -> None:
    rows = [(GroupNo(2**32 - 1), Weight(2**64 - 1, 2**63 - 1, 2**63 - 1)), (GroupNo(0), Weight(0, UNKNOWN, UNKNOWN))]
    rows *= WEIGHTS_PER_FRAME_MAX // 2
    payload = encode_weights(2**63 - 1, rows)
    assert kind_of(payload) is Kind.WEIGHTS
    assert decode_weights(payload) == (2**63 - 1, rows)
    assert decode_weights(encode_weights(UNKNOWN, [])) == (UNKNOWN, [])
    above = encode_weights(2**80, [(GroupNo(1), Weight(2**80, 2**80, 2**80))])
    assert decode_weights(above) == (2**63 - 1, [(GroupNo(1), Weight(2**64 - 1, 2**63 - 1, 2**63 - 1))])


def test_a_report_that_is_cut_or_says_less_than_nothing_is_refused() -> None:
    payload = encode_weights(5, [(GroupNo(1), Weight(7, 8, 9))])
    for end in range(HEAD_BYTES, len(payload)):
        with pytest.raises(WireError):
            decode_weights(payload[:end])
    many = payload[: HEAD_BYTES + 8] + (WEIGHTS_PER_FRAME_MAX + 1).to_bytes(4, "big") + payload[HEAD_BYTES + 12 :]
    for broken in (
        many,
        encode_weights(-2, []),
        encode_weights(0, [(GroupNo(1), Weight(7, -2, 9))]),
        encode_weights(0, [(GroupNo(1), Weight(7, 8, -(2**63)))]),
    ):
        with pytest.raises(WireError):
            decode_weights(broken)
