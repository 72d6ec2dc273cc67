"""`/v1/replication-factor`: how many replicas every Raft group has, and is to have (ADR 48).

Problem: to change that takes as long as copying the data, so it cannot be one request; and what cannot be done is
better refused at once. Mechanism: the controller's leader judges by an image that a round has shown to be current, and
proposes in the same turn. The answer says that the number is wanted; the balancer carries it out. `GET` says what is
left to do, why it does not get on, and whether all of it is done: also the members of the controller's group, as its
own log has them. A dry run answers with the moves that would be planned, and changes nothing.

What this does not do: choose brokers (`controller.resizing`), or wait.
"""

import json
from typing import NamedTuple

from aiohttp import web

from muster_coordinator.admin.balancing import PLANNED_MAX, move_document
from muster_coordinator.admin.calls import next_turn, proposed
from muster_coordinator.admin.controller_leader import elsewhere, led_here
from muster_coordinator.admin.refusals import NOT_FORMED, Refusal, asked_by, refused
from muster_coordinator.admin.routes import Route
from muster_coordinator.admin.status import Json
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.controller.commands import SetReplicationFactor
from muster_coordinator.controller.image import OFFSETS_TOPIC, ClusterImage
from muster_coordinator.controller.misfit import MisfitError
from muster_coordinator.controller.replication import kept, remaining, replicas_of, set_replication_factor
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.security.roles import Role

NAMED_MAX = 100
"""Topics that keep more replicas, as an answer names them."""
_OUTCOMES = {
    Code.NOT_CONTROLLER: Refusal(503, "no_leader", "leadership of the controller's group was lost; ask again"),
    Code.REQUEST_TIMED_OUT: Refusal(503, "not_known", "it is not known whether that was committed; ask again"),
}


class Asked(NamedTuple):
    """What a request asks for."""

    factor: int
    topics: tuple[str, ...]
    every_topic: bool
    dry_run: bool


def asked_of(body: bytes) -> Asked:
    """The request `{"factor": 3}`, with `topics`, `all` and `dry_run` if it has them. Raises ValueError with a message
    for the caller."""
    asked: object = json.loads(body) if body.strip() else None
    if not isinstance(asked, dict) or not {"factor"} <= asked.keys() <= {"factor", "topics", "all", "dry_run"}:
        raise ValueError("expected an object with factor, and optionally topics, all and dry_run")
    factor, topics = asked["factor"], asked.get("topics", [])
    if type(factor) is not int or not -(2**31) <= factor < 2**31:
        raise ValueError("factor is a number of replicas")
    if not isinstance(topics, list) or len(topics) > RAFT_GROUPS_MAX or any(type(one) is not str for one in topics):
        raise ValueError("topics is a list of names")
    every, dry_run = asked.get("all", False), asked.get("dry_run", False)
    if type(every) is not bool or type(dry_run) is not bool:
        raise ValueError("all and dry_run are true or false")
    if every and topics:
        raise ValueError("topics and all exclude each other")
    return Asked(factor, tuple(topics), every, dry_run)


def command_of(image: ClusterImage, asked: Asked) -> SetReplicationFactor | Refusal:
    """What is to be proposed; or why it is not, by all that the controller's leader sees in this turn."""
    unknown = [name for name in asked.topics if name not in image.topics]
    if unknown:
        return Refusal(404, "no_such_topic", f"there is no topic {unknown[0]!r}")
    topics = tuple(image.topics[name].topic_id for name in dict.fromkeys(asked.topics))
    command = SetReplicationFactor(factor=asked.factor, topics=topics, every_topic=asked.every_topic)
    early = level_refusal(image, command)
    if early is not None:
        return Refusal(409, "feature_level", early.message)
    try:
        set_replication_factor(image, command)
    except MisfitError as misfit:
        return Refusal(409, "refused", misfit.result.message)
    return command


class Replication:
    """Handlers over one replica."""

    def __init__(self, replica: AdminReplica) -> None:
        self._replica = replica

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("GET", "/v1/replication-factor", Role.VIEWER, self.show),
            Route("POST", "/v1/replication-factor", Role.ADMIN, self.set),
        )

    async def show(self, request: web.Request) -> web.StreamResponse:
        """What is left to do, from the controller's leader."""
        misdirected, image = elsewhere(self._replica), self._replica.image()
        if misdirected is not None or image is None:
            return refused(misdirected or NOT_FORMED)
        left, group = remaining(image), self._replica.group_status(CONTROLLER_GROUP)
        votes = sorted(group.voters) if group is not None else []
        status = self._replica.balancer_status()
        return web.json_response(
            {
                "replication_factor": image.replication_factor or replicas_of(image.topics[OFFSETS_TOPIC]),
                "partitions_to_go": left.partitions,
                "moving": left.moving,
                "controller_voters": votes,
                "controller_voters_to_be": left.controller or len(image.voters),
                "done": left.none and votes == sorted(image.voters),
                "state": str(status.state),
                "reason": status.reason,
            }
        )

    async def set(self, request: web.Request) -> web.StreamResponse:
        """Answers when it is committed that this is wanted, or with the plan of a dry run."""
        asked = await asked_by(request, asked_of)
        if isinstance(asked, Refusal):
            return refused(asked)
        # From here to the proposal it is one turn: what it judges by is what it proposes with.
        misdirected = await led_here(self._replica)
        image = self._replica.image()
        if misdirected is not None or image is None:
            return refused(misdirected or NOT_FORMED)
        command = command_of(image, asked)
        if isinstance(command, Refusal):
            return refused(command)
        keep = [] if command.topics or command.every_topic else list(kept(image, command.factor))
        answer: Json = {"factor": command.factor, "kept": keep[:NAMED_MAX], "kept_more": len(keep) > NAMED_MAX}
        if asked.dry_run:
            return web.json_response(answer | await self._plan(set_replication_factor(image, command)))
        result = await proposed(self._replica, command)
        if result.error != Code.NONE:
            return refused(_OUTCOMES.get(Code(result.error)) or Refusal(409, "refused", result.message))
        return web.json_response(answer)

    async def _plan(self, wanted: ClusterImage) -> Json:
        """The first moves that would be made for this image, not to level it, and the controller's voters to be."""
        planner = self._replica.balancer_plan(wanted, level=False)
        moves: list[Json] = []
        for move in planner:
            if len(moves) == PLANNED_MAX:
                break
            moves.append(move_document(move))
            await next_turn()
        more = len(moves) == PLANNED_MAX and next(planner, None) is not None
        return {
            "planned": moves,
            "more": more,
            "stuck": planner.stuck,
            "controller_voters_to_be": wanted.controller_voters_wanted or len(wanted.voters),
        }
