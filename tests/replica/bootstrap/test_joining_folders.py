"""ADR 41: a replica that did not form the cluster joins it by its id, once, and nobody else is let in or misled."""

import pytest
from muster_coordinator.controller.commands import RegisterBroker
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.bootstrap.formation import (
    BootstrapState,
    Candidate,
    Expectation,
    Formation,
    Formed,
    Fresh,
    Persist,
    Renewed,
    Tell,
)
from muster_coordinator.replica.bootstrap.identity import UNBOUND, ClusterRecord, Phase, StartRefused, Voter

CLUSTER = "c" * 22
UUIDS = {broker: bytes([broker + 1]) * 16 for broker in range(10)}
RECORD = ClusterRecord(CLUSTER, tuple(Voter(BrokerId(n), UUIDS[n]) for n in range(3)), 50, b"t" * 16)
NEW = BrokerId(7)
SEAT = Voter(NEW, UUIDS[7])
WITH_NEW = RECORD._replace(joined=(SEAT,))


def registration(broker: int = NEW, uuid: bytes | None = None) -> RegisterBroker:
    return RegisterBroker(
        broker=BrokerId(broker),
        replica_uuid=uuid or UUIDS[broker],
        incarnation=1,
        endpoints=(),
        admin="",
        feature_max=3,
    )


def expects(cluster_id: str = CLUSTER, voters: tuple[int, ...] = (0, 1, 2), partitions: int = 50) -> Expectation:
    return Expectation(cluster_id, tuple(map(BrokerId, voters)), partitions)


def formation(
    broker: int,
    expected: Expectation,
    phase: Phase = Phase.EMPTY,
    record: ClusterRecord | None = None,
    *,
    joined: bool = False,
) -> Formation:
    return Formation(
        broker=BrokerId(broker),
        replica_uuid=UUIDS[broker],
        expects=expected,
        phase=phase,
        record=record,
        fresh=Fresh("f" * 22, b"f" * 16),
        joined=joined,
        registration=registration(broker),
    )


def formed(broker: int, record: ClusterRecord = RECORD) -> Formation:
    """A replica that has formed the cluster."""
    one = formation(broker, expects(""), Phase.FORMED, record)
    one.start()
    return one


def told(broker: int, record: ClusterRecord = RECORD) -> BootstrapState:
    return formed(broker, record).state()


def test_it_asks_with_its_registration_and_is_reported_as_a_candidate() -> None:
    new = formation(NEW, expects())
    assert new.start() == [Tell(None)]
    assert "waiting for a replica of cluster" in new.status
    state = new.state()
    assert state.registration == registration()
    assert formed(0).heard(NEW, state) == [Tell(NEW), Candidate(NEW, UUIDS[7], registration())]
    assert new.heard(BrokerId(0), told(0)) == []
    assert "to register broker 7" in new.status


def test_it_joins_when_a_record_has_a_seat_for_it() -> None:
    new = formation(NEW, expects())
    new.start()
    assert new.heard(BrokerId(0), told(0, WITH_NEW)) == [Persist(Phase.PREPARED, WITH_NEW)]
    assert new.stored(Phase.PREPARED, WITH_NEW) == [Tell(None), Persist(Phase.FORMED, WITH_NEW)]
    assert Formed(WITH_NEW) in new.stored(Phase.FORMED, WITH_NEW)
    assert new.state().registration is None, "it asks no more"


def test_every_record_gets_the_seat_from_the_controller_or_from_a_peer() -> None:
    one = formed(0)
    seats = (*RECORD.voters, SEAT)
    assert one.seats_told(seats) == [Persist(Phase.FORMED, WITH_NEW)]
    assert not one.trusts(NEW, UUIDS[7]), "not before it is durable"
    assert one.will_trust(NEW, UUIDS[7])
    assert Renewed(WITH_NEW) in one.stored(Phase.FORMED, WITH_NEW)
    assert one.trusts(NEW, UUIDS[7])
    assert not one.trusts(NEW, UUIDS[8])
    assert formed(1).heard(BrokerId(0), one.state()) == [Persist(Phase.FORMED, WITH_NEW)]


def test_seats_that_two_replicas_learned_apart_are_merged() -> None:
    other = Voter(BrokerId(5), UUIDS[5])
    mine, its = WITH_NEW, RECORD._replace(joined=(other,))
    assert mine.is_same_cluster(its)
    assert mine.merged(its.seats) == its.merged(mine.seats) == RECORD._replace(joined=(other, SEAT))
    gone = Voter(NEW, UNBOUND, 1)
    assert WITH_NEW.merged([gone]) == RECORD._replace(joined=(gone,))
    assert RECORD._replace(joined=(gone,)).merged([SEAT]) == RECORD._replace(joined=(gone,)), "never back"
    contradicting = RECORD._replace(joined=(Voter(NEW, UUIDS[9]),))
    assert not WITH_NEW.is_same_cluster(contradicting), "one binding, two folders"


def test_who_names_no_cluster_does_not_start() -> None:
    with pytest.raises(StartRefused, match="the configuration must name its id"):
        formation(NEW, expects(""))


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        (expects("d" * 22), "the configuration says " + "d" * 22),
        (expects(partitions=49), "the configuration says 49"),
    ],
)
def test_who_expects_another_cluster_is_no_candidate_and_says_why(expected: Expectation, why: str) -> None:
    new = formation(NEW, expected)
    new.start()
    assert formed(0).heard(NEW, new.state()) == [Tell(NEW)]
    assert new.heard(BrokerId(0), told(0)) == []
    assert why in new.status
    assert new.heard(BrokerId(0), told(0, WITH_NEW)) == []
    assert why in new.status


def test_replicas_to_ask_need_not_be_those_that_formed() -> None:
    new = formation(NEW, expects(voters=(2,)))
    new.start()
    assert new.heard(BrokerId(2), told(2, WITH_NEW)) == [Persist(Phase.PREPARED, WITH_NEW)]


def test_it_restarts_with_whatever_list_of_replicas_to_ask() -> None:
    for voters in ((0,), (1, 2, 9), (4, 5, 6)):
        again = formation(NEW, expects(voters=voters), Phase.FORMED, WITH_NEW, joined=True)
        assert Formed(WITH_NEW) in again.start()


@pytest.mark.parametrize("asks", [None, registration(8), registration(7, UUIDS[9])])
def test_a_state_without_its_own_registration_makes_no_candidate(asks: RegisterBroker | None) -> None:
    state = formation(NEW, expects()).state()._replace(registration=asks)
    assert formed(0).heard(NEW, state) == [Tell(NEW)]


def test_an_id_is_asked_for_with_the_folder_that_asks() -> None:
    state = formation(NEW, expects()).state()._replace(registration=registration(7, UUIDS[9]))
    assert formed(0).heard(NEW, state) == [Tell(NEW)]


def test_a_broker_that_has_joined_is_known_by_its_own_record_to_who_was_not_told_yet() -> None:
    """It speaks to everybody then; a replica that was cut off would take that for a stranger's (seed 65)."""
    new = formation(NEW, expects(), Phase.FORMED, WITH_NEW, joined=True)
    new.start()
    late = formed(0)
    assert late.heard(NEW, new.state()) == [Persist(Phase.FORMED, WITH_NEW)]
    assert late.will_trust(NEW, UUIDS[7])
    for lie in (
        WITH_NEW._replace(cluster_id="x" * 22),
        RECORD,
        RECORD._replace(joined=(Voter(NEW, UUIDS[9]),)),
    ):
        assert formed(0).heard(NEW, new.state()._replace(record=lie)) == []


def test_two_clusters_that_meet_do_not_answer_each_other_for_ever() -> None:
    """Neither knows the other's broker; each would tell its state whenever it hears one."""
    stranger = ClusterRecord("s" * 22, (Voter(NEW, UUIDS[7]),), 50, b"s" * 16)
    other = formation(NEW, expects("", voters=(7,)), Phase.FORMED, stranger)
    other.start()
    one = formed(0)
    assert one.heard(NEW, other.state()) == []
    assert other.heard(BrokerId(0), one.state()) == []


def test_a_folder_that_joined_and_lost_its_record_stays_out() -> None:
    new = formation(NEW, expects(), joined=True)
    new.start()
    assert new.heard(BrokerId(0), told(0, WITH_NEW)) == []
    assert new.out
    assert "has lost its own record" in new.status


def test_an_emptied_folder_of_a_joined_broker_stays_out_until_it_is_replaced() -> None:
    new = formation(NEW, expects())
    new.start()
    before = RECORD._replace(joined=(Voter(NEW, UUIDS[9]),))
    assert new.heard(BrokerId(0), told(0, before)) == []
    assert "was emptied and stays out" in new.status
    unbound = RECORD._replace(joined=(Voter(NEW, UNBOUND, 1),))
    assert new.heard(BrokerId(0), told(0, unbound)) == []
    assert "waiting for the controller to bind" in new.status
    assert Candidate(NEW, UUIDS[7], registration()) in formed(0, unbound).heard(NEW, new.state())
    bound = RECORD._replace(joined=(Voter(NEW, UUIDS[7], 1),))
    assert new.heard(BrokerId(0), told(0, bound)) == [Persist(Phase.PREPARED, bound)]
