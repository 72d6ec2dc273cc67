"""ADR 103: whoever formed a cluster alone, and comes back with an empty folder, forms no second one where its
configuration says that the cluster is there: it waits for the brokers that joined, who give its place back."""

import pytest
from muster_coordinator.errors import CallerError
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.bootstrap.formation import (
    BootstrapState,
    Candidate,
    Expectation,
    Formation,
    Formed,
    Fresh,
    Persist,
    Tell,
)
from muster_coordinator.replica.bootstrap.identity import UNBOUND, ClusterRecord, Phase, StartRefused, Voter
from muster_coordinator.settings import settings_of

CLUSTER, OTHER = "c" * 22, "d" * 22
FOUNDER, JOINED = BrokerId(0), BrokerId(4)
OLD, NEW, ITS = b"o" * 16, b"n" * 16, b"j" * 16
RECORD = ClusterRecord(CLUSTER, (Voter(FOUNDER, OLD),), 3, b"t" * 16, joined=(Voter(JOINED, ITS),))
EXPECTS = Expectation(CLUSTER, (FOUNDER,), 3)


def emptied(*, formed_before: bool = True, expects: Expectation = EXPECTS) -> Formation:
    return Formation(
        broker=FOUNDER,
        replica_uuid=NEW,
        expects=expects,
        phase=Phase.EMPTY,
        record=None,
        fresh=Fresh("f" * 22, b"f" * 16),
        formed_before=formed_before,
    )


def told(record: ClusterRecord = RECORD, phase: Phase = Phase.FORMED) -> BootstrapState:
    return BootstrapState(JOINED, ITS, phase, EXPECTS, record)


def seat(uuid: bytes, binding: int) -> ClusterRecord:
    return RECORD._replace(voters=(Voter(FOUNDER, uuid, binding),))


def test_without_that_word_it_forms_one_at_once() -> None:
    """What a first start does: nobody can tell it from this one."""
    (_, persist) = emptied(formed_before=False).start()
    assert isinstance(persist, Persist)
    assert (persist.record.cluster_id, persist.record.offsets_topic_id) == (CLUSTER, b"f" * 16)


def test_it_forms_none_alone_and_says_what_it_waits_for() -> None:
    one = emptied()
    assert one.start() == [Tell(None)]
    assert one.lost(JOINED) == []
    assert (one.phase, one.formed(), one.out) == (Phase.EMPTY, None, False)
    assert f"cluster {CLUSTER} was formed before" in one.status
    assert "data folder is empty" in one.status


def test_it_hears_who_joined_stays_out_and_comes_back_as_another_member() -> None:
    one = emptied()
    one.start()
    assert one.heard(JOINED, told()) == []
    assert one.out
    assert "was emptied and stays out" in one.status

    assert one.heard(JOINED, told(seat(UNBOUND, 1))) == []
    assert "waiting for the controller to bind" in one.status
    peer = Formation(
        broker=JOINED, replica_uuid=ITS, expects=EXPECTS, phase=Phase.FORMED, record=seat(UNBOUND, 1),
        fresh=Fresh("g" * 22, b"g" * 16),
    )  # fmt: skip
    peer.start()
    assert Candidate(FOUNDER, NEW) in peer.heard(FOUNDER, one.state()), "it is asked for, as any lost folder"

    bound = seat(NEW, 1)
    assert one.heard(JOINED, told(bound)) == [Persist(Phase.PREPARED, bound)]
    assert one.stored(Phase.PREPARED, bound) == [Tell(None), Persist(Phase.FORMED, bound)]
    assert Formed(bound) in one.stored(Phase.FORMED, bound)


def test_who_goes_again_before_it_has_its_place_leaves_it_where_it_was() -> None:
    one = emptied()
    one.start()
    one.heard(JOINED, told())
    assert one.lost(JOINED) == []
    assert (one.phase, one.out) == (Phase.EMPTY, True)


@pytest.mark.parametrize(
    "state",
    [
        told(RECORD._replace(cluster_id=OTHER)),
        told(phase=Phase.PREPARED),
        BootstrapState(JOINED, ITS, Phase.EMPTY, EXPECTS, None),
        BootstrapState(JOINED, ITS, Phase.LEFT_BEHIND, EXPECTS, RECORD),
    ],
)
def test_strangers_and_brokers_without_a_cluster_tell_it_nothing(state: BootstrapState) -> None:
    one = emptied()
    one.start()
    assert one.heard(JOINED, state) == []
    assert (one.phase, one.out) == (Phase.EMPTY, False)
    assert "was formed before" in one.status


def test_three_founders_emptied_at_once_form_none_beside_the_brokers_that_joined() -> None:
    voters = tuple(map(BrokerId, range(3)))
    expects = Expectation(CLUSTER, voters, 3)
    ones = [
        Formation(
            broker=broker, replica_uuid=bytes([broker + 1]) * 16, expects=expects, phase=Phase.EMPTY, record=None,
            fresh=Fresh("f" * 22, b"f" * 16), formed_before=True,
        )
        for broker in voters
    ]  # fmt: skip
    for one in ones:
        assert one.start() == [Tell(None)]
    for one in ones:
        for other in ones:
            if other is not one:
                assert one.heard(other.broker, other.state()) == []
        assert one.phase is Phase.EMPTY


def test_a_broker_that_joins_hears_those_that_joined_before_it_too() -> None:
    """Of Kubernetes' pods every one has the same word."""
    newcomer = BrokerId(7)
    one = Formation(
        broker=newcomer, replica_uuid=NEW, expects=EXPECTS, phase=Phase.EMPTY, record=None,
        fresh=Fresh("f" * 22, b"f" * 16), formed_before=True,
    )  # fmt: skip
    assert one.start() == [Tell(None)]
    assert one.heard(JOINED, told()) == []
    assert "to register broker 7" in one.status
    seated = RECORD.merged((Voter(newcomer, NEW),))
    assert one.heard(JOINED, told(seated)) == [Persist(Phase.PREPARED, seated)]


def test_a_folder_with_its_record_starts_as_ever() -> None:
    one = Formation(
        broker=FOUNDER, replica_uuid=OLD, expects=EXPECTS, phase=Phase.FORMED, record=RECORD,
        fresh=Fresh("f" * 22, b"f" * 16), formed_before=True,
    )  # fmt: skip
    assert one.start()[0] == Formed(RECORD)


def test_the_word_needs_the_clusters_id() -> None:
    with pytest.raises(StartRefused, match="must name its id"):
        emptied(expects=Expectation("", (FOUNDER,), 3))
    base = {"node.id": "0", "log.dirs": "/d"}
    with pytest.raises(CallerError, match=r"muster\.cluster\.formed=true needs muster\.cluster\.id"):
        settings_of({**base, "muster.cluster.formed": "true"})
    assert settings_of({**base, "muster.cluster.formed": "false"}).cluster_formed is False
    assert settings_of({**base, "muster.cluster.formed": "true", "muster.cluster.id": CLUSTER}).cluster_formed
