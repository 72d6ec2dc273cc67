"""Decision 15: a cluster forms exactly once, whatever is killed when; the wrong replicas stay out and say so."""

import itertools
import random

import pytest
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.bootstrap.formation import (
    AllFormed,
    BootstrapState,
    Candidate,
    Effect,
    Expectation,
    Formation,
    Formed,
    Fresh,
    Gone,
    LeftBehind,
    Persist,
    Renewed,
    Tell,
)
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Phase, StartRefused, Voter

VOTERS = tuple(BrokerId(n) for n in range(3))


class Seat:
    """One broker's disk and its present life. Effects queue up; `do` carries out one of them."""

    def __init__(self, net: "Net", broker: int, **expects: object) -> None:
        self.net = net
        self.broker = BrokerId(broker)
        self.uuid = net.rand.randbytes(16)
        self.stored: tuple[Phase, ClusterRecord | None] = (Phase.EMPTY, None)
        self.joined = False
        self.asked: list[Candidate] = []
        self.ended: list[str] = []
        """Why its processes ended by themselves."""
        self.expects = Expectation(**{"cluster_id": "", "voters": VOTERS, "offsets_partitions": 50} | expects)
        self.formation: Formation | None = None
        self.todo: list[Effect] = []
        self.formed: ClusterRecord | None = None
        self.gone = 0
        """How often this life was told that its folder is gone."""

    def boot(self) -> None:
        fresh = Fresh(f"cluster{self.net.rand.random()}", self.net.rand.randbytes(16))
        self.formed, self.gone = None, 0
        self.formation = Formation(
            broker=self.broker,
            replica_uuid=self.uuid,
            expects=self.expects,
            phase=self.stored[0],
            record=self.stored[1],
            fresh=fresh,
            joined=self.joined,
        )
        self.todo = self.formation.start()

    def kill(self) -> None:
        self.formation, self.todo = None, []
        self.net.lost(self.broker)

    def wipe(self) -> None:
        self.stored, self.joined = (Phase.EMPTY, None), False
        self.uuid = self.net.rand.randbytes(16)

    def do(self) -> None:
        """Carry out the next effect."""
        assert self.formation is not None
        effect = self.todo.pop(0)
        match effect:
            case Persist():
                assert effect.phase > self.stored[0] or effect.phase is Phase.FORMED
                if effect.phase is Phase.FORMED and effect.record.member_of(self.broker) != self.broker:
                    self.joined = True
                self.stored = (effect.phase, effect.record)
                self.todo += self.formation.stored(effect.phase, effect.record)
            case Tell():
                self.net.tell(self.formation.state(), effect.peer)
            case Formed() | Renewed():
                self.formed = effect.record
            case Candidate():
                self.asked.append(effect)
            case AllFormed():
                pass
            case Gone():
                assert self.formed is not None
                self.gone += 1
            case LeftBehind():
                self.ended.append(effect.why)
                self.kill()


class Net:
    """States under way; each is told to the life that is there when it arrives."""

    def __init__(self, seed: int = 0) -> None:
        self.rand = random.Random(seed)
        self.seats: dict[int, Seat] = {}
        self.wire: list[tuple[int, BootstrapState]] = []

    def tell(self, state: BootstrapState, peer: int | None) -> None:
        for other in self.seats:
            if other != state.broker and peer in (None, other):
                self.wire.append((other, state))

    def lost(self, broker: int) -> None:
        self.wire = [(to, t) for to, t in self.wire if to != broker and t.broker != broker]
        for seat in self.seats.values():
            if seat.formation is not None:
                seat.todo += seat.formation.lost(BrokerId(broker))

    def hello(self) -> None:
        """Everybody repeats what it is, as the host does every half second."""
        for seat in self.seats.values():
            if seat.formation is not None:
                self.tell(seat.formation.state(), None)

    def step(self) -> bool:
        """One random thing that can happen now."""
        able = [seat for seat in self.seats.values() if seat.formation is not None and seat.todo]
        choices = len(able) + bool(self.wire)
        if not choices:
            return False
        pick = self.rand.randrange(choices)
        if pick < len(able):
            able[pick].do()
            return True
        to, state = self.wire.pop(self.rand.randrange(len(self.wire)))
        seat = self.seats[to]
        if seat.formation is not None:
            seat.todo += seat.formation.heard(state.broker, state)
        return True

    def settle(self) -> None:
        for _ in range(6):
            self.hello()
            while self.step():
                pass


def cluster(seed: int = 0, **expects: object) -> Net:
    net = Net(seed)
    for broker in VOTERS:
        net.seats[broker] = Seat(net, broker, **expects)
    return net


def boot_all(net: Net) -> None:
    for seat in net.seats.values():
        seat.boot()
    net.settle()


def test_three_empty_replicas_form_one_cluster() -> None:
    net = cluster()
    boot_all(net)
    records = {seat.formed for seat in net.seats.values()}
    assert len(records) == 1
    record = records.pop()
    assert record is not None
    assert record.voters == tuple(Voter(seat.broker, seat.uuid) for seat in net.seats.values())
    assert record.offsets_partitions == 50


def test_one_replica_alone_forms_when_it_is_the_only_voter() -> None:
    net = Net()
    net.seats[0] = Seat(net, 0, voters=(BrokerId(0),))
    net.seats[0].boot()
    net.settle()
    assert net.seats[0].formed is not None


def test_nothing_forms_while_one_initial_replica_is_missing() -> None:
    net = cluster()
    for broker in (0, 1):
        net.seats[broker].boot()
    net.settle()
    assert net.seats[0].stored[0] is Phase.EMPTY
    assert "waiting for the initial replicas [2]" in net.seats[0].formation.status
    net.seats[2].boot()
    net.settle()
    assert all(seat.formed for seat in net.seats.values())


@pytest.mark.parametrize(("victim", "seed"), list(itertools.product(range(3), range(40))))
def test_a_kill_at_any_boundary_ends_in_one_cluster(victim: int, seed: int) -> None:
    """Kill one replica after a random number of steps (before or after what it just stored), restart it, settle."""
    net = cluster(seed)
    for seat in net.seats.values():
        seat.boot()
    net.hello()
    for _ in range(net.rand.randrange(40)):
        net.step()
    net.seats[victim].kill()
    while net.step():
        pass
    net.seats[victim].boot()
    net.settle()
    assert len({seat.formed for seat in net.seats.values()}) == 1
    assert net.seats[0].formed is not None


@pytest.mark.parametrize("seed", range(60))
def test_formed_is_stored_only_after_all_stored_prepared(seed: int) -> None:
    net = cluster(seed)
    for seat in net.seats.values():
        seat.boot()
    net.hello()
    while net.step():
        if any(seat.stored[0] is Phase.FORMED for seat in net.seats.values()):
            assert all(seat.stored[0] is not Phase.EMPTY for seat in net.seats.values())
            assert len({seat.stored[1] for seat in net.seats.values()}) == 1


@pytest.mark.parametrize("victim", range(3))
def test_an_emptied_replica_stays_out_of_the_formed_cluster(victim: int) -> None:
    net = cluster()
    boot_all(net)
    seat = net.seats[victim]
    seat.kill()
    seat.wipe()
    seat.boot()
    net.settle()
    assert seat.formed is None
    assert seat.stored[0] is Phase.EMPTY
    assert "was emptied" in seat.formation.status
    others = [other for other in net.seats.values() if other is not seat]
    assert all(not other.formation.trusts(seat.broker, seat.uuid) for other in others)


def test_emptied_replicas_never_form_a_second_cluster_not_even_as_a_majority() -> None:
    net = cluster()
    boot_all(net)
    first = net.seats[2].formed
    for broker in (0, 1):
        net.seats[broker].kill()
        net.seats[broker].wipe()
    net.seats[2].kill()
    for broker in (0, 1):
        net.seats[broker].boot()
    net.settle()
    assert all(net.seats[broker].stored[0] is Phase.EMPTY for broker in (0, 1))
    net.seats[2].boot()
    net.settle()
    assert net.seats[2].formed == first
    assert all("was emptied" in net.seats[broker].formation.status for broker in (0, 1))


def test_a_replica_emptied_while_the_cluster_was_being_prepared_blocks_it_and_is_named() -> None:
    net = cluster(3)
    for seat in net.seats.values():
        seat.boot()
    net.hello()
    while net.seats[0].stored[0] is Phase.EMPTY:
        assert net.step()
    net.seats[2].kill()
    while net.step():
        pass
    net.seats[2].wipe()
    net.seats[2].boot()
    net.settle()
    assert all(seat.formed is None for seat in net.seats.values())
    assert "broker 2 came back with another data folder" in net.seats[0].formation.status
    assert "was emptied" in net.seats[2].formation.status


def test_disagreeing_configurations_do_not_form_and_name_both() -> None:
    net = cluster()
    net.seats[1].expects = net.seats[1].expects._replace(offsets_partitions=60)
    boot_all(net)
    assert all(seat.stored[0] is Phase.EMPTY for seat in net.seats.values())
    assert "60" in net.seats[0].formation.status
    assert "50" in net.seats[0].formation.status


def test_a_wanted_cluster_id_of_any_replica_is_taken() -> None:
    net = cluster()
    net.seats[2].expects = net.seats[2].expects._replace(cluster_id="wanted")
    boot_all(net)
    assert {seat.formed.cluster_id for seat in net.seats.values()} == {"wanted"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"offsets_partitions": 60}, ["50", "60"]),
        ({"cluster_id": "other"}, ["other"]),
        ({"voters": tuple(BrokerId(n) for n in range(5))}, ["[0, 1, 2]", "[0, 1, 2, 3, 4]"]),
    ],
)
def test_a_restart_with_another_configuration_is_refused_naming_both(
    change: dict[str, object], words: list[str]
) -> None:
    net = cluster()
    boot_all(net)
    seat = net.seats[1]
    seat.kill()
    seat.expects = seat.expects._replace(**change)
    with pytest.raises(StartRefused) as refused:
        seat.boot()
    assert all(word in str(refused.value) for word in words)
