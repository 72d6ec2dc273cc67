"""`/v1/balancer` and `POST /v1/replicas/{id}/decommission`: what is moved by itself, and how it is held or asked for
(ADR 47).

The plan is that of the controller's leader, since only that one sees who is connected to it; another replica answers
421. A pause and a decommission are commands of the controller's log, which any replica passes on; a decommission is
judged by an image that was shown to be current, and again when it is applied. What this does not do: move anything
(`replica.maintenance.balancer` does), or say when a broker is empty: `/v1/status` has what each one holds.
"""

import json
from functools import partial

from aiohttp import web

from muster_coordinator.admin.calls import answer_of, next_turn, proposed
from muster_coordinator.admin.controller_leader import elsewhere
from muster_coordinator.admin.refusals import NOT_FORMED, Refusal, asked_by, refused
from muster_coordinator.admin.routes import Route
from muster_coordinator.admin.status import Json
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.controller.balancing import PlannedMove
from muster_coordinator.controller.commands import CommandResult, DecommissionBroker, PauseBalancer
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.maintenance.balancer import Weighed
from muster_coordinator.security.roles import Role

PLANNED_MAX = 100
"""Moves of a plan that are shown; each is a turn of the loop."""
NOT_CURRENT = Refusal(503, "not_known", "this replica cannot show now that its image is current; ask again")
UNKNOWN_FATE = Refusal(503, "not_known", "it is not known whether that was committed; ask again, a repetition is safe")
NO_LEADER = Refusal(503, "no_leader", "no controller leader is known; nothing was changed, ask again")


def flag_of(body: bytes, name: str) -> bool:
    """The value of `{"<name>": true}`. Raises ValueError with a message for the caller."""
    asked: object = json.loads(body) if body.strip() else None
    if not isinstance(asked, dict) or asked.keys() != {name} or type(asked[name]) is not bool:
        raise ValueError(f"expected an object with {name}, true or false")
    return bool(asked[name])


def move_document(move: PlannedMove) -> Json:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "replicas": list(move.voters),
        "copies": move.copies,
        "reason": move.reason,
    }


def weights_document(weighed: Weighed) -> Json:
    """What is known of weights, and why they move something or nothing; null: it is not known."""
    names = ("bytes", "load")
    decisions = {
        name: {"decision": str(one.verdict), "reason": one.reason}
        for name, one in zip(names, weighed.decisions, strict=False)
    }
    brokers = [
        {
            "broker": one.broker,
            "replicas": one.replicas,
            "preferred": one.preferred,
            "bytes": one.size_bytes,
            "led_bytes_per_second": one.led_rate,
        }
        for one in weighed.held
    ]
    return {**dict.fromkeys(names), **decisions, "brokers": brokers, "exchanges": weighed.exchanges}


class Balancing:
    """Handlers over one replica."""

    def __init__(self, replica: AdminReplica) -> None:
        self._replica = replica

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("GET", "/v1/balancer", Role.VIEWER, self.show),
            Route("POST", "/v1/balancer", Role.OPERATOR, self.pause),
            Route("POST", "/v1/replicas/{broker:[0-9]{1,9}}/decommission", Role.OPERATOR, self.decommission),
        )

    async def show(self, request: web.Request) -> web.StreamResponse:
        """What the balancer does, and the first moves of what it would do if it had nothing to wait for."""
        misdirected, image = elsewhere(self._replica), self._replica.image()
        if misdirected is not None or image is None:
            return refused(misdirected or NOT_FORMED)
        planner = self._replica.balancer_plan(image)
        moves: list[Json] = []
        for move in planner:
            if len(moves) == PLANNED_MAX:
                break
            moves.append(move_document(move))
            await next_turn()
        status = self._replica.balancer_status()
        return web.json_response(
            {
                "state": str(status.state),
                "reason": status.reason,
                "paused": image.balancer_paused,
                "moving": status.moving,
                "planned": moves,
                "more": len(moves) == PLANNED_MAX and next(planner, None) is not None,
                "stuck": planner.stuck,
                "weights": weights_document(self._replica.balancer_weighed()),
            }
        )

    async def pause(self, request: web.Request) -> web.StreamResponse:
        """Answers when it is committed that the balancer is paused, or goes on."""
        paused = await asked_by(request, partial(flag_of, name="paused"))
        if isinstance(paused, Refusal):
            return refused(paused)
        refusal = refusal_of(await proposed(self._replica, PauseBalancer(paused=paused)))
        return web.json_response({"paused": paused}) if refusal is None else refused(refusal)

    async def decommission(self, request: web.Request) -> web.StreamResponse:
        """Answers when it is committed that the broker is to leave, or to stay. It is not empty by then."""
        broker = BrokerId(int(request.match_info["broker"]))
        departing = await asked_by(request, partial(flag_of, name="departing"))
        if isinstance(departing, Refusal):
            return refused(departing)
        if self._replica.image() is None:
            return refused(NOT_FORMED)
        if not await answer_of(self._replica.when_topics_current):
            return refused(NOT_CURRENT)
        image = self._replica.image()
        known = None if image is None else image.brokers.get(broker)
        if known is None:
            return refused(Refusal(404, "no_such_replica", f"no replica of this cluster has the id {broker}"))
        command = DecommissionBroker(broker=broker, replica_uuid=known.replica_uuid, departing=departing)
        refusal = refusal_of(await proposed(self._replica, command))
        return web.json_response({"broker": broker, "departing": departing}) if refusal is None else refused(refusal)


def refusal_of(result: CommandResult) -> Refusal | None:
    match result.error:
        case Code.NONE:
            return None
        case Code.NOT_CONTROLLER:
            return NO_LEADER
        case Code.REQUEST_TIMED_OUT:
            return UNKNOWN_FATE
        case Code.UNSUPPORTED_VERSION:
            return Refusal(409, "feature_level", result.message)
        case _:
            return Refusal(409, "refused", result.message)
