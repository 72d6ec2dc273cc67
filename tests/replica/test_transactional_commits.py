"""TxnOffsetCommit and markers through the host of an offsets partition: what it asks, and when it gives up.

The rules themselves are in `tests/groups/offsets/test_txn_commits.py`.
"""

from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import PartitionCommit, TopicCommit, TxnOffsetCommit
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.replica import limits

from tests.replica.cluster import SimCluster
from tests.sim.loop import World

GROUP = GroupNo(1)
PARTITION = 0
P = 7


class Offsets:
    """An offsets partition and its leader."""

    def __init__(self, seed: int) -> None:
        self.cluster = SimCluster(World(seed))
        self.cluster.start()
        self.leader = self.cluster.wait_leader(GROUP)
        self.asked: list[Callable[[Code], None]] = []
        """The transaction's coordinator: who waits for its word."""

    def commit(self, broker: int | None = None, *, producer: int = P, epoch: int = 0, offset: int = 5) -> list[Any]:
        broker = self.leader if broker is None else broker
        answers: list[Any] = []
        topics = (TopicCommit("t", bytes(16), (PartitionCommit(0, offset, -1, ""),)),)
        request = TxnOffsetCommit("g", -1, "", None, topics, producer, epoch)
        self.cluster.nodes[broker].transactional_commit(
            PARTITION, request, self.cluster.context(broker), self.asked.append, answers.append
        )
        return answers

    def end(
        self, *, epoch: int = 0, commit: bool = True, wait_ms: int = 5_000, broker: int | None = None
    ) -> list[Code]:
        broker = self.leader if broker is None else broker
        codes: list[Code] = []
        log = self.cluster.nodes[broker].local_log(GROUP)
        deadline_ms = self.cluster.loops[broker].monotonic_ms() + wait_ms
        marker = TransactionMarker(P, epoch, EndMarker(commit, 1), 0)
        log.write_marker(marker, deadline_ms=deadline_ms, done=codes.append)
        return codes

    def wait(self, answers: list[Any]) -> int:
        self.cluster.world.run_until("an answer", lambda: answers)
        assert len(answers) == 1
        return int(answers[0]) if isinstance(answers[0], Code) else answers[0].topics[0][1][0][1]

    def offset(self, broker: int | None = None) -> int:
        return self.cluster.fetch(self.leader if broker is None else broker, PARTITION, "g")[1]

    def stable_offset(self) -> tuple[int, int]:
        """(last stable offset, high watermark) as readers of the partition see them."""
        read = self.cluster.nodes[self.leader].local_log(GROUP).read(0, 0, whole_first_batch=False)
        return read.last_stable_offset, read.high_watermark


def test_a_transaction_from_the_first_commit_to_its_marker_on_every_replica() -> None:
    it = Offsets(3)
    log = it.cluster.nodes[it.leader].local_log(GROUP)
    first = it.commit()
    assert first == [], "kept until the transaction's coordinator has agreed"
    it.asked.pop()(Code.NONE)
    assert it.wait(first) == 0
    assert log.open_transaction(P, 0)
    second = it.commit(offset=6)
    assert it.asked == [], "once is enough"
    assert it.wait(second) == 0
    stable, end = it.stable_offset()
    assert (stable < end, it.offset()) == (True, -1)
    it.cluster.world.run_for(1_000)
    (held,) = it.cluster.nodes[it.leader].open_transactions()
    assert (held.group, held.lag, held.open_ms >= 1_000) == (GROUP, end - stable, True)
    (producer,) = log.producers()
    assert producer[:3] == (P, 0, 0)
    assert producer.transaction_first_offset == stable
    assert it.wait(it.end()) == 0
    assert list(it.cluster.nodes[it.leader].open_transactions()) == []
    assert [(one.transaction_first_offset, one.coordinator_epoch) for one in log.producers()] == [(-1, 1)]
    assert not log.open_transaction(P, 0)
    assert it.offset() == 6
    assert it.stable_offset()[0] == it.stable_offset()[1]
    it.cluster.converge([GROUP])


@pytest.mark.parametrize(
    ("says", "told"),
    [(Code.INVALID_TXN_STATE, 48), (Code.COORDINATOR_LOAD_IN_PROGRESS, 14), (Code.NETWORK_EXCEPTION, 14)],
)
def test_without_its_word_nothing_is_written(says: Code, told: int) -> None:
    it = Offsets(4)
    before = it.stable_offset()
    answers = it.commit()
    it.asked.pop()(says)
    assert it.wait(answers) == told
    assert it.stable_offset() == before
    assert not it.cluster.nodes[it.leader].group_manager.shards[PARTITION].shard._core.producers._verifications


def test_a_word_is_worth_nothing_in_another_term() -> None:
    it = Offsets(5)
    answers = it.commit()
    old = it.leader
    other = next(broker for broker in it.cluster.nodes if broker != old)
    assert it.cluster.nodes[old].transfer(GROUP, BrokerId(other))
    it.cluster.world.run_until("another leader", lambda: it.cluster.leader_of(GROUP) == other)
    assert it.cluster.nodes[other].transfer(GROUP, BrokerId(old))
    it.cluster.world.run_until("the first one again", lambda: it.cluster.leader_of(GROUP) == old)
    it.asked.pop()(Code.NONE)
    assert it.wait(answers) == Code.NOT_COORDINATOR
    assert it.end(broker=other) == [Code.NOT_LEADER_OR_FOLLOWER]
    assert it.wait(it.commit(other)) == Code.NOT_COORDINATOR


def test_a_leader_that_may_not_serve_yet_says_so_and_asks_nobody() -> None:
    """It cannot know whether a marker lies in its log ahead of what it has applied, so no word would be worth anything.
    Taken for a commit outside of any transaction, it was fatal to librdkafka."""
    it = Offsets(8)
    others = [broker for broker in it.cluster.nodes if broker != it.leader]
    it.cluster.kill(it.leader)

    def led_not_serving() -> int | None:
        groups = {broker: it.cluster.nodes[broker].host.groups[GROUP] for broker in others}
        return next((broker + 1 for broker, group in groups.items() if group.leads and not group.serves), None)

    new = it.cluster.world.run_until("somebody was elected", led_not_serving, 3_000) - 1
    answers = it.commit(new)
    assert it.wait(answers) == Code.COORDINATOR_LOAD_IN_PROGRESS
    assert it.asked == []
    it.leader = it.cluster.wait_leader(GROUP, among=others)
    again = it.commit()
    it.asked.pop()(Code.NONE)
    assert it.wait(again) == 0


def test_who_waits_for_coordinators_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUP_VERIFICATIONS_MAX", 2)
    it = Offsets(6)
    held = [it.commit(producer=producer) for producer in (1, 2)]
    assert it.wait(it.commit(producer=3)) == Code.COORDINATOR_NOT_AVAILABLE
    for agree in it.asked:
        agree(Code.NONE)
    assert [it.wait(answers) for answers in held] == [0, 0]
    third = it.commit(producer=3)
    it.asked[-1](Code.NONE)
    assert it.wait(third) == 0


def test_a_marker_that_no_quorum_stores_is_not_called_written() -> None:
    """Its fate is unknown at the deadline; sent again to the next leader it is done, once for all."""
    it = Offsets(7)
    answers = it.commit()
    it.asked.pop()(Code.NONE)
    assert it.wait(answers) == 0
    it.cluster.net.isolate(it.leader)
    assert it.end(wait_ms=0) == [Code.REQUEST_TIMED_OUT]
    codes = it.end(wait_ms=300)
    assert codes == []
    it.cluster.world.run_until("no answer in time", lambda: codes, 2_000)
    assert codes[0] in (Code.REQUEST_TIMED_OUT, Code.NOT_LEADER_OR_FOLLOWER)
    others = [broker for broker in it.cluster.nodes if broker != it.leader]
    it.leader = it.cluster.wait_leader(GROUP, among=others)
    assert it.wait(it.end()) == 0
    assert it.offset() == 5
