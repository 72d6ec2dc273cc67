"""The transaction log as Raft groups: made when it is first wanted, led by its coordinators, kept through restarts."""

from typing import NamedTuple

import pytest
from muster_coordinator.controller.commands import CreateTransactionLog
from muster_coordinator.controller.image import MEMBERS_LEVEL, TRANSACTIONS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.partitions.transaction_groups import TransactionGroup
from muster_coordinator.transactions.requests import (
    AddPartitions,
    Answer,
    DescribeTransaction,
    InitProducer,
    Request,
)
from muster_coordinator.transactions.states import State

from tests.replica.cluster import SimCluster
from tests.replica.serving_cluster import formed

LOG_ID = bytes([7]) * 16
CREATE = CreateTransactionLog(topic_id=LOG_ID, partitions=2, placed=((0, 1, 2), (1, 2, 0)))


class Coordinators(NamedTuple):
    cluster: SimCluster
    groups: tuple[int, ...]

    def ask(self, request: Request, group: int | None = None, among: list[int] | None = None) -> Answer:
        """At the coordinator, which is the leader."""
        number = self.groups[0] if group is None else group
        leader = self.cluster.wait_leader(number, among=among)
        answers: list[Answer] = []
        self.group(leader, number).request(request, answers.append)
        self.cluster.world.run_until(f"an answer to {request}", lambda: answers, 10_000)
        assert len(answers) == 1
        return answers[0]

    def group(self, broker: int, number: int) -> TransactionGroup:
        manager = self.cluster.nodes[broker].group_manager
        assert manager is not None
        return manager.coordinators[GroupNo(number)]


def with_log(**settings: object) -> Coordinators:
    cluster = formed(**settings)
    result = cluster.submit(0, CREATE)
    assert (result.error, result.value) == (Code.NONE, 2)
    image = cluster.nodes[0].image()
    assert image is not None
    groups = tuple(int(place.group) for place in image.topics[TRANSACTIONS_TOPIC].partitions)
    for group in groups:
        cluster.wait_leader(group)
    return Coordinators(cluster, groups)


def test_a_cluster_without_transactions_has_no_such_groups_and_one_with_them_has() -> None:
    cluster = formed()
    assert {int(number) for number in cluster.nodes[0].host.groups} == set(range(5))
    assert cluster.submit(1, CREATE).error == Code.NONE
    assert cluster.submit(2, CREATE).error == Code.TOPIC_ALREADY_EXISTS
    for group in (5, 6):
        cluster.wait_leader(group)
    image = cluster.nodes[0].image()
    assert image is not None
    assert image.topics[TRANSACTIONS_TOPIC].internal


def test_a_cluster_of_a_level_before_is_refused_the_log() -> None:
    cluster = formed(level=MEMBERS_LEVEL - 1)
    assert cluster.submit(0, CREATE).error == Code.UNSUPPORTED_VERSION


def test_an_answer_is_on_all_replicas_and_survives_the_coordinator() -> None:
    log = with_log()
    given = log.ask(InitProducer("t", 60_000))
    assert (given.code, given.producer_epoch) == (Code.NONE, 0)
    added = log.ask(AddPartitions("t", given.producer_id, 0, frozenset({("t", 0)})))
    assert added.code is Code.NONE
    log.cluster.converge()
    dead = log.cluster.wait_leader(log.groups[0])
    log.cluster.kill(dead)
    known = log.ask(DescribeTransaction("t"), among=[b for b in range(3) if b != dead]).transaction
    assert known is not None
    assert (known.state, known.partitions) == (State.ONGOING, frozenset({("t", 0)}))
    log.cluster.restart(dead)
    log.cluster.wait_ready()
    log.cluster.converge()


def test_only_the_leader_answers() -> None:
    log = with_log()
    leader = log.cluster.wait_leader(log.groups[0])
    other = next(broker for broker in range(3) if broker != leader)
    answers: list[Answer] = []
    log.group(other, log.groups[0]).request(InitProducer("t", 60_000), answers.append)
    assert [answer.code for answer in answers] == [Code.NOT_COORDINATOR]


def test_a_coordinator_that_is_cut_off_promises_nothing() -> None:
    """It still believes that it leads: what it cannot confirm, and what it cannot write, it does not say."""
    log = with_log()
    given = log.ask(InitProducer("t", 60_000))
    leader = log.cluster.wait_leader(log.groups[0])
    log.cluster.net.isolate(leader)
    described: list[Answer] = []
    added: list[Answer] = []
    cut_off = log.group(leader, log.groups[0])
    cut_off.request(DescribeTransaction("t"), described.append)
    cut_off.request(AddPartitions("t", given.producer_id, 0, frozenset({("t", 0)})), added.append)
    log.cluster.world.run_until("both answered", lambda: described and added, 20_000)
    assert described[0].code is Code.NOT_COORDINATOR
    assert added[0].code in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)
    rest = [broker for broker in range(3) if broker != leader]
    assert log.ask(InitProducer("t", 60_000), among=rest).producer_epoch == 1


def test_checkpoints_carry_the_state_through_a_restart_of_all() -> None:
    log = with_log(checkpoint_bytes=4_096, trailing_entries=16)
    given = [log.ask(InitProducer(f"t{index}", 60_000), group=log.groups[index % 2]) for index in range(40)]
    assert {answer.code for answer in given} == {Code.NONE}
    log.cluster.converge()
    before = {group: log.cluster.hashes(group) for group in log.groups}
    for broker in range(3):
        log.cluster.kill(broker)
    for broker in range(3):
        log.cluster.restart(broker)
    log.cluster.wait_ready()
    for group in log.groups:
        log.cluster.wait_leader(group)
    log.cluster.converge()
    for group in log.groups:
        assert {state for _, state in before[group]} == {state for _, state in log.cluster.hashes(group)}
    again = log.ask(InitProducer("t1", 60_000), group=log.groups[1])
    assert again == given[1]._replace(producer_epoch=1)


@pytest.mark.parametrize("transactional_id", ["x" * 32_767, "ü"])
def test_any_legal_id_is_kept(transactional_id: str) -> None:
    log = with_log()
    assert log.ask(InitProducer(transactional_id, 1)).code is Code.NONE
    log.cluster.converge(list(log.groups))


def test_an_open_transaction_is_aborted_by_its_time_without_anybody_asking() -> None:
    log = with_log()
    given = log.ask(InitProducer("t", 5_000))
    log.ask(AddPartitions("t", given.producer_id, 0, frozenset({("t", 0)})))
    log.cluster.world.run_for(6_000)
    known = log.ask(DescribeTransaction("t")).transaction
    assert known is not None
    assert known.state in (State.PREPARE_ABORT, State.COMPLETE_ABORT)
    assert known.producer_epoch == 1
