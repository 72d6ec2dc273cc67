"""Idempotent producers (data_plane table 2.4): stored once and in order, through retries, wraps and lost leadership."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import Code
from muster_coordinator.records.control import EndMarker, TransactionMarker, marker_batch
from muster_coordinator.topics import limits
from muster_coordinator.topics.machine import Accepted, Duplicate, Refused

from tests.topics.batch_bytes import T0, batch, idempotent
from tests.topics.leader import NOW, Leader, count_of, later, replay

LAST = 2**31 - 1


def sequence_after(sequence: int, steps: int) -> int:
    """Counted out by the rule that 0 follows 2147483647."""
    room = LAST - sequence
    return sequence + steps if steps <= room else steps - room - 1


def test_the_same_batch_again_gets_its_old_offset_and_is_not_appended() -> None:
    leader = Leader()
    leader.produce(batch(5))
    assert leader.produce(idempotent(0, count=3)) == 5
    assert leader.offer(idempotent(0, count=3)) == Duplicate(5, T0)
    assert leader.partition.next_offset() == 8


def test_a_duplicate_is_answered_with_the_stored_max_timestamp() -> None:
    leader = Leader({"message.timestamp.type": "LogAppendTime"})
    leader.produce(idempotent(0), later(500))
    assert leader.offer(idempotent(0), later(900)) == Duplicate(0, T0 + 500)


def test_the_last_five_batches_are_duplicates_and_the_sixth_last_is_out_of_order() -> None:
    leader = Leader()
    for sequence in range(6):
        leader.produce(idempotent(sequence))
    assert [leader.offer(idempotent(s)) for s in range(1, 6)] == [Duplicate(s, T0) for s in range(1, 6)]
    assert leader.refuse(idempotent(0)).code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_partial_overlap_is_out_of_order() -> None:
    leader = Leader()
    leader.produce(idempotent(0, count=4))
    for sequence, count in ((0, 3), (1, 3), (2, 2), (0, 5), (3, 2)):
        assert leader.refuse(idempotent(sequence, count=count)).code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order() -> None:
    leader = Leader()
    leader.produce(idempotent(0))
    refused = leader.refuse(idempotent(2))
    assert refused.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused.log_start_shown


def test_an_unknown_producer_begins_with_any_sequence() -> None:
    assert Leader().produce(idempotent(12345)) == 0


def test_behind_a_refused_batch_an_unknown_producer_does_not_begin() -> None:
    """Nor one that is known by an older epoch only; the state of its own epoch, also in flight, decides by itself."""
    leader = Leader()
    for epoch in (0, 1):
        refused = leader.offer(idempotent(0, epoch=epoch), behind=0)
        assert isinstance(refused, Refused)
        assert refused.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        leader.accept(idempotent(0, epoch=epoch))
        assert isinstance(leader.offer(idempotent(1, epoch=epoch), behind=0), Accepted)
        assert isinstance(leader.offer(idempotent(1, epoch=epoch), behind=0), Duplicate)


def test_behind_a_refused_batch_none_is_stored_that_would_make_it_unknown() -> None:
    """Of five batches the first was refused for now although it is stored, and the others were stored: it is the oldest
    that is known for a duplicate (seed 15714)."""
    leader = Leader()
    for sequence in range(5):
        leader.produce(idempotent(sequence))
    assert isinstance(leader.offer(idempotent(0), behind=0), Duplicate)
    refused = leader.offer(idempotent(5), behind=0)
    assert isinstance(refused, Refused)
    assert refused.code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(leader.offer(idempotent(5), behind=1), Accepted), "that one stays known"
    assert isinstance(leader.offer(idempotent(6)), Accepted), "nothing was refused"


def test_what_is_in_flight_counts_for_what_is_known() -> None:
    leader = Leader()
    for sequence in range(5):
        leader.accept(idempotent(sequence))
    assert isinstance(leader.offer(idempotent(5), behind=0), Refused)
    assert isinstance(leader.offer(idempotent(5), behind=1), Accepted)


def test_an_older_epoch_is_fenced() -> None:
    leader = Leader()
    leader.produce(idempotent(0, epoch=3))
    assert leader.refuse(idempotent(1, epoch=2)).code == Code.INVALID_PRODUCER_EPOCH
    assert leader.refuse(idempotent(0, epoch=2)).code == Code.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_begins_at_zero_and_forgets_the_old_batches() -> None:
    leader = Leader()
    leader.produce(idempotent(0, epoch=0))
    assert leader.refuse(idempotent(1, epoch=1)).code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert leader.produce(idempotent(0, epoch=1)) == 1
    assert leader.offer(idempotent(0, epoch=1)) == Duplicate(1, T0)
    assert leader.refuse(idempotent(0, epoch=0)).code == Code.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("first", "count", "following"),
    [(LAST, 1, 0), (LAST - 1, 2, 0), (LAST - 1, 1, LAST), (LAST, 2, 1), (LAST - 2, 5, 2), (0, 1, 1)],
)
def test_sequences_wrap_to_zero(first: int, count: int, following: int) -> None:
    leader = Leader()
    leader.produce(idempotent(first, count=count))
    assert leader.offer(idempotent(first, count=count)) == Duplicate(0, T0)
    wrong = sequence_after(following, 1)
    assert leader.refuse(idempotent(wrong)).code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert leader.produce(idempotent(following)) == count


@given(st.integers(0, LAST), st.integers(1, 400), st.integers(1, 400))
def test_batches_that_follow_each_other_are_in_order_wherever_they_begin(first: int, a: int, b: int) -> None:
    leader = Leader()
    leader.produce(idempotent(first, count=a))
    assert leader.produce(idempotent(sequence_after(first, a), count=b)) == a
    assert leader.offer(idempotent(first, count=a)) == Duplicate(0, T0)


def test_producers_do_not_disturb_each_other() -> None:
    leader = Leader()
    for sequence in range(3):
        leader.produce(idempotent(sequence, pid=1))
        leader.produce(idempotent(sequence + 100, pid=2))
    assert leader.offer(idempotent(2, pid=1)) == Duplicate(4, T0)
    assert leader.offer(idempotent(102, pid=2)) == Duplicate(5, T0)


def test_the_largest_producer_id_and_epoch_fit() -> None:
    leader = Leader()
    leader.produce(idempotent(0, pid=2**63 - 1, epoch=2**15 - 1))
    assert leader.offer(idempotent(0, pid=2**63 - 1, epoch=2**15 - 1)) == Duplicate(0, T0)


# In flight.


def test_batches_in_flight_count_as_appended() -> None:
    leader = Leader()
    for sequence in range(5):
        leader.accept(idempotent(sequence))
    assert leader.refuse(idempotent(6)).code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [leader.commit_one() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_duplicate_of_a_batch_in_flight_waits_for_the_original() -> None:
    leader = Leader()
    first, second = leader.accept(idempotent(0)), leader.accept(idempotent(1))
    assert leader.offer(idempotent(0)) == Duplicate(-1, T0, first.token)
    assert leader.offer(idempotent(1)) == Duplicate(-1, T0, second.token)
    leader.commit_one()
    assert leader.offer(idempotent(0)) == Duplicate(0, T0)
    assert leader.offer(idempotent(1)) == Duplicate(-1, T0, second.token)


def test_the_window_of_five_spans_applied_and_in_flight_batches() -> None:
    leader = Leader()
    for sequence in range(3):
        leader.produce(idempotent(sequence))
    for sequence in range(3, 6):
        leader.accept(idempotent(sequence))
    assert leader.refuse(idempotent(0)).code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert leader.offer(idempotent(1)) == Duplicate(1, T0)


def test_an_epoch_in_flight_fences_the_older_one() -> None:
    leader = Leader()
    leader.produce(idempotent(0, epoch=0))
    token = leader.accept(idempotent(0, epoch=1)).token
    assert leader.refuse(idempotent(1, epoch=0)).code == Code.INVALID_PRODUCER_EPOCH
    assert leader.offer(idempotent(0, epoch=1)) == Duplicate(-1, T0, token)


def test_a_dropped_batch_may_come_again() -> None:
    leader = Leader()
    leader.produce(idempotent(0))
    dropped = leader.accept(idempotent(1))
    leader.pending.clear()
    leader.partition.dropped(dropped.token)
    assert leader.produce(idempotent(1)) == 1


def test_a_drop_in_the_middle_leaves_the_others_in_flight() -> None:
    leader = Leader()
    first, second = leader.accept(idempotent(0)), leader.accept(idempotent(1))
    leader.partition.dropped(first.token)
    assert leader.refuse(idempotent(0)).code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert leader.offer(idempotent(1)) == Duplicate(-1, T0, second.token)


def test_equal_sequences_of_two_epochs_in_flight_are_two_batches() -> None:
    leader = Leader()
    leader.accept(idempotent(0, epoch=0))
    newer = leader.accept(idempotent(0, epoch=1))
    assert leader.offer(idempotent(0, epoch=1)) == Duplicate(-1, T0, newer.token)


def test_the_first_batch_of_a_new_epoch_dropped_gives_the_old_epoch_back() -> None:
    leader = Leader()
    leader.produce(idempotent(0, epoch=0))
    dropped = leader.accept(idempotent(0, epoch=1))
    leader.pending.clear()
    leader.partition.dropped(dropped.token)
    assert leader.produce(idempotent(1, epoch=0)) == 1


def test_lost_leadership_forgets_what_was_in_flight_but_not_what_the_next_leader_commits() -> None:
    leader = Leader()
    survivor, lost = leader.accept(idempotent(0)), leader.accept(idempotent(1))
    leader.partition.resign()
    assert isinstance(leader.partition.offer(NOW, idempotent(1), configs={}), Accepted), "as if never offered"
    leader.partition.resign()
    leader.commit_one()  # the new leader had the first one
    leader.pending.clear()
    assert leader.offer(idempotent(0)) == Duplicate(0, T0)
    leader.partition.dropped(survivor.token)  # late news of the old leadership change nothing
    leader.partition.dropped(lost.token)
    again = leader.accept(idempotent(1))
    assert again.token not in (survivor.token, lost.token)


def test_tokens_are_distinct_with_and_without_a_producer_id() -> None:
    leader = Leader()
    tokens = [leader.accept(data).token for data in (batch(), idempotent(0), batch(), idempotent(1))]
    assert len(set(tokens)) == 4
    for token in tokens:
        leader.partition.applied(token)
        leader.partition.applied(token)


# The log decides.


def test_followers_derive_the_same_producers_from_the_log() -> None:
    leader = Leader()
    for sequence in range(8):
        leader.produce(idempotent(sequence))
    follower = replay(leader.log)
    assert follower.state_hash() == leader.partition.state_hash()
    assert follower.offer(NOW, idempotent(7), configs={}) == Duplicate(7, T0)
    assert isinstance(follower.offer(NOW, idempotent(8), configs={}), Accepted)


def test_a_batch_in_an_open_transaction_of_its_producer_is_48() -> None:
    leader = Leader()
    leader.pending.append(Accepted(idempotent(0, attributes=0x10), 99, -1))
    leader.commit_one()
    assert leader.partition.last_stable_offset() == 0
    assert leader.refuse(idempotent(1)).code == Code.INVALID_TXN_STATE
    ended = marker_batch(TransactionMarker(7, 0, EndMarker(True, 3), 1), T0)
    leader.pending.append(Accepted(ended, 100, -1))
    leader.commit_one()
    assert leader.partition.last_stable_offset() == 2
    assert leader.produce(idempotent(1)) == 2


def test_beyond_the_limit_the_longest_silent_producer_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPIC_PRODUCERS_MAX", 3)
    leader = Leader()
    for pid in (1, 2, 3):
        leader.produce(idempotent(0, pid=pid))
    leader.produce(idempotent(1, pid=1))
    leader.produce(idempotent(0, pid=4))
    assert leader.offer(idempotent(0, pid=1)) == Duplicate(0, T0)
    assert leader.offer(idempotent(0, pid=3)) == Duplicate(2, T0)
    assert isinstance(leader.offer(idempotent(500, pid=2)), Accepted), "2 is unknown now: any sequence"
    assert replay(leader.log).state_hash() == leader.partition.state_hash()


class Model:
    """Kafka's rules, written down a second time over plain lists: all accepted batches of one producer in order."""

    def __init__(self) -> None:
        self.epoch = -1
        self.batches: list[tuple[int, int]] = []

    def judge(self, epoch: int, first: int, last: int) -> str:
        if self.epoch >= 0 and epoch == self.epoch and (first, last) in self.batches[-5:]:
            return "duplicate"
        if epoch < self.epoch:
            return "fenced"
        if self.epoch < 0:
            return "accept"
        if epoch > self.epoch:
            return "accept" if first == 0 else "order"
        following = 0 if self.batches[-1][1] == LAST else self.batches[-1][1] + 1
        return "accept" if first == following else "order"

    def accept(self, epoch: int, first: int, last: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.batches = epoch, []
        self.batches.append((first, last))


def name_of(result: Refused | Duplicate | Accepted) -> str:
    if isinstance(result, Refused):
        return {Code.INVALID_PRODUCER_EPOCH: "fenced", Code.OUT_OF_ORDER_SEQUENCE_NUMBER: "order"}[result.code]
    return "accept" if isinstance(result, Accepted) else "duplicate"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("next"), st.integers(1, 3)),
        st.tuples(st.just("any"), st.sampled_from([0, 1, 2, 5, LAST - 1, LAST]), st.integers(1, 3), st.integers(0, 2)),
        st.tuples(st.just("again"), st.integers(1, 7)),
        st.tuples(st.just("commit"), st.integers(1, 4)),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(steps, st.sampled_from([0, LAST - 3, LAST]))
def test_any_course_of_one_producer_is_judged_by_kafkas_rules(course: list[tuple], start: int) -> None:
    leader, model = Leader(), Model()
    for step in course:
        match step:
            case ("commit", n):
                for _ in range(min(n, len(leader.pending))):
                    leader.commit_one()
                continue
            case ("next", count):
                first = sequence_after(model.batches[-1][1], 1) if model.batches else start
                epoch = max(model.epoch, 0)
            case ("any", first, count, epoch):
                pass
            case ("again", back):
                if len(model.batches) < back:
                    continue
                first, last = model.batches[-back]
                count, epoch = (last - first) % (LAST + 1) + 1, model.epoch
        last = sequence_after(first, count - 1)
        expected = model.judge(epoch, first, last)
        assert name_of(leader.offer(idempotent(first, count=count, epoch=epoch))) == expected
        if expected == "accept":
            model.accept(epoch, first, last)
    while leader.pending:
        leader.commit_one()
    assert leader.partition.next_offset() == sum(count_of(e.batch) for e in leader.log if not isinstance(e, bytes))
    assert replay(leader.log).state_hash() == leader.partition.state_hash()
