"""One test a rule of the transaction coordinator; each is broken by a mutant (`mutants/of_transaction_coordinator`).

What these rules lead to together is in `test_interleavings`, what Kafka's coordinator answers in `test_coordinator`.
"""

from muster_coordinator.errors import Code
from muster_coordinator.transactions.config import TransactionConfig
from muster_coordinator.transactions.requests import AddPartitions, Answer, EndTransaction
from muster_coordinator.transactions.states import State

from tests.transactions.host import A0, A1, CONFIG, TransactionHost

ASKED_AGAIN = {Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR}


def begun(version: int = 0) -> tuple[TransactionHost, Answer, EndTransaction]:
    """A transaction of two partitions, and its producer's question for a commit."""
    host = TransactionHost()
    me = host.init()
    assert host.add(me, A0, A1).code is Code.NONE
    return host, me, EndTransaction("t", me.producer_id, me.producer_epoch, True, version)


def test_no_marker_is_sent_before_the_decision_is_applied() -> None:
    for version in (0, 2):
        host, _, end = begun(version)
        ticket = host.ask(end)
        assert (list(host.markers), ticket in host.answers) == ([], False)
        host.commit()
        assert [one.partitions for one in host.markers] == [(A0, A1)]
        assert host.answers[ticket].code is Code.NONE


def test_a_decision_that_was_refused_sends_none() -> None:
    host, _, end = begun()
    host.ask(end)
    host.drop()
    assert (list(host.markers), host.of("t").state) == ([], State.ONGOING)


def test_it_is_complete_when_the_last_marker_is_written() -> None:
    host, _, end = begun()
    host.ask(end)
    host.commit()
    sent = host.markers.popleft()
    host.deliver_one(sent, A1)
    host.deliver_one(sent, A1)
    assert (list(host.in_flight), host.of("t").state) == ([], State.PREPARE_COMMIT)
    host.deliver_one(sent, A0)
    host.commit()
    assert host.of("t").state is State.COMPLETE_COMMIT


def test_an_older_epoch_of_the_same_id_is_fenced() -> None:
    host = TransactionHost()
    zombie, heir = host.init(), host.init()
    assert zombie.producer_id == heir.producer_id
    assert host.add(zombie, A0).code is Code.PRODUCER_FENCED
    assert host.verify(zombie, A0).code is Code.PRODUCER_FENCED
    assert host.add(heir, A0).code is Code.NONE
    assert host.end(zombie).code is Code.PRODUCER_FENCED


def test_who_ran_out_of_time_is_fenced_by_the_abort() -> None:
    host, me, end = begun()
    host.pass_time(60_000)
    assert host.of("t").state is State.COMPLETE_ABORT
    assert {sent.marker.producer_epoch for _, sent in host.written} == {me.producer_epoch + 1}
    assert host.answered(end).code is Code.PRODUCER_FENCED
    assert host.add(me, A0).code is Code.PRODUCER_FENCED


def test_the_end_that_comes_again_is_told_what_became_of_it_and_the_other_end_is_refused() -> None:
    for version in (0, 2):
        for commit in (True, False):
            host, me, _ = begun(version)
            told = host.end(me, commit=commit, version=version)
            assert told.code is Code.NONE
            assert host.end(me, commit=commit, version=version) == told
            assert host.end(me, commit=not commit, version=version).code is Code.INVALID_TXN_STATE


def test_who_goes_on_after_an_error_must_be_the_newest_one() -> None:
    host = TransactionHost()
    zombie = host.init()
    for _ in range(3):
        heir = host.init()
    assert host.init(expected=(zombie.producer_id, zombie.producer_epoch)).code is Code.PRODUCER_FENCED
    assert host.init(expected=(heir.producer_id + 1, heir.producer_epoch)).code is Code.PRODUCER_FENCED
    assert host.of("t").producer_epoch == heir.producer_epoch
    assert host.init(expected=(heir.producer_id, heir.producer_epoch)).producer_epoch == heir.producer_epoch + 1


def test_markers_of_the_next_coordinator_have_a_later_epoch() -> None:
    """By which partitions refuse those of the one before."""
    host, _, end = begun()
    host.ask(end)
    host.commit()
    before = host.markers[0].marker.end.coordinator_epoch
    host.fail_over()
    assert host.markers[0].marker.end.coordinator_epoch > before


def test_a_late_marker_of_one_transaction_completes_not_the_next() -> None:
    host, me, end = begun(2)
    host.ask(end)
    host.commit()
    late = host.markers[0]
    host.run_all()
    me = me._replace(producer_epoch=me.producer_epoch + 1)
    host.add(me, A0)
    host.ask(end._replace(producer_epoch=me.producer_epoch))
    host.commit()
    host.deliver_one(late, A0)
    assert (list(host.in_flight), host.of("t").state) == ([], State.PREPARE_COMMIT)


def test_an_id_with_an_open_transaction_does_not_expire() -> None:
    config = TransactionConfig(timeout_max_ms=CONFIG.timeout_max_ms, id_expiration_ms=1_000, expiry_check_ms=500)
    host = TransactionHost(config)
    me = host.init(timeout_ms=60_000)
    host.add(me, A0)
    host.init("idle")
    host.pass_time(5_000)
    assert [name for name, _ in host.leader.views()] == ["t"]
    assert host.end(me).code is Code.NONE
    host.pass_time(5_000)
    assert list(host.leader.views()) == []


def test_each_transaction_of_version_2_ends_with_the_next_epoch() -> None:
    for commit in (True, False):
        host, me, _ = begun(2)
        told = host.end(me, commit=commit, version=2)
        assert told == Answer(Code.NONE, me.producer_id, me.producer_epoch + 1)
        assert {sent.marker.producer_epoch for _, sent in host.written} == {me.producer_epoch + 1}
        assert host.add(me, A0).code is Code.PRODUCER_FENCED, "what it sent before comes too late"


def test_an_end_whose_fate_is_unknown_is_to_be_asked_for_again() -> None:
    host, _, end = begun()
    refused = host.ask(end)
    host.drop()
    assert host.answers[refused].code in ASKED_AGAIN
    unknown = host.ask(end)
    host.fail_over()
    assert host.answers[unknown].code in ASKED_AGAIN
    assert host.answered(end).code in (Code.NONE, Code.CONCURRENT_TRANSACTIONS), "it had been decided"


def test_an_end_is_not_judged_by_a_state_that_is_about_to_change() -> None:
    host = TransactionHost()
    me = host.init()
    host.ask(AddPartitions("t", me.producer_id, me.producer_epoch, frozenset({A0})))
    ticket = host.ask(EndTransaction("t", me.producer_id, me.producer_epoch, True, 0))
    assert host.answers[ticket].code is Code.CONCURRENT_TRANSACTIONS
    host.run_all()
    assert host.end(me).code is Code.NONE
