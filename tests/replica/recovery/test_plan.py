"""What a recovery writes, and whom it refuses (ADR 40): the planner alone, from made surveys."""

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller.codec import decode_command
from muster_coordinator.controller.commands import RecoverCluster
from muster_coordinator.controller.image import EMPTY_ID, Broker, ClusterImage, Routing
from muster_coordinator.controller.transitions import transition
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.raft.core import TERM_MAX
from muster_coordinator.replica.bootstrap.identity import UNBOUND, ClusterRecord, Identity, Phase, Voter
from muster_coordinator.replica.controller.seats import seats_of
from muster_coordinator.replica.recovery.limits import PRODUCER_IDS_SKIPPED, TERMS_SKIPPED
from muster_coordinator.replica.recovery.plan import UNKNOWN_FOLDER, plan, refusals_of
from muster_coordinator.replica.recovery.survey import ELSEWHERE, GroupHeld, Survey

OWN = b"o" * 16
EPOCH_ID = b"e" * 16
VOTERS = (BrokerId(0), BrokerId(1), BrokerId(2))


def folder(broker: int, binding: int = 0) -> bytes:
    return OWN if (broker, binding) == (0, 0) else bytes([broker + 1, binding]) * 8


def bound(broker: int, binding: int = 0) -> Voter:
    return Voter(BrokerId(broker), folder(broker, binding), binding)


def unbound(broker: int, binding: int) -> Voter:
    return Voter(BrokerId(broker), UNBOUND, binding)


def imaged(*seats: Voter, level: int = 3) -> ClusterImage:
    brokers = {
        seat.broker: Broker(
            broker=seat.broker,
            replica_uuid=seat.replica_uuid,
            incarnation=3,
            endpoints=(),
            admin="",
            draining=False,
            feature_max=level,
            binding=seat.binding,
            gone=tuple(folder(seat.broker, binding) for binding in range(seat.binding)),
        )
        for seat in seats
    }
    return ClusterImage(
        applied=9,
        cluster_id="c",
        voters=VOTERS,
        brokers=MappingProxyType(brokers),
        topics=MappingProxyType({}),
        names_by_id=MappingProxyType({}),
        deleted_topic_ids=frozenset(),
        routing=Routing(offsets_partitions=1),
        feature_level=level,
        next_group=GroupNo(5),
        next_producer_id=3_000,
    )


CONTROLLER = GroupHeld(GroupNo(0), "controller", 9, 4, 9, None, None, None, 5, False)
OFFSETS = GroupHeld(GroupNo(1), "__consumer_offsets-0", 20, 6, 18, 15, 17, 1, 7, False)
SEATS = (bound(0), bound(1), bound(2))


def surveyed(
    record: tuple[Voter, ...] = SEATS,
    image: tuple[Voter, ...] = SEATS,
    level: int = 3,
    joined: tuple[Voter, ...] = (),
    **changes: object,
) -> Survey:
    found = Survey(
        identity=Identity(BrokerId(0), OWN, 7),
        phase=Phase.FORMED,
        record=ClusterRecord("c", record, 1, b"t" * 16, joined),
        begun=None,
        image=imaged(*image, level=level),
        groups=(CONTROLLER, OFFSETS),
        unnamed=(),
        next_group=8,
        sealed=(),
    )
    return found._replace(**changes)


def carried_out(found: Survey) -> tuple[ClusterRecord, ClusterImage, RecoverCluster]:
    """The record and the image after the recovery."""
    recovery = plan(found, EPOCH_ID).recovery
    assert recovery is not None
    command = decode_command(recovery.command)
    assert isinstance(command, RecoverCluster)
    assert found.image is not None
    image, result = transition(found.image, command)
    assert result.error == 0
    assert image is not None
    return recovery.record, image, command


def test_the_others_are_gone_in_the_record_and_in_the_image_alike() -> None:
    record, image, command = carried_out(surveyed())
    assert record.voters == (bound(0), unbound(1, 1), unbound(2, 1))
    assert (record.epoch, record.epoch_id) == (1, EPOCH_ID)
    assert seats_of(image) == record.voters
    assert [broker.gone for broker in image.brokers.values()] == [(), (folder(1),), (folder(2),)]
    assert command.next_group == 8, "no number of a log that is here is given to a new topic"
    assert command.next_producer_id == 3_000 + PRODUCER_IDS_SKIPPED


def test_its_term_is_far_above_any_that_is_here() -> None:
    recovery = plan(surveyed(), EPOCH_ID).recovery
    assert recovery is not None
    assert recovery.term == 7 + TERMS_SKIPPED


def test_a_second_recovery_is_of_the_next_epoch() -> None:
    found = surveyed()
    found = found._replace(record=found.record._replace(epoch=4, epoch_id=b"x" * 16))
    recovery = plan(found, EPOCH_ID).recovery
    assert recovery is not None
    assert (recovery.record.epoch, recovery.record.epoch_id) == (5, EPOCH_ID)


def test_a_seat_that_waits_for_a_folder_already_goes_on_waiting() -> None:
    seats = (bound(0), unbound(1, 2), bound(2))
    record, image, command = carried_out(surveyed(seats, seats))
    assert record.voters == (bound(0), unbound(1, 2), unbound(2, 1)) == seats_of(image)
    assert [seat.broker for seat in command.seats] == [2]


def test_a_record_that_knows_more_than_the_image_counts() -> None:
    """A peer's record told of a folder that the controller's log here has not heard of: it is lost as well."""
    record, image, _ = carried_out(surveyed((bound(0), bound(1, 2), bound(2)), SEATS))
    assert record.voters == (bound(0), unbound(1, 3), unbound(2, 1)) == seats_of(image)
    assert image.brokers[BrokerId(1)].gone == (folder(1), UNKNOWN_FOLDER, folder(1, 2))


def test_an_image_that_knows_more_than_the_record_counts() -> None:
    record, image, _ = carried_out(surveyed(SEATS, (bound(0), bound(1, 1), unbound(2, 1))))
    assert record.voters == (bound(0), unbound(1, 2), unbound(2, 1)) == seats_of(image)


def test_a_broker_that_never_registered_is_gone_with_the_folder_that_the_record_names() -> None:
    record, image, _ = carried_out(surveyed(SEATS, (bound(0), bound(1))))
    assert record.voters == seats_of(image) == (bound(0), unbound(1, 1), unbound(2, 1))
    assert image.brokers[BrokerId(2)].gone == (folder(2),)


def test_a_survivor_that_the_image_does_not_know_yet_is_bound_by_it() -> None:
    """Its folder replaced another one, and its controller's log ends before that."""
    own = Voter(BrokerId(0), OWN, 1)
    record, image, _ = carried_out(surveyed((own, bound(1), bound(2)), (Voter(BrokerId(0), b"q" * 16), *SEATS[1:])))
    assert record.voters == seats_of(image) == (own, unbound(1, 1), unbound(2, 1))
    assert image.brokers[BrokerId(0)].gone == (b"q" * 16,)


def test_brokers_that_joined_are_gone_too_whoever_knows_of_them() -> None:
    """Of 7 both know, of 8 the record only, of 9 the image only."""
    found = surveyed(SEATS, (*SEATS, bound(7), bound(9, 1)))
    found = found._replace(record=found.record._replace(joined=(bound(7), bound(8))))
    record, image, _ = carried_out(found)
    assert record.voters == (bound(0), unbound(1, 1), unbound(2, 1))
    assert record.joined == (unbound(7, 1), unbound(8, 1), unbound(9, 2))
    assert seats_of(image) == record.seats


@given(st.data())
def test_whatever_record_and_image_know_they_agree_afterwards_and_nobody_lost_is_bound(data: st.DataObject) -> None:
    def state(broker: int) -> st.SearchStrategy[Voter]:
        return st.integers(0, 4).flatmap(
            lambda binding: st.sampled_from([bound(broker, binding), *([unbound(broker, binding)] if binding else [])])
        )

    record = (bound(0), data.draw(state(1)), data.draw(state(2)))
    image = (bound(0), *(data.draw(state(broker)) for broker in (1, 2) if data.draw(st.booleans())))
    after, cluster, _ = carried_out(surveyed(record, image))
    assert seats_of(cluster) == after.voters
    for before, now in zip(record, after.voters, strict=True):
        assert now == before or now.is_later(before), "states of a seat only follow each other"
    for seat in image[1:]:
        assert cluster.brokers[seat.broker].binding >= seat.binding
    for broker in (1, 2):
        told = cluster.brokers[BrokerId(broker)]
        assert not told.bound
        assert len(told.gone) == told.binding
        assert {seat.replica_uuid for seat in (record[broker], *image) if seat.broker == broker} - {UNBOUND} <= {
            *told.gone
        }


def test_from_a_folder_that_was_left_behind_the_next_epoch_is_above_the_one_that_left_it() -> None:
    found = surveyed(phase=Phase.LEFT_BEHIND)
    found = found._replace(record=found.record._replace(epoch=3, epoch_id=b"x" * 16))
    record, _, _ = carried_out(found)
    assert (record.epoch, record.epoch_id) == (4, EPOCH_ID)


def test_what_has_begun_is_completed_as_it_was_planned() -> None:
    begun = plan(surveyed(), EPOCH_ID).recovery
    again = plan(surveyed(begun=begun, level=1, sealed=(GroupNo(3),)), b"another id......")
    assert again.recovery == begun
    assert plan(surveyed(begun=begun)._replace(image=None), EPOCH_ID).refusals, "it would forget the topics' groups"


def test_a_folder_that_joined_will_do_if_it_has_offsets_partitions() -> None:
    """ADR 45: partitions were moved to it, and those that formed the cluster are lost."""
    own = Identity(BrokerId(7), folder(7), 1)
    record, image, _ = carried_out(surveyed(image=(*SEATS, bound(7)), joined=(bound(7),), identity=own))
    assert record.voters == (unbound(0, 1), unbound(1, 1), unbound(2, 1))
    assert record.joined == (bound(7),)
    assert {broker for broker, known in image.brokers.items() if known.bound} == {7}


def test_a_cluster_of_one_that_others_joined_is_recovered_without_them() -> None:
    record, image, _ = carried_out(surveyed(record=(bound(0),), image=(bound(0), bound(7)), joined=(bound(7),)))
    assert (record.voters, record.joined) == ((bound(0),), (unbound(7, 1),))
    assert not image.brokers[BrokerId(7)].bound


REFUSED = {
    "cluster has one replica": {"record": (bound(0),)},
    "does not name this data folder": {"identity": Identity(BrokerId(0), b"?" * 16, 7)},
    "feature level 2": {"level": 2},
    "has no offsets partition: use a folder that has some": {
        "identity": Identity(BrokerId(7), folder(7), 1),
        "joined": (bound(7),),
        "groups": (CONTROLLER, OFFSETS._replace(trouble=ELSEWHERE)),
    },
    "was declared gone and replaced": {"image": (bound(0, 1)._replace(replica_uuid=b"w" * 16), *SEATS[1:])},
    "an install of the Raft groups 3, 4 was interrupted": {"sealed": (GroupNo(3), GroupNo(4))},
    "near their end": {"groups": (CONTROLLER, OFFSETS._replace(term=TERM_MAX - 2 * TERMS_SKIPPED + 1))},
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_recovered_is_refused_in_words(said: str) -> None:
    planned = plan(surveyed(**REFUSED[said]), EPOCH_ID)
    assert planned.recovery is None
    assert said in " ".join(planned.refusals)


def test_a_folder_without_a_readable_controller_is_refused_with_the_reason() -> None:
    damaged = CONTROLLER._replace(trouble="checkpoint 7 is damaged")
    told = refusals_of(surveyed(groups=(damaged, OFFSETS))._replace(image=None))
    assert len(told) == 1
    assert told[0].startswith("the controller's group has no state here (checkpoint 7 is damaged)")


def test_one_term_less_is_taken() -> None:
    groups = (CONTROLLER, OFFSETS._replace(term=TERM_MAX - 2 * TERMS_SKIPPED))
    assert plan(surveyed(groups=groups), EPOCH_ID).recovery is not None


def test_producer_ids_near_their_end_are_told() -> None:
    import dataclasses

    found = surveyed()
    assert found.image is not None
    image = dataclasses.replace(found.image, next_producer_id=2**63 - PRODUCER_IDS_SKIPPED)
    assert "producer ids" in " ".join(plan(found._replace(image=image), EPOCH_ID).refusals)


def test_no_folder_is_known_by_zeros() -> None:
    assert UNKNOWN_FOLDER == EMPTY_ID == UNBOUND
