"""The transaction coordinator against the rules of Kafka's `TransactionCoordinator` (KIP-98, 360, 890)."""

import pytest
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.records.transaction_log import decode_transaction_value, encode_transaction_value
from muster_coordinator.transactions import limits
from muster_coordinator.transactions.coordinator import TransactionCoordinator
from muster_coordinator.transactions.effects import SendMarkers
from muster_coordinator.transactions.flights import JOINED_MAX
from muster_coordinator.transactions.metadata import EPOCHS_EXHAUSTED, Transaction, transaction_of, value_of
from muster_coordinator.transactions.requests import (
    AddPartitions,
    Answer,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
)
from muster_coordinator.transactions.states import State
from muster_coordinator.transactions.stats import TransactionStats

from tests.transactions.host import A0, A1, B0, CONFIG, TransactionHost


@pytest.fixture
def host() -> TransactionHost:
    return TransactionHost()


def at_epoch(host: TransactionHost, epoch: int) -> Answer:
    """A producer at this epoch, reached by a record of the log, as 32,000 transactions before would have."""
    given = host.init()
    known = host.of("t")
    host.leader._state.put("t", _with_epoch(known, epoch))
    host.follower._state.put("t", _with_epoch(known, epoch))
    return given._replace(producer_epoch=epoch)


def _with_epoch(known: Transaction, epoch: int) -> Transaction:
    return transaction_of(value_of(known)._replace(producer_epoch=epoch))


class TestInitProducerId:
    def test_a_new_id_gets_a_producer_id_and_epoch_0(self, host: TransactionHost) -> None:
        assert host.init() == Answer(Code.NONE, 1_001, 0)
        assert host.of("t").state is State.EMPTY

    def test_each_further_one_gets_the_next_epoch(self, host: TransactionHost) -> None:
        first = host.init()
        assert host.init() == first._replace(producer_epoch=1)

    def test_it_answers_only_when_its_record_is_applied(self, host: TransactionHost) -> None:
        ticket = host.ask(InitProducer("t", 60_000))
        assert ticket not in host.answers
        host.commit()
        assert host.answers[ticket].code is Code.NONE
        assert host.proven[ticket]

    @pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
    def test_a_timeout_out_of_range_is_refused(self, host: TransactionHost, timeout_ms: int) -> None:
        assert host.init(timeout_ms=timeout_ms).code is Code.INVALID_TRANSACTION_TIMEOUT
        assert host.init(timeout_ms=900_000).code is Code.NONE

    def test_an_empty_id_is_an_invalid_request(self, host: TransactionHost) -> None:
        assert host.init("").code is Code.INVALID_REQUEST

    def test_while_another_is_in_flight_it_is_to_be_tried_again(self, host: TransactionHost) -> None:
        host.ask(InitProducer("t", 60_000))
        second = host.ask(InitProducer("t", 60_000))
        assert host.answers[second].code is Code.CONCURRENT_TRANSACTIONS

    def test_an_open_transaction_is_aborted_first_and_its_producer_fenced(self, host: TransactionHost) -> None:
        old = host.init()
        host.add(old, A0)
        assert host.init().code is Code.CONCURRENT_TRANSACTIONS
        assert host.of("t").state is State.COMPLETE_ABORT
        ((partition, sent),) = host.written
        assert partition == A0
        assert not sent.marker.end.commit
        assert sent.marker.producer_epoch == 1, "nothing of the old producer passes behind the marker"
        assert host.init() == Answer(Code.NONE, old.producer_id, 2)
        for refused in (host.add(old, A0), host.end(old), host.end(old, commit=False), host.end(old, version=2)):
            assert refused.code is Code.PRODUCER_FENCED

    def test_while_markers_are_under_way_it_is_to_be_tried_again(self, host: TransactionHost) -> None:
        old = host.init()
        host.add(old, A0)
        host.ask(EndTransaction("t", old.producer_id, 0, True, 0))
        host.commit()
        ticket = host.ask(InitProducer("t", 60_000))
        assert host.answers[ticket].code is Code.CONCURRENT_TRANSACTIONS

    def test_a_producer_that_goes_on_gets_the_next_epoch_and_the_same_if_it_asks_again(
        self, host: TransactionHost
    ) -> None:
        first = host.init()
        me = (first.producer_id, first.producer_epoch)
        assert host.init(expected=me).producer_epoch == 1
        assert host.init(expected=me).producer_epoch == 1
        assert host.init(expected=me).producer_epoch == 1

    def test_a_producer_that_goes_on_is_fenced_by_a_newer_one(self, host: TransactionHost) -> None:
        first = host.init()
        host.init()
        assert host.init(expected=(first.producer_id, 0)).code is Code.PRODUCER_FENCED
        assert host.init(expected=(first.producer_id + 99, 1)).code is Code.PRODUCER_FENCED

    def test_its_retry_is_fenced_after_a_change_of_coordinator(self, host: TransactionHost) -> None:
        """As in Kafka, whose log has no last epoch either."""
        first = host.init()
        host.init(expected=(first.producer_id, 0))
        host.fail_over()
        assert host.init(expected=(first.producer_id, 0)).code is Code.PRODUCER_FENCED

    def test_a_producer_of_an_id_that_expired_begins_anew(self, host: TransactionHost) -> None:
        assert host.init(expected=(77, 5)).producer_epoch == 0

    def test_used_up_epochs_give_another_producer_id(self, host: TransactionHost) -> None:
        old = at_epoch(host, EPOCHS_EXHAUSTED)
        new = host.init()
        assert new == Answer(Code.NONE, old.producer_id + 1, 0)
        assert host.of("t").previous_producer_id == old.producer_id

    def test_who_used_them_up_may_ask_again(self, host: TransactionHost) -> None:
        old = at_epoch(host, EPOCHS_EXHAUSTED)
        me = (old.producer_id, EPOCHS_EXHAUSTED)
        new = host.init(expected=me)
        assert (new.code, new.producer_epoch) == (Code.NONE, 0)
        assert host.init(expected=me) == new
        assert host.init(expected=(old.producer_id, EPOCHS_EXHAUSTED - 1)).code is Code.PRODUCER_FENCED

    def test_the_last_epoch_of_all_fences_and_then_gives_another_id(self, host: TransactionHost) -> None:
        old = at_epoch(host, EPOCHS_EXHAUSTED)
        host.add(old, A0)
        assert host.init().code is Code.CONCURRENT_TRANSACTIONS
        assert host.written[-1][1].marker.producer_epoch == EPOCHS_EXHAUSTED + 1 == 32_767
        assert host.init().producer_epoch == 0

    def test_more_ids_than_a_partition_takes_are_refused(
        self, host: TransactionHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "TRANSACTIONAL_IDS_MAX", 2)
        assert host.init("1").code is Code.NONE
        assert host.init("2").code is Code.NONE
        assert host.init("3").code is Code.POLICY_VIOLATION
        assert host.init("2").code is Code.NONE


class TestAddPartitions:
    def test_the_first_ones_begin_the_transaction(self, host: TransactionHost) -> None:
        me = host.init()
        assert host.add(me, A0).code is Code.NONE
        begun = host.of("t")
        assert (begun.state, begun.partitions, begun.start_ms) == (State.ONGOING, {A0}, host.wall)
        host.wall += 5
        host.add(me, B0)
        assert host.of("t").partitions == {A0, B0}
        assert host.of("t").start_ms == begun.start_ms

    def test_what_is_there_already_costs_no_record(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0, B0)
        ticket = host.ask(AddPartitions("t", me.producer_id, 0, frozenset({B0})))
        assert host.answers[ticket].code is Code.NONE
        assert not host.proven[ticket], "a deposed coordinator does not know whether the transaction has ended"
        assert not host.in_flight

    def test_partitions_of_the_transaction_before_are_not_of_this_one(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        host.end(me)
        host.add(me, B0)
        assert host.of("t").partitions == {B0}

    def test_who_is_not_the_producer_is_refused(self, host: TransactionHost) -> None:
        me = host.init()
        assert host.add(me._replace(producer_id=5), A0).code is Code.INVALID_PRODUCER_ID_MAPPING
        assert host.add(me._replace(producer_epoch=1), A0).code is Code.PRODUCER_FENCED
        assert host.add(me, A0, name="other").code is Code.INVALID_PRODUCER_ID_MAPPING
        assert host.add(me, A0, name="").code is Code.INVALID_REQUEST

    def test_while_the_one_before_is_completed_it_is_to_be_tried_again(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        host.commit()
        ticket = host.ask(AddPartitions("t", me.producer_id, 0, frozenset({B0})))
        assert host.answers[ticket].code is Code.CONCURRENT_TRANSACTIONS

    def test_those_that_come_at_once_share_records(self, host: TransactionHost) -> None:
        """Of transaction version 2: each partition's leader adds its own."""
        me = host.init()
        tickets = [host.ask(AddPartitions("t", me.producer_id, 0, frozenset({("a", index)}))) for index in range(100)]
        before = len(host.log)
        host.run_all()
        assert {host.answers[ticket].code for ticket in tickets} == {Code.NONE}
        assert len(host.log) - before == 2
        assert len(host.of("t").partitions) == 100

    def test_what_is_kept_is_bounded_and_answered_when_leadership_is_lost(self, host: TransactionHost) -> None:
        me = host.init()
        tickets = [
            host.ask(AddPartitions("t", me.producer_id, 0, frozenset({("a", index)})))
            for index in range(JOINED_MAX + 2)
        ]
        assert host.answers[tickets[-1]].code is Code.CONCURRENT_TRANSACTIONS
        host.fail_over(lost=1)
        assert {host.answers[ticket].code for ticket in tickets[:-1]} == {Code.NOT_COORDINATOR}

    def test_what_is_kept_is_judged_anew(self, host: TransactionHost) -> None:
        """The joined request is refused with the proposal that was refused before it."""
        me = host.init()
        first = host.ask(AddPartitions("t", me.producer_id, 0, frozenset({A0})))
        second = host.ask(AddPartitions("t", me.producer_id, 0, frozenset({A1})))
        host.drop()
        assert host.answers[first].code is host.answers[second].code is Code.COORDINATOR_NOT_AVAILABLE
        assert host.of("t").state is State.EMPTY

    def test_a_transaction_that_no_record_holds_is_refused(
        self, host: TransactionHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        me = host.init()
        monkeypatch.setattr(limits, "TRANSACTION_RECORD_BYTES_MAX", 400)
        assert host.add(me, ("x" * 249, 0)).code is Code.NONE
        assert host.add(me, ("y" * 249, 0)).code is Code.POLICY_VIOLATION
        assert host.end(me).code is Code.NONE


class TestVerify:
    def test_it_tells_which_partitions_are_not_in_the_transaction(self, host: TransactionHost) -> None:
        me = host.init()
        assert host.verify(me, A0).missing == {A0}
        host.add(me, A0)
        assert host.verify(me, A0, A1) == Answer(Code.NONE, missing=frozenset({A1}))
        host.end(me)
        assert host.verify(me, A0).missing == {A0}

    def test_it_is_never_proven_by_the_applied_state_alone(self, host: TransactionHost) -> None:
        """A deposed coordinator would let a batch pass behind the marker of its successor."""
        me = host.init()
        host.add(me, A0)
        host.verify(me, A0)
        assert not host.proven[max(host.proven)]

    def test_who_is_not_the_producer_is_refused(self, host: TransactionHost) -> None:
        me = host.init()
        assert host.verify(me._replace(producer_epoch=9), A0).code is Code.PRODUCER_FENCED
        assert host.verify(me._replace(producer_id=9), A0).code is Code.INVALID_PRODUCER_ID_MAPPING


class TestEndTransaction:
    @pytest.mark.parametrize("commit", [True, False])
    def test_each_partition_gets_its_marker_and_then_it_is_complete(self, host: TransactionHost, commit: bool) -> None:
        me = host.init()
        host.add(me, A0, B0)
        ticket = host.ask(EndTransaction("t", me.producer_id, 0, commit, 0))
        assert ticket not in host.answers
        assert not host.markers, "no marker before the outcome is durable"
        host.commit()
        assert host.answers[ticket].code is Code.NONE
        assert host.of("t").state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
        (sent,) = host.markers
        assert sent.marker.end == (commit, 1)
        assert (sent.marker.producer_id, sent.marker.producer_epoch) == (me.producer_id, 0)
        host.deliver_one(sent, A0)
        host.deliver_one(sent, A0)
        assert not host.in_flight, "one partition lacks its marker"
        host.deliver_one(sent, B0)
        host.commit()
        after = host.of("t")
        assert after.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
        assert after.partitions == frozenset()

    def test_the_same_again_is_told_the_same_and_the_other_is_refused(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        host.end(me)
        assert host.end(me).code is Code.NONE
        assert host.end(me, commit=False).code is Code.INVALID_TXN_STATE

    def test_while_markers_are_under_way(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        host.commit()
        same = host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        other = host.ask(EndTransaction("t", me.producer_id, 0, False, 0))
        assert host.answers[same].code is Code.CONCURRENT_TRANSACTIONS
        assert host.answers[other].code is Code.INVALID_TXN_STATE

    def test_without_a_transaction_there_is_nothing_to_end(self, host: TransactionHost) -> None:
        me = host.init()
        assert host.end(me).code is Code.INVALID_TXN_STATE
        assert host.end(me, commit=False).code is Code.INVALID_TXN_STATE
        assert host.end(me, name="other").code is Code.INVALID_PRODUCER_ID_MAPPING

    def test_a_decision_that_was_not_appended_is_not_one(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        ticket = host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        host.drop()
        assert host.answers[ticket].code is Code.COORDINATOR_NOT_AVAILABLE
        assert host.of("t").state is State.ONGOING
        assert host.end(me).code is Code.NONE

    def test_a_complete_record_that_was_not_appended_is_tried_again(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        host.commit()
        host.deliver()
        host.drop()
        assert host.of("t").state is State.PREPARE_COMMIT
        host.pass_time(limits.RETRY_MS)
        assert host.of("t").state is State.COMPLETE_COMMIT


class TestVersion2:
    def test_each_transaction_ends_with_the_next_epoch(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        after = host.end(me, version=2)
        assert after == Answer(Code.NONE, me.producer_id, 1)
        marker = host.written[-1][1].marker
        assert (marker.producer_epoch, marker.transaction_version) == (1, 2)
        assert host.add(me, A0).code is Code.PRODUCER_FENCED, "a late batch of the transaction before"
        assert host.add(after, A0).code is Code.NONE

    def test_the_same_again_is_told_the_same_epoch(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        after = host.end(me, version=2)
        assert host.end(me, version=2) == after
        assert host.end(me, commit=False, version=2).code is Code.INVALID_TXN_STATE
        host.fail_over()
        assert host.end(me, version=2) == after

    def test_while_markers_are_under_way_the_retry_is_recognised(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        host.ask(EndTransaction("t", me.producer_id, 0, True, 2))
        host.commit()
        retry = host.ask(EndTransaction("t", me.producer_id, 0, True, 2))
        assert host.answers[retry].code is Code.CONCURRENT_TRANSACTIONS
        stale = host.ask(EndTransaction("t", me.producer_id, 1, True, 2))
        assert host.answers[stale].code is Code.PRODUCER_FENCED

    def test_what_no_partition_has_heard_of_can_be_aborted(self, host: TransactionHost) -> None:
        me = host.init()
        after = host.end(me, commit=False, version=2)
        assert after == Answer(Code.NONE, me.producer_id, 1)
        assert host.of("t").state is State.COMPLETE_ABORT
        assert not host.written
        assert host.end(after, version=2).code is Code.INVALID_TXN_STATE, "there is nothing to commit"
        again = host.end(after, commit=False, version=2)
        assert again.producer_epoch == 2

    def test_used_up_epochs_end_with_another_producer_id(self, host: TransactionHost) -> None:
        me = at_epoch(host, EPOCHS_EXHAUSTED)
        host.add(me, A0)
        ticket = host.ask(EndTransaction("t", me.producer_id, EPOCHS_EXHAUSTED, True, 2))
        host.commit()
        new = host.answers[ticket]
        assert (new.code, new.producer_epoch) == (Code.NONE, 0)
        assert new.producer_id != me.producer_id
        early = host.ask(AddPartitions("t", new.producer_id, 0, frozenset({A0})))
        assert host.answers[early].code is Code.CONCURRENT_TRANSACTIONS
        host.run_all()
        marker = host.written[-1][1].marker
        assert (marker.producer_id, marker.producer_epoch) == (me.producer_id, 32_767)
        assert host.end(me, version=2) == new
        assert host.add(new, A0).code is Code.NONE


class TestTime:
    def test_a_transaction_whose_time_is_over_is_aborted_and_fenced(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=60_000)
        host.add(me, A0)
        host.pass_time(59_999)
        assert host.of("t").state is State.ONGOING
        host.pass_time(1)
        assert host.of("t").state is State.COMPLETE_ABORT
        assert host.end(me).code is Code.PRODUCER_FENCED
        assert host.init().producer_epoch == 2

    def test_its_time_counts_from_its_beginning(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=60_000)
        host.add(me, A0)
        host.pass_time(40_000)
        host.add(me, A1)
        host.pass_time(20_000)
        assert host.of("t").state is State.COMPLETE_ABORT

    def test_the_next_transaction_has_a_time_of_its_own(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=60_000)
        host.add(me, A0)
        host.pass_time(40_000)
        host.end(me)
        host.add(me, A0)
        host.pass_time(59_999)
        assert host.of("t").state is State.ONGOING
        host.pass_time(1)
        assert host.of("t").state is State.COMPLETE_ABORT

    def test_no_step_of_the_wall_clock_ends_a_transaction(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=60_000)
        host.add(me, A0)
        host.wall += 86_400_000
        host.pass_time(59_999)
        assert host.of("t").state is State.ONGOING

    def test_an_abort_that_was_not_appended_is_tried_again(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=60_000)
        host.add(me, A0)
        host.mono += 60_000
        host.run(host.leader.on_timer(host.now))
        host.drop()
        host.pass_time(limits.RETRY_MS)
        assert host.of("t").state is State.COMPLETE_ABORT

    def test_a_commit_that_is_decided_at_the_same_moment_wins_or_loses_whole(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=60_000)
        host.add(me, A0)
        ticket = host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        host.mono += 60_000
        host.run(host.leader.on_timer(host.now))
        host.run_all()
        assert host.answers[ticket].code is Code.NONE
        host.pass_time(1_000)
        assert host.of("t").state is State.COMPLETE_COMMIT

    def test_ids_that_nobody_uses_expire(self, host: TransactionHost) -> None:
        host.init("old")
        me = host.init("open", timeout_ms=900_000)
        host.pass_time(CONFIG.id_expiration_ms - CONFIG.expiry_check_ms)
        host.init("new")
        host.add(me, A0, name="open")
        host.pass_time(CONFIG.expiry_check_ms)
        host.run_all()
        names = set(dict(host.leader.views()))
        assert "old" not in names
        assert "new" in names
        assert host.init("old").producer_epoch == 0

    def test_an_open_transaction_keeps_its_id(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=900_000)
        host.add(me, A0)
        host.end(me)
        host.pass_time(CONFIG.id_expiration_ms - CONFIG.expiry_check_ms * 2)
        host.add(me, A0)
        host.wall += CONFIG.expiry_check_ms
        host.mono += CONFIG.expiry_check_ms
        ids = set(dict(host.leader.views()))
        assert ids == {"t"}

    def test_more_ids_than_one_turn_looks_at_expire_too(
        self, host: TransactionHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "EXPIRY_LOOKED_AT_PER_TURN", 7)
        monkeypatch.setattr(limits, "EXPIRY_TOMBSTONES_PER_BATCH", 3)
        for index in range(40):
            host.init(f"t{index}")
        host.pass_time(CONFIG.id_expiration_ms)
        host.run_all()
        assert not dict(host.leader.views())
        assert host.leader.state_hash() == TransactionCoordinator(CONFIG).state_hash()

    def test_a_jump_of_the_wall_clock_expires_nothing(self, host: TransactionHost) -> None:
        host.init()
        host.wall += CONFIG.id_expiration_ms + limits.EXPIRY_CLOCK_JUMP_MS
        host.pass_time(CONFIG.expiry_check_ms)
        assert set(dict(host.leader.views())) == {"t"}


class TestChangeOfCoordinator:
    def test_the_next_one_sends_the_markers_that_are_missing(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0, B0)
        host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        host.commit()
        host.deliver_one(host.markers[0], A0)
        host.fail_over()
        (sent,) = host.markers
        assert set(sent.partitions) == {A0, B0}
        assert sent.marker.end == (True, 2), "the epoch of the coordinator is its term"
        host.run_all()
        assert host.of("t").state is State.COMPLETE_COMMIT

    def test_a_decision_that_is_in_the_log_stands_although_nobody_was_told(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        ticket = host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        host.fail_over()
        assert host.answers[ticket].code is Code.NOT_COORDINATOR
        host.run_all()
        assert host.of("t").state is State.COMPLETE_COMMIT
        assert host.end(me).code is Code.NONE

    def test_a_decision_that_was_lost_never_was(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        host.ask(EndTransaction("t", me.producer_id, 0, True, 0))
        host.fail_over(lost=1)
        host.run_all()
        assert host.of("t").state is State.ONGOING
        assert not host.written
        assert host.end(me, commit=False).code is Code.NONE

    def test_all_markers_and_no_complete_record(self, host: TransactionHost) -> None:
        me = host.init()
        host.add(me, A0)
        host.ask(EndTransaction("t", me.producer_id, 0, False, 2))
        host.commit()
        host.deliver()
        host.fail_over(lost=1)
        host.run_all()
        assert host.of("t").state is State.COMPLETE_ABORT
        first, second = (sent.marker for _, sent in host.written)
        assert first._replace(end=second.end) == second
        assert first.end.commit is second.end.commit is False

    def test_an_open_transaction_gets_its_time_anew(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=60_000)
        host.add(me, A0)
        host.pass_time(59_000)
        host.fail_over()
        host.pass_time(59_999)
        assert host.of("t").state is State.ONGOING
        host.pass_time(1)
        assert host.of("t").state is State.COMPLETE_ABORT

    def test_more_transactions_than_one_turn_takes_up(
        self, host: TransactionHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "TIMERS_PER_TURN", 3)
        producers = [host.init(f"t{index}") for index in range(10)]
        for index, me in enumerate(producers):
            host.add(me, A0, name=f"t{index}")
        for index, me in enumerate(producers):
            host.ask(EndTransaction(f"t{index}", me.producer_id, 0, True, 0))
            host.commit()
        host.fail_over()
        assert len(host.markers) == 3
        host.pass_time(0)
        host.run_all()
        assert {known.state for _, known in host.leader.views()} == {State.COMPLETE_COMMIT}

    def test_who_does_not_lead_answers_nothing_else(self) -> None:
        host = TransactionHost()
        me = host.init()
        host.run(host.leader.resign(host.now))
        for request in (
            InitProducer("t", 60_000),
            AddPartitions("t", me.producer_id, 0, frozenset({A0})),
            DescribeTransaction("t"),
        ):
            assert host.answers[host.ask(request)].code is Code.NOT_COORDINATOR
        assert host.leader.next_deadline_ms() is None
        assert host.leader.on_timer(host.now) == []

    def test_markers_of_a_term_before_are_counted_for_nothing(self, host: TransactionHost) -> None:
        """The id has begun another transaction since."""
        me = host.init()
        host.add(me, A0)
        host.end(me, version=2)
        old = host.written[-1][1]
        host.add(me._replace(producer_epoch=1), A0)
        host.ask(EndTransaction("t", me.producer_id, 1, True, 2))
        host.commit()
        host.deliver_one(old, A0)
        assert not host.in_flight
        assert host.of("t").state is State.PREPARE_COMMIT


class TestCheckpoint:
    def test_what_is_restored_is_what_was_there(self, host: TransactionHost) -> None:
        for name in ("b", "a", "ü", "open"):
            host.init(name)
        me = host.init("open")
        host.add(me, B0, A0, name="open")
        body = host.leader.image().encode()
        restored = TransactionCoordinator(CONFIG)
        restored.restore(body)
        assert restored.state_hash() == host.leader.state_hash()
        assert restored.image().encode() == body
        assert dict(restored.views()) == dict(host.leader.views())
        assert [key for key, _ in body.blobs] == sorted(key for key, _ in body.blobs)

    def test_a_restored_one_goes_on_where_the_other_stopped(self, host: TransactionHost) -> None:
        me = host.init(timeout_ms=60_000)
        host.add(me, A0)
        restored = TransactionCoordinator(CONFIG)
        restored.restore(host.leader.image().encode())
        restored.lead(host.now, 2)
        host.mono += 60_000
        assert restored.next_deadline_ms() is not None
        assert restored.on_timer(host.now), "its timeout is armed"

    def test_damage_is_told_from_other_versions(self, host: TransactionHost) -> None:
        host.init()
        head, blobs = host.leader.image().encode()
        for broken in (
            CheckpointBody(b"", blobs),
            CheckpointBody(head + b"\0", blobs),
            CheckpointBody(head, ()),
            CheckpointBody(head, ((b"\xff", blobs[0][1]),)),
            CheckpointBody(head, ((b"t", blobs[0][1][:-1]),)),
            CheckpointBody(head, ((b"t", _dead(blobs[0][1])),)),
        ):
            with pytest.raises(Corruption):
                TransactionCoordinator(CONFIG).restore(broken)


def _dead(value: bytes) -> bytes:
    return encode_transaction_value(decode_transaction_value(value)._replace(status=State.DEAD))


def test_markers_are_asked_for_by_name_of_the_id(host: TransactionHost) -> None:
    me = host.init("x")
    host.add(me, A0, name="x")
    host.ask(EndTransaction("x", me.producer_id, 0, True, 0))
    host.commit()
    assert isinstance(host.markers[0], SendMarkers)
    assert host.markers[0].transactional_id == "x"


def test_what_coordinators_did_is_counted_when_it_is_applied() -> None:
    stats = TransactionStats()
    host = TransactionHost()
    host.leader = TransactionCoordinator(CONFIG, stats)
    host.run(host.leader.lead(host.now, host.term))
    one = host.init("one")
    assert stats == TransactionStats()
    host.add(one, A0, name="one")
    assert host.leader.open_counts() == (1, 1, 0)
    ticket = host.ask(EndTransaction("one", one.producer_id, one.producer_epoch, True, 0))
    assert stats.committed == 0
    host.commit()
    assert (host.answers[ticket].code, stats.committed, host.leader.open_counts()) == (Code.NONE, 0, (1, 0, 1))
    host.run_all()
    assert stats == TransactionStats(committed=1)
    host.add(one, A0, name="one")
    assert host.end(one, commit=False, name="one").code is Code.NONE
    assert stats == TransactionStats(committed=1, aborted=1), "its client asked for that abort"
    host.add(one, A0, name="one")
    host.pass_time(60_000)
    assert stats == TransactionStats(committed=1, aborted=2, timed_out=1)
    assert host.add(one, A0, name="one").code is Code.PRODUCER_FENCED
    assert stats.fenced == 1
    host.pass_time(8 * 86_400_000)
    assert (stats.ids_expired, host.leader.open_counts()) == (1, (0, 0, 0))
    host.run(host.leader.resign(host.now))
    assert stats == TransactionStats(committed=1, aborted=2, timed_out=1, fenced=1, ids_expired=1)
