"""TxnOffsetCommit and markers on a leading shard: who may write, what is refused, and what becomes visible when.

Oracle: Kafka's `OffsetMetadataManager` and `ProducerAppendInfo` (protocol notes 4.2, 4.4), KIP-447, KIP-890.
"""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.requests import (
    DeleteGroup,
    PartitionCommit,
    TopicCommit,
    TxnOffsetCommit,
    WriteMarker,
)
from muster_coordinator.records.batch import parse_header
from muster_coordinator.records.control import EndMarker, TransactionMarker

from tests.groups.host import NO_ID, Host, code_of, commit, delete, fetch, join, stable

P = 7


def txn(
    host: Host,
    offset: int = 2,
    *,
    producer: int = P,
    epoch: int = 0,
    group: str = "g",
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    partition: int = 0,
    metadata: str = "",
    verified: bool = True,
    verification: int | None = None,
) -> int:
    """The ticket of a commit in a transaction; `verified`: its coordinator agreed, if it was to be asked."""
    number = host.leader.begin_verification(producer, epoch) if verified and verification is None else verification or 0
    topics = (TopicCommit("t", NO_ID, (PartitionCommit(partition, offset, -1, metadata),)),)
    return host.send(TxnOffsetCommit(group, generation, member, instance, topics, producer, epoch, number))


def code(host: Host, ticket: int) -> int:
    return code_of(host.answers[ticket])


def end(
    host: Host, *, producer: int = P, epoch: int = 0, commit: bool = True, coordinator: int = 1, version: int = 0
) -> int:
    return host.send(WriteMarker(TransactionMarker(producer, epoch, EndMarker(commit, coordinator), version)))


def ended(host: Host, ticket: int) -> int:
    return code_of(host.answers[ticket])


def test_offsets_become_visible_with_their_marker_and_never_before() -> None:
    host = Host()
    host.ask(commit(offset=1))
    host.hold = True
    ticket = txn(host, 2)
    assert fetch(host).offset == 1
    host.commit()
    assert code(host, ticket) == 0
    assert (fetch(host).offset, fetch(host, stable=True).error) == (1, 88)
    marker = end(host)
    assert (fetch(host).offset, fetch(host, stable=True).error) == (1, 88)
    assert marker not in host.answers, "a marker is answered once it is applied"
    host.commit()
    assert ended(host, marker) == 0
    assert fetch(host, stable=True).offset == 2
    host.check_replicas()


def test_an_aborted_one_leaves_nothing() -> None:
    host = Host()
    host.ask(commit(offset=1))
    txn(host, 2)
    assert ended(host, end(host, commit=False)) == 0
    assert fetch(host, stable=True).offset == 1
    assert host.leader.first_open_offset() == -1
    host.check_replicas()


def test_the_batches_are_those_of_kafka() -> None:
    """`MemoryRecordsBuilder` of `CoordinatorRuntime`: base sequence 0, transactional; a marker has no sequence."""
    host = Host()
    txn(host, 2, epoch=3)
    end(host, epoch=3)
    data, marker = (parse_header(entry.batch) for entry in host.log[-2:])
    assert (data.producer_id, data.producer_epoch, data.base_sequence) == (P, 3, 0)
    assert (data.is_transactional, data.is_control) == (True, False)
    assert (marker.producer_id, marker.producer_epoch, marker.base_sequence) == (P, 3, -1)
    assert (marker.is_transactional, marker.is_control, marker.count) == (True, True, 1)


def test_the_first_write_needs_the_coordinators_word_and_the_next_ones_do_not() -> None:
    host = Host()
    assert code(host, txn(host, verified=False)) == Code.INVALID_TXN_STATE
    assert len(host.log) == 0
    assert not host.leader.open_transaction(P, 0)
    assert code(host, txn(host)) == 0
    assert host.leader.open_transaction(P, 0)
    assert host.leader.begin_verification(P, 0) == 0
    assert code(host, txn(host, 3, verified=False, group="another")) == 0
    assert not host.leader.open_transaction(P, 1), "of another epoch it is another transaction"


def test_a_word_from_before_the_marker_allows_nothing_after_it() -> None:
    """A commit that was verified, and held up on its way until its transaction had ended, opens no new one."""
    host = Host()
    late = host.leader.begin_verification(P, 0)
    txn(host, 2)
    end(host, commit=False)
    assert code(host, txn(host, 3, verification=late)) == Code.INVALID_TXN_STATE
    assert host.leader.first_open_offset() == -1
    assert fetch(host, stable=True).offset == -1


def test_a_marker_in_flight_counts_before_it_is_applied() -> None:
    host = Host()
    late = host.leader.begin_verification(P, 0)
    txn(host, 2)
    host.hold = True
    end(host)
    assert not host.leader.open_transaction(P, 0)
    assert code(host, txn(host, 3, verification=late)) == Code.INVALID_TXN_STATE
    host.commit_all()
    assert fetch(host, stable=True).offset == 2


def test_a_word_is_for_one_leader() -> None:
    host = Host()
    number = host.leader.begin_verification(P, 0)
    host.hand_over()
    host.hand_over()
    assert code(host, txn(host, verification=number)) == Code.INVALID_TXN_STATE


def test_a_word_that_was_given_back_is_worth_nothing() -> None:
    host = Host()
    number = host.leader.begin_verification(P, 0)
    host.leader.end_verification(P, number)
    host.leader.end_verification(P, number)
    assert code(host, txn(host, verification=number)) == Code.INVALID_TXN_STATE
    assert not host.leader._core.producers._verifications


def test_zombies_are_fenced_by_epochs_applied_and_in_flight() -> None:
    host = Host()
    txn(host, epoch=5)
    assert code(host, txn(host, 9, epoch=4)) == Code.INVALID_PRODUCER_EPOCH
    host.hold = True
    end(host, epoch=6, version=2)
    zombie = txn(host, 9, epoch=5)
    assert code(host, zombie) == Code.INVALID_PRODUCER_EPOCH
    assert len(host.in_flight) == 1
    host.commit_all()
    assert fetch(host, stable=True).offset == 2
    assert ended(host, end(host, epoch=4)) == Code.INVALID_PRODUCER_EPOCH
    host.hand_over()
    assert code(host, txn(host, 9, epoch=5)) == Code.INVALID_PRODUCER_EPOCH, "the next leader knows it"


def test_a_marker_that_was_refused_its_place_fences_nobody() -> None:
    """The log had no room for it (BUSY): it will come again, and until then the transaction is as it was."""
    host = Host()
    txn(host)
    host.hold = True
    marker = end(host, epoch=1, version=2)
    host.drop(Code.COORDINATOR_NOT_AVAILABLE)
    assert ended(host, marker) == Code.COORDINATOR_NOT_AVAILABLE
    host.hold = False
    assert host.leader.open_transaction(P, 0)
    assert code(host, txn(host, 3)) == 0
    assert ended(host, end(host, epoch=1, version=2)) == 0
    assert fetch(host).offset == 3


def test_markers_that_come_again() -> None:
    """Version 2: stored once, and worth nothing once the producer goes on. Older ones end nothing a second time."""
    host = Host()
    txn(host, epoch=0)
    assert ended(host, end(host, epoch=1, version=2)) == 0
    stored = len(host.log)
    assert ended(host, end(host, epoch=1, version=2)) == 0
    assert len(host.log) == stored
    txn(host, 5, epoch=1)
    assert ended(host, end(host, epoch=1, version=2)) == Code.INVALID_PRODUCER_EPOCH
    assert fetch(host).offset == 2, "the late marker of one transaction does not end the next"
    assert ended(host, end(host, epoch=2, version=2)) == 0
    assert fetch(host).offset == 5
    old = Host()
    txn(old)
    assert [ended(old, end(old)) for _ in range(2)] == [0, 0]
    assert fetch(old, stable=True).offset == 2


def test_a_marker_that_comes_again_is_not_done_before_it_is_in_the_log() -> None:
    """The first one is in flight, and lost with its leader: an answer by then would leave the transaction open."""
    host = Host()
    txn(host)
    host.hold = True
    first, again = (end(host, epoch=1, version=2) for _ in range(2))
    assert not {first, again} & host.answers.keys()
    host.commit()
    assert ended(host, first) == 0
    assert again not in host.answers
    host.commit()
    assert ended(host, again) == 0


def test_a_transaction_coordinator_that_is_no_more_is_fenced() -> None:
    """By markers applied and in flight, and by the next leader, also from a checkpoint."""
    host = Host()
    txn(host)
    host.hold = True
    end(host, coordinator=5)
    assert ended(host, end(host, coordinator=4)) == Code.TRANSACTION_COORDINATOR_FENCED
    host.commit_all()
    host.hold = False
    assert code(host, txn(host)) == 0, "a commit does not forget it"
    assert ended(host, end(host, coordinator=4)) == Code.TRANSACTION_COORDINATOR_FENCED
    host.check_replicas()
    host.hand_over()
    assert ended(host, end(host, coordinator=4)) == Code.TRANSACTION_COORDINATOR_FENCED
    assert ended(host, end(host, coordinator=5)) == 0


def test_a_marker_for_a_producer_that_never_was_here_is_stored() -> None:
    """The coordinator must be able to complete, and a late first write must be fenced."""
    host = Host()
    assert ended(host, end(host, epoch=4)) == 0
    assert code(host, txn(host, epoch=3)) == Code.INVALID_PRODUCER_EPOCH


def test_the_group_is_judged_as_kip_447_says() -> None:
    host = Host()
    member = stable(host, 1)[0].id
    assert code(host, txn(host, member=member, generation=1)) == 0
    assert code(host, txn(host, member=member, generation=2)) == Code.ILLEGAL_GENERATION
    assert code(host, txn(host, member=member, generation=-1)) == Code.ILLEGAL_GENERATION
    assert code(host, txn(host, member="stranger", generation=1)) == Code.UNKNOWN_MEMBER_ID
    assert code(host, txn(host, member=member, generation=1, instance="i")) == Code.UNKNOWN_MEMBER_ID
    assert code(host, txn(host)) == 0, "versions 0 to 2 name no member, and may commit in any state"
    assert code(host, txn(host, group="unknown", generation=1)) == Code.ILLEGAL_GENERATION
    assert code(host, txn(host, group="")) == Code.INVALID_GROUP_ID
    assert code(host, txn(host, group="x" * 40_000)) == Code.INVALID_GROUP_ID


def test_a_fenced_instance_is_told_so() -> None:
    host = Host()
    member = stable(host, 1, instance="i")[0].id
    assert code(host, txn(host, member="old", generation=1, instance="i")) == Code.FENCED_INSTANCE_ID
    assert code(host, txn(host, member=member, generation=1, instance="i")) == 0


def test_while_the_plan_is_missing_a_transaction_may_commit_and_others_may_not() -> None:
    host = Host()
    ticket = host.send(join())
    host.tick()
    member = host.answers[ticket].member
    assert code(host, host.send(commit(member, 1))) == Code.REBALANCE_IN_PROGRESS
    assert code(host, txn(host, member=member, generation=1)) == 0


def test_it_says_nothing_about_the_members_life() -> None:
    """Kafka restarts a session by OffsetCommit, and not by TxnOffsetCommit."""
    host = Host()
    member = stable(host, 1)[0].id
    session = host.leader._core.lives["g"].sessions[member].at_ms
    host.advance(1_000)
    txn(host, member=member, generation=1)
    assert host.leader._core.lives["g"].sessions[member].at_ms == session


def test_too_long_a_text_is_refused_by_itself() -> None:
    host = Host()
    assert code(host, txn(host, metadata="x" * 4_097)) == Code.OFFSET_METADATA_TOO_LARGE
    assert len(host.log) == 0
    assert not host.leader.open_transaction(P, 0)


@pytest.mark.parametrize(("producer", "epoch"), [(-1, 0), (P, -1), (-(2**63), 0)])
def test_there_is_no_transaction_without_a_producer(producer: int, epoch: int) -> None:
    host = Host()
    assert code(host, txn(host, producer=producer, epoch=epoch)) == Code.INVALID_PRODUCER_ID_MAPPING


def test_extreme_producers_are_stored() -> None:
    host = Host()
    assert code(host, txn(host, producer=2**63 - 1, epoch=32_767)) == 0
    assert ended(host, end(host, producer=2**63 - 1, epoch=32_767, coordinator=2**31 - 1)) == 0
    assert fetch(host).offset == 2
    host.check_replicas()


def test_open_transactions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OFFSETS_TRANSACTIONS_MAX", 2)
    host = Host()
    host.hold = True
    assert not [ticket for ticket in (txn(host, producer=1), txn(host, producer=2)) if ticket in host.answers]
    assert code(host, txn(host, producer=3)) == Code.COORDINATOR_NOT_AVAILABLE
    host.commit_all()
    assert code(host, txn(host, producer=3)) == Code.COORDINATOR_NOT_AVAILABLE
    host.hold = False
    end(host, producer=1)
    assert code(host, txn(host, producer=3)) == 0


def test_leadership_lost_leaves_its_fate_unknown() -> None:
    host = Host()
    host.hold = True
    ticket, marker = txn(host), end(host)
    host.hand_over()
    assert code(host, ticket) == Code.NOT_COORDINATOR
    assert ended(host, marker) == Code.NOT_COORDINATOR
    host.hold = False
    assert code(host, txn(host, verified=False)) == Code.INVALID_TXN_STATE, "nothing of it is left"


def test_a_plain_commit_over_a_pending_one_stays() -> None:
    host = Host()
    txn(host, 2)
    host.ask(commit(offset=9))
    assert fetch(host, stable=True).error == 88
    end(host)
    assert fetch(host, stable=True).offset == 9


def test_deleting_the_group_takes_what_is_pending_and_the_marker_brings_nothing_back() -> None:
    host = Host()
    txn(host, 2)
    host.hold = True
    marker = end(host)
    deletion = host.send(DeleteGroup("g"))
    host.commit_all()
    assert ended(host, marker) == 0
    assert deletion in host.answers
    host.hold = False
    assert fetch(host, stable=True).offset == -1
    assert not host.leader._core.state.has_group("g")
    host.check_replicas()


def test_nothing_pending_expires_and_its_group_stays() -> None:
    host = Host()
    txn(host, 2)
    host.advance(host.config.offsets_retention_ms + 2 * host.config.offsets_retention_check_ms)
    assert fetch(host, stable=True).error == 88
    end(host)
    assert fetch(host, stable=True).offset == 2


def test_groups_of_one_transaction_end_together() -> None:
    host = Host()
    txn(host, 2, group="a")
    txn(host, 3, group="b", partition=1)
    end(host)
    assert (fetch(host, "a").offset, fetch(host, "b", partition=1).offset) == (2, 3)
    assert delete(host, "a") == 0
