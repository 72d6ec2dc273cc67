"""Transactions in a topic partition: who begins one, what ends one, and what a reader may count on.

The rules are those of Kafka's `UnifiedLog.analyzeAndValidateProducerState`, `ProducerAppendInfo` and
`ProducerStateManager` (KIP-98, KIP-890); the bytes of a marker are those of a real Kafka (data plane notes 6).
"""

import pytest
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.groups.effects import AppliedBatch, CheckpointBody
from muster_coordinator.records.batch import parse_header
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.topics import limits
from muster_coordinator.topics.machine import Accepted, Duplicate, Refused, Written
from muster_coordinator.topics.partition import TopicPartition

from tests.topics.batch_bytes import T0, batch, idempotent, stamped
from tests.topics.leader import DAY_MS, NOW, Leader, later, replay

TRANSACTIONAL = 0x10


def data(sequence, *, pid=7, epoch=0, count=1):
    return idempotent(sequence, pid=pid, epoch=epoch, count=count, attributes=TRANSACTIONAL)


def marker(commit=True, *, pid=7, epoch=0, coordinator_epoch=3, version=1):
    return TransactionMarker(pid, epoch, EndMarker(commit, coordinator_epoch), version)


class Transactional(Leader):
    """A leader whose transactions' coordinator says yes."""

    def verified(self, records, *, implicit=False):
        header = parse_header(records)
        number = self.partition.verify(
            NOW, header.producer_id, header.producer_epoch, header.base_sequence, implicit=implicit
        )
        assert not isinstance(number, Refused)
        return number

    def begin(self, records, *, number=None, implicit=False):
        """Offer what may begin a transaction."""
        number = self.verified(records, implicit=implicit) if number is None else number
        result = self.partition.offer(NOW, records, configs=self.configs, verification=number)
        if isinstance(result, Accepted):
            self.pending.append(result)
        return result

    def mark(self, one):
        result = self.partition.offer_marker(NOW, one, configs=self.configs)
        if isinstance(result, Accepted):
            self.pending.append(result)
        return result

    def drain(self):
        while self.pending:
            base = self.commit_one()
        return base

    @property
    def stable(self):
        return self.partition.last_stable_offset()


def code(result):
    assert isinstance(result, Refused), result
    return result.code


def test_only_a_verified_batch_begins_a_transaction():
    leader = Transactional()
    assert code(leader.offer(data(0))) is Code.INVALID_TXN_STATE
    number = leader.verified(data(0))
    assert number is not None
    assert code(leader.begin(data(0), number=number + 1)) is Code.INVALID_TXN_STATE
    assert isinstance(leader.begin(data(0), number=number), Accepted)
    assert leader.verified(data(1)) is None, "in flight counts"
    assert isinstance(leader.offer(data(1)), Accepted)
    leader.drain()
    assert (leader.stable, leader.partition.next_offset()) == (0, 2)


def test_what_was_verified_before_a_marker_begins_nothing_after_it():
    leader = Transactional()
    number = leader.verified(data(0))
    assert isinstance(leader.mark(marker(False)), Accepted)
    assert code(leader.begin(data(0), number=number)) is Code.INVALID_TXN_STATE
    leader.drain()
    assert code(leader.begin(data(0), number=number)) is Code.INVALID_TXN_STATE
    assert leader.stable == 1


def test_a_late_batch_after_the_marker_is_refused_though_the_marker_is_only_in_flight():
    leader = Transactional()
    leader.begin(data(0))
    leader.mark(marker())
    assert code(leader.offer(data(1))) is Code.INVALID_TXN_STATE
    leader.drain()
    assert code(leader.offer(data(1))) is Code.INVALID_TXN_STATE
    assert leader.stable == leader.partition.next_offset() == 2


def test_one_verification_serves_the_batches_that_came_while_it_was_under_way_in_their_order():
    leader = Transactional()
    first, second = leader.verified(data(0)), leader.verified(data(1))
    assert first == second
    assert code(leader.begin(data(1), number=second)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(leader.begin(data(0), number=first), Accepted)
    assert isinstance(leader.begin(data(1), number=second), Accepted)


def test_a_producer_of_transaction_version_2_that_is_unknown_here_begins_at_zero():
    leader = Transactional()
    assert code(leader.begin(data(5), implicit=True)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(leader.begin(data(0), implicit=True), Accepted)
    older = Transactional()
    assert isinstance(older.begin(data(5)), Accepted)


def test_a_plain_batch_inside_its_producers_own_transaction_is_48_and_so_is_a_batch_without_producer():
    leader = Transactional()
    leader.begin(data(0))
    assert code(leader.offer(idempotent(1))) is Code.INVALID_TXN_STATE
    assert isinstance(leader.offer(idempotent(0, pid=8)), Accepted)
    assert code(leader.offer(batch(1, attributes=TRANSACTIONAL))) is Code.INVALID_TXN_STATE
    leader.mark(marker())
    leader.drain()
    assert isinstance(leader.offer(idempotent(1)), Accepted)


def test_a_producer_cannot_send_a_marker():
    leader = Transactional()
    assert code(leader.offer(idempotent(0, attributes=0x30))) is Code.INVALID_RECORD
    assert code(leader.offer(idempotent(0, attributes=0x20))) is Code.INVALID_RECORD


def test_a_repeat_of_a_batch_is_answered_as_the_first_in_and_after_its_transaction():
    leader = Transactional()
    leader.begin(data(0))
    assert leader.offer(data(0)) == Duplicate(-1, T0, 1)
    leader.drain()
    assert leader.offer(data(0)) == Duplicate(0, T0)
    leader.mark(marker())
    assert leader.offer(data(0)) == Duplicate(0, T0)
    leader.drain()
    assert leader.offer(data(0)) == Duplicate(0, T0)


def test_the_last_stable_offset_is_the_first_offset_of_the_oldest_open_transaction_and_moves_with_markers_only():
    leader = Transactional()
    leader.produce(batch(3))
    for pid in (1, 2, 3):
        leader.begin(data(0, pid=pid))
    leader.drain()
    leader.produce(batch(2))
    assert leader.stable == 3
    leader.mark(marker(pid=2))
    leader.drain()
    assert leader.stable == 3
    leader.mark(marker(False, pid=1))
    assert leader.stable == 3, "the marker is not on a quorum yet"
    leader.drain()
    assert leader.stable == 5
    leader.mark(marker(pid=3))
    leader.drain()
    assert leader.stable == leader.partition.next_offset() == 11


def test_the_log_start_may_pass_an_open_transaction_and_takes_the_stable_offset_along():
    leader = Transactional()
    leader.begin(data(0))
    leader.drain()
    leader.produce(batch(9))
    command = leader.partition.delete_records(6, configs={})
    assert isinstance(command, bytes)
    leader.command(command)
    assert leader.stable == 6


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_of_version_2_fences_the_transactions_epoch(committed):
    leader = Transactional()
    leader.begin(data(0))
    leader.mark(marker(committed, epoch=1, version=2))
    number = leader.verified(data(1))
    assert code(leader.begin(data(1), number=number)) is Code.INVALID_PRODUCER_EPOCH
    leader.drain()
    number = leader.verified(data(1))
    assert code(leader.begin(data(1), number=number)) is Code.INVALID_PRODUCER_EPOCH
    assert code(leader.begin(data(1, epoch=1))) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(leader.begin(data(0, epoch=1)), Accepted)


def test_markers_of_version_2_come_again_without_harm_and_late_ones_end_nothing():
    leader = Transactional()
    leader.begin(data(0))
    first = leader.mark(marker(epoch=1, version=2))
    assert isinstance(first, Accepted)
    assert leader.mark(marker(epoch=1, version=2)) == Written(first.token)
    leader.drain()
    assert leader.mark(marker(epoch=1, version=2)) == Written()
    leader.begin(data(0, epoch=1))
    assert code(leader.mark(marker(epoch=1, version=2))) is Code.INVALID_PRODUCER_EPOCH
    leader.drain()
    assert code(leader.mark(marker(epoch=1, version=2))) is Code.INVALID_PRODUCER_EPOCH
    assert leader.stable == 2


def test_markers_of_version_1_are_written_as_often_as_they_come_and_an_older_epoch_is_47():
    leader = Transactional()
    leader.begin(data(0, epoch=4))
    for _ in range(2):
        assert isinstance(leader.mark(marker(epoch=4)), Accepted)
    assert code(leader.mark(marker(epoch=3))) is Code.INVALID_PRODUCER_EPOCH
    leader.drain()
    assert code(leader.mark(marker(epoch=3))) is Code.INVALID_PRODUCER_EPOCH
    assert leader.stable == leader.partition.next_offset() == 3
    assert isinstance(leader.mark(marker(False, epoch=5)), Accepted), "a fenced producer's transaction"


def test_a_coordinator_that_is_none_any_more_ends_nothing():
    leader = Transactional()
    leader.begin(data(0))
    leader.mark(marker(coordinator_epoch=5))
    assert code(leader.mark(marker(coordinator_epoch=4))) is Code.TRANSACTION_COORDINATOR_FENCED
    leader.drain()
    leader.begin(data(1))
    assert code(leader.mark(marker(coordinator_epoch=4))) is Code.TRANSACTION_COORDINATOR_FENCED
    leader.drain()
    assert leader.stable == 2
    assert code(leader.mark(marker(epoch=3, coordinator_epoch=4))) is Code.TRANSACTION_COORDINATOR_FENCED
    assert isinstance(leader.mark(marker(coordinator_epoch=5)), Accepted)
    assert isinstance(leader.mark(marker(coordinator_epoch=6)), Accepted)


def test_a_marker_for_a_producer_that_is_not_known_is_written_and_fences_it():
    leader = Transactional()
    assert isinstance(leader.mark(marker(epoch=6, coordinator_epoch=9)), Accepted)
    leader.drain()
    assert leader.stable == 1
    assert code(leader.begin(data(0, epoch=5))) is Code.INVALID_PRODUCER_EPOCH
    assert code(leader.mark(marker(epoch=6, coordinator_epoch=8))) is Code.TRANSACTION_COORDINATOR_FENCED


def test_the_bytes_of_a_marker_are_a_real_kafkas():
    leader = Transactional()
    accepted = leader.partition.offer_marker(
        NOW._replace(wall_ms=0x1A1FBFFC67D), marker(False, pid=2000, coordinator_epoch=0), configs={}
    )
    assert isinstance(accepted, Accepted)
    assert stamped(accepted.batch, 2, 2).hex() == (
        "0000000000000002000000420000000202864bb12d003000000000000001a1fbffc67d000001a1fbffc67d00000000000007d000"
        "00ffffffff000000012000000008000000000c00000000000000"
    )
    later_one = leader.partition.offer_marker(NOW, marker(), configs={"message.timestamp.type": "LogAppendTime"})
    assert isinstance(later_one, Accepted)
    assert parse_header(later_one.batch).attributes == 0x38


def test_lost_leadership_gives_back_the_transaction_that_a_marker_in_flight_would_have_ended():
    leader = Transactional()
    leader.begin(data(0))
    leader.drain()
    number = leader.verified(data(0, pid=9))
    leader.mark(marker(epoch=1, version=2))
    leader.partition.resign()
    leader.pending.clear()
    assert leader.partition.open_transaction(7, 0)
    assert isinstance(leader.offer(data(1)), Accepted)
    assert code(leader.begin(data(0, pid=9), number=number)) is Code.INVALID_TXN_STATE


def test_a_refused_proposal_gives_back_what_was_before():
    leader = Transactional()
    accepted = leader.begin(data(0))
    leader.partition.dropped(accepted.token)
    leader.pending.clear()
    assert not leader.partition.open_transaction(7, 0)
    leader.begin(data(0))
    leader.drain()
    ended = leader.mark(marker())
    leader.partition.dropped(ended.token)
    assert leader.partition.open_transaction(7, 0)


def test_behind_a_first_batch_that_could_not_be_proposed_the_next_is_only_out_of_order():
    """48 would end the producer, and both are still in the transaction: they are sent again."""
    leader = Transactional()
    number = leader.verified(data(0))
    assert leader.verified(data(1)) == number
    first = leader.begin(data(0), number=number)
    leader.partition.dropped(first.token)
    leader.pending.clear()
    assert code(leader.begin(data(1), number=number)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(leader.begin(data(0), number=number), Accepted)
    assert isinstance(leader.begin(data(1), number=number), Accepted)


def test_what_is_verified_while_a_marker_is_in_flight_outlives_the_batch_before_it():
    leader = Transactional()
    leader.begin(data(0))
    leader.mark(marker())
    number = leader.verified(data(1))
    leader.commit_one()
    assert leader.stable == 0
    assert isinstance(leader.begin(data(1), number=number), Accepted), "of the next transaction"
    leader.drain()
    assert leader.stable == 2


def test_too_many_open_transactions_are_refused_for_now(monkeypatch):
    monkeypatch.setattr(limits, "OPEN_TRANSACTIONS_MAX", 3)
    leader = Transactional()
    for pid in range(3):
        assert isinstance(leader.begin(data(0, pid=pid)), Accepted)
    assert code(leader.begin(data(0, pid=9))) is Code.NOT_ENOUGH_REPLICAS
    leader.drain()
    assert code(leader.begin(data(0, pid=9))) is Code.NOT_ENOUGH_REPLICAS
    assert isinstance(leader.offer(data(1, pid=2)), Accepted), "those that are open go on"
    leader.mark(marker(pid=1))
    leader.drain()
    assert isinstance(leader.begin(data(0, pid=9)), Accepted)


def test_verifications_are_bounded_and_do_not_last(monkeypatch):
    monkeypatch.setattr(limits, "TOPIC_VERIFICATIONS_MAX", 2)
    partition = TopicPartition()
    numbers = [partition.verify(NOW, pid, 0, 0, implicit=False) for pid in range(2)]
    assert code(partition.verify(NOW, 5, 0, 0, implicit=False)) is Code.NOT_ENOUGH_REPLICAS
    assert partition.verify(NOW, 1, 0, 0, implicit=False) == numbers[1]
    after = later(limits.VERIFICATION_MS_MAX)
    assert isinstance(partition.verify(after, 5, 0, 0, implicit=False), int)
    assert code(partition.offer(after, data(0, pid=0), configs={}, verification=numbers[0])) is Code.INVALID_TXN_STATE


def test_neither_time_nor_number_forgets_a_producer_with_an_open_transaction(monkeypatch):
    leader = Transactional()
    leader.begin(data(0))
    leader.drain()
    leader.produce(idempotent(0, pid=8))
    leader.partition.expire_producers(NOW)
    command = leader.partition.expire_producers(later(3 * DAY_MS))
    assert isinstance(command, bytes)
    leader.command(command)
    assert [one.producer_id for one in leader.partition.producers()] == [7]
    monkeypatch.setattr(limits, "TOPIC_PRODUCERS_MAX", 3)
    for pid in range(20, 30):
        leader.produce(idempotent(0, pid=pid))
    assert 7 in [one.producer_id for one in leader.partition.producers()]
    assert leader.stable == 0


def opened_and_ended():
    leader = Transactional()
    leader.begin(data(0, pid=1))
    leader.begin(data(0, pid=2, epoch=3))
    leader.mark(marker(False, pid=2, epoch=4, coordinator_epoch=11, version=2))
    leader.mark(marker(pid=3, coordinator_epoch=0))
    leader.drain()
    return leader


def test_followers_and_checkpoints_know_open_transactions_and_coordinators():
    leader = opened_and_ended()
    follower = replay(leader.log)
    restored = TopicPartition()
    restored.restore(leader.partition.image().encode())
    for other in (follower, restored):
        assert other.state_hash() == leader.partition.state_hash()
        assert other.last_stable_offset() == 0
        assert {one.producer_id: one[1:] for one in other.producers()} == {
            1: (0, 0, T0, -1, 0),
            2: (4, -1, T0, 11, -1),
            3: (0, -1, T0, 0, -1),
        }
        assert other.first_open_offset() == 0
        late = other.offer_marker(NOW, marker(pid=2, epoch=5, coordinator_epoch=10, version=2), configs={})
        assert code(late) is Code.TRANSACTION_COORDINATOR_FENCED


def test_without_markers_a_checkpoint_has_the_bytes_of_releases_that_know_none():
    leader = Transactional()
    leader.produce(idempotent(0, pid=5))
    head = leader.partition.image().encode().head
    assert head[17:19] == b"\0\0"
    leader.mark(marker(pid=5))
    leader.drain()
    other = leader.partition.image().encode().head
    assert other[17:19] == b"\0\1"
    # All that was there before keeps its place; the epochs of coordinators come at the end.
    assert other[-16:] == (1).to_bytes(4, "big") + (5).to_bytes(8, "big") + (3).to_bytes(4, "big")
    for cut in range(19, len(other)):
        with pytest.raises(Corruption):
            TopicPartition().restore(CheckpointBody(other[:cut], ()))
    stranger = other[:-16] + (1).to_bytes(4, "big") + (6).to_bytes(8, "big") + (3).to_bytes(4, "big")
    with pytest.raises(Corruption):
        TopicPartition().restore(CheckpointBody(stranger, ()))


def test_a_control_batch_that_is_no_marker_stops_the_partition():
    partition = TopicPartition()
    with pytest.raises(Corruption):
        partition.apply_batch(AppliedBatch(1, 0, batch(1, producer_id=7, producer_epoch=0, attributes=0x30)))
