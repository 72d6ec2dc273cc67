"""ADR 38: a lost folder is replaced under the same broker id; who is trusted follows, whoever is away when.

The controller is a model here: the newest state of each seat, which every formed replica learns at some time, or from
another replica's record.
"""

import itertools
import random

import pytest
from muster_coordinator.ids import BrokerId, member_no
from muster_coordinator.replica.bootstrap.formation import Formation
from muster_coordinator.replica.bootstrap.identity import UNBOUND, ClusterRecord, Phase, Voter

from tests.replica.bootstrap.test_formation import Net, Seat, boot_all, cluster

OLD = bytes(range(16))
NEW = bytes(range(16, 32))


def formation_of(seat: Seat) -> Formation:
    assert seat.formation is not None
    return seat.formation


class Controller:
    """The states of all seats, in the order in which the controller's log made them."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.seats = {broker: Voter(BrokerId(broker), seat.uuid) for broker, seat in net.seats.items()}

    def replace(self, broker: int) -> None:
        self.seats[broker] = Voter(BrokerId(broker), UNBOUND, self.seats[broker].binding + 1)

    def bind(self) -> None:
        """Bind whoever was reported as a candidate for a seat that is unbound still."""
        for seat in self.net.seats.values():
            for asked in seat.asked:
                if self.seats[asked.broker].replica_uuid == UNBOUND:
                    self.seats[asked.broker] = self.seats[asked.broker]._replace(replica_uuid=asked.replica_uuid)
            seat.asked.clear()

    def tell(self, broker: int) -> None:
        """This replica has applied the controller's log."""
        seat = self.net.seats[broker]
        if seat.formation is not None and seat.formation.formed() is not None:
            seat.todo += seat.formation.seats_told(tuple(self.seats.values()))


def formed_cluster(seed: int = 0) -> tuple[Net, Controller]:
    net = cluster(seed)
    boot_all(net)
    return net, Controller(net)


def emptied(net: Net, broker: int) -> Seat:
    seat = net.seats[broker]
    seat.kill()
    seat.wipe()
    seat.boot()
    return seat


def replaced(net: Net, controller: Controller, broker: int, *told: int) -> Seat:
    """The whole way of a replacement, of which only `told` learn by the controller's log."""
    seat = emptied(net, broker)
    controller.replace(broker)
    for _ in range(3):
        for one in told:
            controller.tell(one)
        net.settle()
        controller.bind()
    return seat


def test_a_new_folder_joins_when_the_controller_has_bound_it() -> None:
    net, controller = formed_cluster()
    old = net.seats[2].uuid
    new = emptied(net, 2)
    net.settle()
    assert "was emptied" in formation_of(new).status
    controller.replace(2)
    controller.tell(0)
    net.settle()
    assert "waiting for the controller to bind" in formation_of(new).status
    for broker, uuid in itertools.product((0, 1), (old, new.uuid, UNBOUND)):
        assert not formation_of(net.seats[broker]).trusts(BrokerId(2), uuid)
    controller.bind()
    controller.tell(1)
    net.settle()
    record = Voter(BrokerId(2), new.uuid, 1)
    assert all(seat.formed is not None and seat.formed.voters[2] == record for seat in net.seats.values())
    assert new.formed is not None
    assert new.formed.member_of(BrokerId(2)) == member_no(BrokerId(2), 1)
    assert all(formation_of(net.seats[n]).trusts(BrokerId(2), new.uuid) for n in (0, 1))


def test_nobody_joins_a_seat_that_is_not_declared_gone() -> None:
    net, controller = formed_cluster()
    new = emptied(net, 2)
    for broker in (0, 1):
        controller.tell(broker)
    net.settle()
    assert not net.seats[0].asked
    assert not net.seats[1].asked
    assert new.stored[0] is Phase.EMPTY


def test_of_two_new_folders_the_first_is_bound_and_the_other_stays_out() -> None:
    net, controller = formed_cluster()
    first = replaced(net, controller, 2, 0, 1)
    held, stored = first.uuid, (first.stored, first.joined)
    second = emptied(net, 2)
    net.settle()
    assert second.formed is None
    assert "was emptied" in formation_of(second).status
    second.kill()
    second.uuid, (second.stored, second.joined) = held, stored
    second.boot()
    net.settle()
    assert second.formed is not None
    assert second.formed.voters[2].replica_uuid == held


def test_the_folder_that_was_declared_gone_stays_out_and_says_so() -> None:
    net, controller = formed_cluster()
    old = net.seats[2]
    held, stored = old.uuid, old.stored
    replaced(net, controller, 2, 0, 1)
    net.seats[2].kill()
    net.seats[2].uuid, net.seats[2].stored, net.seats[2].joined = held, stored, False
    net.seats[2].boot()
    net.settle()
    assert formation_of(net.seats[2]).out
    assert "declared gone for good" in formation_of(net.seats[2]).status
    assert net.seats[2].stored == stored, "its record is kept: it could not start with one that names another folder"
    assert not any(formation_of(net.seats[n]).trusts(BrokerId(2), held) for n in (0, 1))


def test_it_is_told_once_and_for_good_however_it_heard_of_it() -> None:
    net, controller = formed_cluster()
    old = net.seats[2]
    assert old.gone == 0
    controller.replace(2)
    controller.tell(0)
    net.settle()
    assert old.gone == 1, "by another replica's record"
    formation = formation_of(old)
    for peer in (0, 1):
        old.todo += formation.lost(BrokerId(peer))
    controller.tell(2)
    net.settle()
    assert (old.gone, formation.out) == (1, True)
    assert "remove its folder" in formation.status, "also when nobody who told it is heard any more"


def test_a_replica_that_was_away_learns_of_others_that_were_replaced_from_one_it_does_not_trust_yet() -> None:
    net, controller = formed_cluster()
    away = net.seats[0]
    away.kill()
    replaced(net, controller, 2, 1)
    replaced(net, controller, 1, 2)
    away.boot()
    net.settle()
    assert all(formation_of(away).trusts(BrokerId(n), net.seats[n].uuid) for n in (1, 2))
    assert all(formation_of(net.seats[n]).trusts(BrokerId(0), away.uuid) for n in (1, 2))


def test_a_folder_that_has_joined_and_lost_its_record_does_not_join_again() -> None:
    net, controller = formed_cluster()
    new = replaced(net, controller, 2, 0, 1)
    assert new.joined
    new.kill()
    new.stored = (Phase.EMPTY, None)
    new.boot()
    net.settle()
    assert new.stored[0] is Phase.EMPTY
    assert "has lost its own record" in formation_of(new).status
    controller.replace(2)
    new.kill()
    new.wipe()
    new.boot()
    for _ in range(3):
        controller.tell(0)
        net.settle()
        controller.bind()
    assert new.formed is not None
    assert new.formed.member_of(BrokerId(2)) == member_no(BrokerId(2), 2)


def test_another_cluster_s_bindings_are_not_taken_over() -> None:
    net, _ = formed_cluster()
    own = net.seats[0].formed
    assert own is not None
    foreign = own._replace(cluster_id="x" * 22, voters=tuple(seat._replace(binding=9) for seat in own.voters))
    state = formation_of(net.seats[1]).state()._replace(record=foreign)
    net.seats[0].todo += formation_of(net.seats[0]).heard(BrokerId(1), state)
    while net.step():
        pass
    assert net.seats[0].formed == own


@pytest.mark.parametrize("seed", range(120))
def test_whatever_is_killed_when_all_end_with_the_newest_folders(seed: int) -> None:
    """Two replacements, one after the other, with kills of all replicas at any step, and the controller's log applied
    here and there. At every step a binding names one folder, and nobody forms with a folder that is not bound."""
    net, controller = formed_cluster(seed)
    rand = random.Random(seed)
    for broker in rand.sample(range(3), 2):
        emptied(net, broker)
        controller.replace(broker)
        others = [other for other in range(3) if other != broker]
        for _ in range(rand.randrange(120)):
            chance = rand.random()
            if chance < 0.06:
                victim = net.seats[rand.randrange(3)]
                victim.kill()
                victim.boot()
            elif chance < 0.2:
                controller.tell(rand.choice(others))
            elif chance < 0.3:
                net.hello()
            else:
                net.step()
            controller.bind()
            check_bindings(net)
        for _ in range(3):
            for other in others:
                controller.tell(other)
            net.settle()
            controller.bind()
        check_bindings(net)
    wanted = tuple(controller.seats.values())
    assert all(seat.formed is not None and seat.formed.voters == wanted for seat in net.seats.values())
    assert all(not seat.formation.out for seat in net.seats.values() if seat.formation is not None)


def check_bindings(net: Net) -> None:
    folders: dict[tuple[int, int], bytes] = {}
    for seat in net.seats.values():
        record: ClusterRecord | None = seat.stored[1]
        for voter in record.voters if record is not None else ():
            if voter.replica_uuid != UNBOUND:
                known = folders.setdefault((voter.broker, voter.binding), voter.replica_uuid)
                assert known == voter.replica_uuid
        if seat.formed is not None:
            assert seat.formed.uuid_of(seat.broker) == seat.uuid


def record_of(*seats: Voter) -> ClusterRecord:
    return ClusterRecord("c" * 22, seats, 50, bytes(16))


def test_a_seat_goes_to_later_states_only() -> None:
    bound, gone, anew = (Voter(BrokerId(0), uuid, n) for uuid, n in ((OLD, 0), (UNBOUND, 1), (NEW, 1)))
    states = (bound, gone, anew)
    for at, record in enumerate(states):
        for other_at, other in enumerate(states):
            assert record_of(record).merged([other]) == record_of(states[max(at, other_at)])
            assert record_of(record).is_same_cluster(record_of(other))


def test_a_binding_with_two_folders_is_two_clusters() -> None:
    one, other = record_of(Voter(BrokerId(0), OLD)), record_of(Voter(BrokerId(0), NEW))
    assert not one.is_same_cluster(other)
    assert not one.is_same_cluster(record_of(Voter(BrokerId(1), OLD)))
    assert not one.is_same_cluster(record_of(Voter(BrokerId(0), OLD), Voter(BrokerId(1), NEW)))
