"""What a recovery from a folder writes, and why it must not be done; pure.

Problem: the cluster must go on from one folder so that no lost one can ever take part again or be taken for a new one,
and that nothing which the lost replicas may have given out is given out twice. Mechanism, from a `Survey`:

* every other seat is unbound, with its present folder among those that are gone, in the newest state that record or
  image know of it; those of brokers that joined too, since their log of the controller may be ahead of this one;
* the cluster record gets the next epoch, with an id that is drawn for it; from a folder that was left behind that is
  the one after the epoch that left it, which is taken back with it;
* each group gets a configuration with this replica as the only voter, in a term far above any that was seen here;
* the controller's log gets one command, `RecoverCluster`, which makes the image agree with the record, and skips group
  numbers and producer ids.

What this does not do: ask whether the others are really gone, which no folder knows.
"""

from typing import NamedTuple

from muster_coordinator.controller.codec import encode_command
from muster_coordinator.controller.commands import RecoverCluster, RecoveredSeat
from muster_coordinator.controller.image import EMPTY_ID, MEMBERS_LEVEL, OFFSETS_TOPIC, ClusterImage
from muster_coordinator.controller.transitions import PRODUCER_ID_MAX, transition
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import PRODUCER_ID_BLOCK
from muster_coordinator.raft.core import TERM_MAX
from muster_coordinator.replica.bootstrap.identity import UNBOUND, ClusterRecord, Voter
from muster_coordinator.replica.bootstrap.recovery_file import RecoveryFile
from muster_coordinator.replica.controller.seats import seats_of
from muster_coordinator.replica.recovery.limits import PRODUCER_IDS_SKIPPED, TERMS_SKIPPED
from muster_coordinator.replica.recovery.survey import ELSEWHERE, Survey

UNKNOWN_FOLDER = EMPTY_ID
"""Stands for a folder that was bound and replaced without this replica having heard of it; nobody registers with it."""


class Plan(NamedTuple):
    """What to write; with `refusals`, nothing."""

    refusals: tuple[str, ...]
    """Why the cluster cannot be recovered from this folder, each a sentence."""
    recovery: RecoveryFile | None
    """None if there are refusals."""


def plan(found: Survey, epoch_id: bytes) -> Plan:
    """`epoch_id`: 16 random bytes. A recovery that has begun is planned already."""
    refusals, image = refusals_of(found), found.image
    if refusals or image is None:
        return Plan(refusals, None)
    if found.begun is not None:
        return Plan((), found.begun)
    command = _command(found, image)
    _, result = transition(image, command)
    if result.error:
        return Plan((f"the controller's state does not allow it: {result.message}",), None)
    return Plan((), RecoveryFile(_term(found), encode_command(command), _record(found, image, epoch_id)))


def refusals_of(found: Survey) -> tuple[str, ...]:
    """Why nothing can be recovered from this folder."""
    record, own = found.record, found.identity
    said = []
    if record.uuid_of(own.broker) != own.replica_uuid:
        said.append(f"the stored cluster record does not name this data folder for broker {own.broker}")
    of_offsets = [group for group in found.groups if group.partition.startswith(f"{OFFSETS_TOPIC}-")]
    if own.broker not in record.brokers() and all(group.trouble == ELSEWHERE for group in of_offsets):
        said.append(f"broker {own.broker} joined later, and has no offsets partition: use a folder that has some")
    if len(record.voters) == 1 and not record.has_others(own.broker):
        said.append("the cluster has one replica: no majority can be lost; see muster accept-losses")
    image = found.image
    if image is None:
        why = found.groups[0].trouble or "its log is empty"
        said.append(f"the controller's group has no state here ({why}): use another folder, or a backup of this one")
    if image is None or found.begun is not None:
        return tuple(said)
    if found.sealed:
        groups = ", ".join(map(str, found.sealed))
        said.append(f"an install of the Raft groups {groups} was interrupted: start the replica once, and stop it")
    if image.feature_level < MEMBERS_LEVEL:
        said.append(
            f"the cluster has feature level {image.feature_level}, and only from {MEMBERS_LEVEL} on new folders can be "
            "told from those that were lost"
        )
    known = image.brokers.get(own.broker)
    if known is not None and own.replica_uuid in known.gone:
        said.append(f"this data folder of broker {own.broker} was declared gone and replaced")
    if _term(found) + TERMS_SKIPPED > TERM_MAX:
        said.append(f"the terms of the Raft groups are near their end ({TERM_MAX})")
    if image.next_producer_id + PRODUCER_IDS_SKIPPED > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK:
        said.append("the producer ids are near their end")
    return tuple(said)


def _term(found: Survey) -> int:
    return max(max(group.term, group.last_term) for group in found.groups) + TERMS_SKIPPED


def _record(found: Survey, image: ClusterImage, epoch_id: bytes) -> ClusterRecord:
    record, now = found.record, {seat.broker: seat for seat in _seats_after(found, image)}
    voters = tuple(now.pop(broker) for broker in record.brokers())
    joined = tuple(now[broker] for broker in sorted(now))
    return record._replace(voters=voters, joined=joined, epoch=record.epoch + 1, epoch_id=epoch_id)


def _seats(found: Survey, image: ClusterImage) -> tuple[Voter, ...]:
    """Of the record, and those that only the image knows: of brokers that joined."""
    known = {seat.broker for seat in found.record.seats}
    return (*found.record.seats, *(seat for seat in seats_of(image) if seat.broker not in known))


def _seats_after(found: Survey, image: ClusterImage) -> tuple[Voter, ...]:
    own = found.identity.broker
    return tuple(
        seat if seat.broker == own else _unbound(seat, _seat_in(image, seat.broker)) for seat in _seats(found, image)
    )


def _seat_in(image: ClusterImage, broker: BrokerId) -> Voter:
    """The seat as the image tells it: as a folder that nobody knows, where it has never registered."""
    told = {seat.broker: seat for seat in seats_of(image)}
    return told.get(broker, Voter(broker, UNBOUND))


def _unbound(recorded: Voter, imaged: Voter) -> Voter:
    """The seat after its folder is gone, from the newest state that is known of it."""
    newest = imaged if imaged.is_later(recorded) else recorded
    if newest.replica_uuid == UNBOUND:
        return newest
    return Voter(newest.broker, UNBOUND, newest.binding + 1)


def _command(found: Survey, image: ClusterImage) -> RecoverCluster:
    seats = []
    known = {*image.brokers, *image.unregistered}
    for seat, wanted in zip(_seats(found, image), _seats_after(found, image), strict=True):
        imaged = _seat_in(image, seat.broker)
        passing = range(imaged.binding, wanted.binding)
        gone = tuple(_folder_of(binding, seat, imaged) for binding in passing)
        if gone or wanted.replica_uuid != imaged.replica_uuid or seat.broker not in known:
            seats.append(RecoveredSeat(broker=seat.broker, gone=gone, bound=wanted.replica_uuid))
    return RecoverCluster(
        seats=tuple(seats),
        next_group=found.next_group,
        next_producer_id=image.next_producer_id + PRODUCER_IDS_SKIPPED,
    )


def _folder_of(binding: int, *known: Voter) -> bytes:
    for seat in known:
        if seat.binding == binding and seat.replica_uuid != UNBOUND:
            return seat.replica_uuid
    return UNKNOWN_FOLDER
