"""`POST /v1/replicas/{id}/replace`: declaring a lost replica's data folder gone for good (ADR 38).

Problem: the folder's votes and acknowledgements are given up, so this must not be done to a replica that lives, nor
where the others are no majority without it: then its group would need a vote of what is gone. Mechanism: the
controller's leader decides. After a round has shown that it leads and that its image is current, it judges and proposes
in one turn: what it sees (links, leaders, its own groups) is in no log, and `transition` checks the rest again.

A leader that is new itself may not know yet who the members of a group are, and then refuses. What counts are members,
not brokers: a replica whose new folder a group has not taken in yet has no vote in it, though it is connected. A group
that another replica leads is judged by its leader: a leader without a majority of living voters steps down within an
election timeout, so one that is known, linked and not the lost replica has a majority without it. What it does not do:
bind the new folder (its registration does), or change the members of any group.
"""

import json
from collections.abc import Callable, Collection, Sequence

from aiohttp import web

from muster_coordinator.admin.calls import proposed
from muster_coordinator.admin.controller_leader import NOT_CURRENT, led_here
from muster_coordinator.admin.refusals import NOT_FORMED, Refusal, asked_by, refused
from muster_coordinator.admin.routes import Route
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.controller.commands import Command, CommandResult, RegisterBroker, ReplaceReplica
from muster_coordinator.controller.image import Broker, ClusterImage, Partition, never_registered
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo, MemberNo, broker_of
from muster_coordinator.raft.quorum import majority
from muster_coordinator.replica.multiraft.status import GroupStatus
from muster_coordinator.security.roles import Role

UUID_BYTES = 16
NAMED_MAX = 10
"""Topics, and partitions of each, that a refusal names."""
COMMANDS_MAX = 2
"""Proposals of one request: that the folder was the broker's, if that was never registered, and that it is gone."""


UNKNOWN_FATE = Refusal(
    503, "not_known", "it is not known whether the folder was declared gone; ask again, a repetition changes no more"
)


def gone_of(body: bytes) -> bytes | None:
    """The uuid in the body of a request, `{"gone": "<32 hex digits>"}`; None: it names none. Raises ValueError with a
    message for the caller."""
    asked: object = json.loads(body) if body.strip() else {}
    if not isinstance(asked, dict) or not asked.keys() <= {"gone"}:
        raise ValueError("expected an object with gone, the uuid of the data folder that is gone for good")
    uuid = asked.get("gone")
    if uuid is None:
        return None
    if type(uuid) is not str or len(uuid) != 2 * UUID_BYTES:
        raise ValueError("gone is the uuid of a data folder, 32 hex digits")
    gone = bytes.fromhex(uuid)
    if len(gone) != UUID_BYTES:  # blanks between the digits
        raise ValueError("gone is the uuid of a data folder, 32 hex digits")
    return gone


def seat_of(replica: AdminReplica, image: ClusterImage, broker: BrokerId) -> Broker | None:
    """What is known of a broker. One that was lost before it had ever registered has only the data folder that the
    cluster was formed with, and is otherwise as it will be registered for it. None: it has no seat."""
    known = image.brokers.get(broker)
    recorded = replica.recorded_folder(broker)
    if known is not None or recorded is None:
        return known
    return never_registered(broker, recorded, image.feature_level)


def judge_folder(image: ClusterImage, broker: BrokerId, seat: Broker | None, gone: bytes | None) -> Refusal | None:
    """None: by the image, this folder of the `seat` may be declared gone for good, or was before."""
    if seat is None:
        return Refusal(404, "no_such_replica", f"no replica of this cluster has the id {broker}")
    early = level_refusal(image, ReplaceReplica(broker=broker, gone_uuid=gone or b""))
    if early is not None:
        return Refusal(409, "feature_level", early.message)
    if gone is None:
        return Refusal(400, "folder_not_named", f"name the data folder that is gone for good; {_bound(seat)}")
    if gone in seat.gone:
        return None
    if gone != seat.replica_uuid or not seat.bound:
        return Refusal(409, "another_folder", f"data folder {gone.hex()} is not bound to it: {_bound(seat)}")
    unbound = [other.broker for other in image.brokers.values() if not other.bound]
    if unbound:
        said = f"another replacement is not finished: broker {unbound[0]} waits for a new data folder"
        return Refusal(409, "not_finished", said)
    return None


def _bound(broker: Broker) -> str:
    if broker.bound:
        return f"broker {broker.broker} is bound to {broker.replica_uuid.hex()}"
    return f"broker {broker.broker} waits for a new data folder"


def judge_group(
    group: GroupStatus, broker: BrokerId, here: BrokerId, reaches: Callable[[MemberNo], bool]
) -> Refusal | None:
    """None: the group has a majority without `broker`, of both halves while its members change, as far as `here` sees
    it. `reaches(member)`: its broker is connected, and this member is its present folder."""
    if not group.config.voters:
        return _unknown_members(group.group)
    voters = {MemberNo(member) for member in (*group.config.voters, *group.config.outgoing)}
    if broker not in map(broker_of, voters):
        return None
    others = {voter for voter in voters if broker_of(voter) != broker and reaches(voter)}
    if group.suspended:
        others = {voter for voter in others if broker_of(voter) != here}
    if group.role == "leader":
        others = {voter for voter in others if broker_of(voter) == here or group.match.get(broker_of(voter), 0) > 0}
    brokers = sorted({broker_of(voter) for voter in others})
    for half in filter(None, (group.config.voters, group.config.outgoing)):
        needed = majority(len(half))
        if len(others.intersection(half)) < needed:
            said = (
                f"Raft group {group.group} would need a vote of what is gone: of its voters {list(group.voters)} only "
                f"{brokers} are connected, not suspended, and have taken their data folders in; {needed} are needed"
            )
            return Refusal(409, "no_majority", said)
    if group.leader not in brokers:
        said = f"Raft group {group.group} has no leader among {brokers}; ask again when it has one"
        return Refusal(503, "no_leader", said)
    return None


def judge_elsewhere(
    partition: Partition, broker: BrokerId, leader: BrokerId | None, connected: Collection[BrokerId]
) -> Refusal | None:
    """As `judge_group`, of a group that is on other brokers only, so that its members cannot be seen: where it is
    wanted and where it came from count, each of them, and its `leader` as gossip has it."""
    if broker not in partition.holders:
        return None
    move = partition.move
    for half in filter(None, (partition.voters, () if move is None else move.origin)):
        others = sorted({*half} & {*connected} - {broker})
        if len(others) < majority(len(half)):
            said = (
                f"Raft group {partition.group} would need a vote of what is gone: of its replicas {list(half)} only "
                f"{others} are connected; {majority(len(half))} are needed"
            )
            return Refusal(409, "no_majority", said)
    if leader is None or leader == broker or leader not in connected:
        said = f"Raft group {partition.group} has no leader among {sorted(connected)}; ask again when it has one"
        return Refusal(503, "no_leader", said)
    return None


def judge_only_replicas(image: ClusterImage, broker: BrokerId) -> Refusal | None:
    """None: no partition has its only replica on the broker. Nobody else has a record of such a one, and its group can
    take no new member in without the vote of the folder that is gone: it ends with it, and somebody has to say so."""
    found = {
        topic.name: [
            number
            for number, partition in enumerate(topic.partitions)
            if partition.voters == (broker,) and not partition.moves
        ]
        for topic in image.topics.values()
    }
    topics = sorted(name for name in found if found[name])
    if not topics:
        return None
    named = ", ".join(f"{name} (partitions {_some(found[name])})" for name in topics[:NAMED_MAX])
    more = f" and {len(topics) - NAMED_MAX} topics more" if len(topics) > NAMED_MAX else ""
    said = (
        f"broker {broker} has the only replica of {named}{more}: their records are gone with its data folder. Delete "
        "these topics and ask again, or bring the folder back"
    )
    return Refusal(409, "only_replica", said)


def _some(numbers: Sequence[int]) -> str:
    told = ", ".join(map(str, numbers[:NAMED_MAX]))
    return told if len(numbers) <= NAMED_MAX else f"{told} and {len(numbers) - NAMED_MAX} more"


def _unknown_members(group: GroupNo) -> Refusal:
    said = f"this replica does not hold Raft group {group} yet, or does not know its members; ask again"
    return Refusal(503, "not_known", said)


def _left_over(group: GroupStatus, here: BrokerId) -> bool:
    """Is what lies here of the group no member of it? Such a copy is told nothing, not even who leads: a partition may
    be on its way back to this broker, and the move may wait for the very replacement that is asked for."""
    config = group.config
    members = (*config.voters, *config.outgoing, *config.learners)
    return bool(config.voters) and here not in (broker_of(MemberNo(member)) for member in members)


def judge(replica: AdminReplica, broker: BrokerId, gone: bytes | None) -> Refusal | None:
    """None: by all that the controller's leader sees in this turn, the folder may be declared gone for good. Looks at
    all Raft groups; there are at most `RAFT_GROUPS_MAX`, and nobody asks this often."""
    image, linked = replica.image(), replica.linked
    if image is None:
        return NOT_FORMED
    seat = seat_of(replica, image, broker)
    refusal = judge_folder(image, broker, seat, gone)
    if refusal is not None or seat is None or gone in seat.gone:
        return refusal
    if linked(broker):
        return Refusal(409, "connected", f"broker {broker} is connected, so it is not lost: stop it first")
    alone = judge_only_replicas(image, broker)
    if alone is not None:
        return alone
    held = {status.group: status for status in replica.local_groups() if not _left_over(status, replica.broker)}
    places = {place.group: place for topic in image.topics.values() for place in topic.partitions}
    left_over = {status.group for status in replica.local_groups() if _left_over(status, replica.broker)}
    here = {number for number, place in places.items() if replica.broker in place.holders} - left_over
    missing = sorted({CONTROLLER_GROUP, *here} - held.keys())
    if missing:
        return _unknown_members(missing[0])
    present = {known.member for known in image.brokers.values() if known.bound and linked(known.broker)}
    connected = {replica.broker, *map(broker_of, present)} - {broker}
    for number in sorted(places.keys() - here):
        refusal = judge_elsewhere(places[number], broker, replica.leadership(number).leader, connected)
        if refusal is not None:
            return refusal
    judged = (judge_group(group, broker, replica.broker, present.__contains__) for group in held.values())
    return next((refusal for refusal in judged if refusal is not None), None)


def command_for(replica: AdminReplica, broker: BrokerId, gone: bytes) -> Command:
    """What the leader that has judged proposes now: that the folder is gone, or first that it was the broker's."""
    image = replica.image()
    seat = None if image is None else seat_of(replica, image, broker)
    if image is None or seat is None or broker in image.brokers:
        return ReplaceReplica(broker=broker, gone_uuid=gone)
    return RegisterBroker(
        broker=broker,
        replica_uuid=seat.replica_uuid,
        incarnation=seat.incarnation,
        endpoints=seat.endpoints,
        admin=seat.admin,
        feature_max=seat.feature_max,
        rack=seat.rack,
    )


class Replacement:
    """Handler over one replica."""

    def __init__(self, replica: AdminReplica) -> None:
        self._replica = replica

    def routes(self) -> tuple[Route, ...]:
        return (Route("POST", "/v1/replicas/{broker:[0-9]{1,9}}/replace", Role.ADMIN, self.replace),)

    async def replace(self, request: web.Request) -> web.StreamResponse:
        """Answers when it is committed that the folder is gone for good."""
        broker = BrokerId(int(request.match_info["broker"]))
        gone = await asked_by(request, gone_of)
        if isinstance(gone, Refusal):
            return refused(gone)
        for _ in range(COMMANDS_MAX):
            # From here to the proposal it is one turn: whom it sees now is whom it proposes with.
            refusal = await led_here(self._replica) or judge(self._replica, broker, gone)
            if refusal is not None or gone is None:  # a request that names no folder is refused with the folder's name
                return refused(refusal or NOT_CURRENT)
            command = command_for(self._replica, broker, gone)
            result = await proposed(self._replica, command)
            if result.error != Code.NONE:
                return refused(_refusal_of(result))
            if isinstance(command, ReplaceReplica):
                return web.json_response({"broker": broker, "gone": gone.hex(), "binding": result.value})
        return refused(NOT_CURRENT)


def _refusal_of(result: CommandResult) -> Refusal:
    if result.error == Code.NOT_CONTROLLER:
        return Refusal(
            503, "no_leader", "leadership of the controller's group was lost; nothing was changed, ask again"
        )
    if result.error == Code.REQUEST_TIMED_OUT:
        return UNKNOWN_FATE
    return Refusal(409, "refused", result.message)
