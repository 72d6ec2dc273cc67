"""`POST /v1/controller/voters`: who is to vote in the controller's group (ADR 45).

Problem: with the wrong voters the cluster stands still at the next failure. Mechanism: the controller's leader decides.
After a round has shown that it leads and that its image is current, it judges and proposes in one turn: the wanted
voters must be registered with a folder (`controller.voters` says the same at apply), and a majority of them must be
connected now. The answer says that the change is wanted: it is carried out when all that are to vote have caught up,
and may be replaced by another wish until then. What it does not do: wait for it; `groups_to_change` in `/v1/status` and
DescribeQuorum tell.
"""

import json
from collections.abc import Mapping

from aiohttp import web

from muster_coordinator.admin.calls import proposed
from muster_coordinator.admin.controller_leader import led_here
from muster_coordinator.admin.refusals import NOT_FORMED, Refusal, asked_by, refused
from muster_coordinator.admin.routes import Route
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.controller.commands import SetControllerVoters
from muster_coordinator.controller.misfit import MisfitError
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.controller.voters import set_voters
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import BROKERS_MAX
from muster_coordinator.raft.quorum import majority
from muster_coordinator.security.roles import Role

_OUTCOMES: Mapping[int, Refusal] = {
    Code.NOT_CONTROLLER: Refusal(503, "no_leader", "leadership of the controller's group was lost; ask again"),
    Code.REQUEST_TIMED_OUT: Refusal(503, "not_known", "it is not known whether the voters were changed; ask again"),
}


def voters_of(body: bytes) -> tuple[BrokerId, ...]:
    """The brokers in the body of a request, `{"voters": [0, 1, 3]}`. Raises ValueError with a message for the
    caller."""
    asked: object = json.loads(body) if body.strip() else None
    voters = asked.get("voters") if isinstance(asked, dict) and asked.keys() == {"voters"} else None
    if not isinstance(voters, list) or len(voters) > BROKERS_MAX or any(type(one) is not int for one in voters):
        raise ValueError("expected an object with voters, a list of broker ids")
    return tuple(map(BrokerId, voters))


def judge(replica: AdminReplica, command: SetControllerVoters) -> Refusal | None:
    """None: by all that the controller's leader sees in this turn, these may be the voters."""
    image, voters = replica.image(), command.voters
    if image is None:
        return NOT_FORMED
    early = level_refusal(image, command)
    if early is not None:
        return Refusal(409, "feature_level", early.message)
    try:
        set_voters(image, voters)
    except MisfitError as misfit:
        return Refusal(409, "refused", misfit.result.message)
    connected = sorted(broker for broker in voters if replica.linked(broker))
    if len(connected) < majority(len(voters)):
        said = f"of the voters to be only {connected} are connected; {majority(len(voters))} are needed"
        return Refusal(409, "no_majority", said)
    return None


class ControllerVoters:
    """Handler over one replica."""

    def __init__(self, replica: AdminReplica) -> None:
        self._replica = replica

    def routes(self) -> tuple[Route, ...]:
        return (Route("POST", "/v1/controller/voters", Role.ADMIN, self.set),)

    async def set(self, request: web.Request) -> web.StreamResponse:
        """Answers when it is committed that these are to vote."""
        voters = await asked_by(request, voters_of)
        if isinstance(voters, Refusal):
            return refused(voters)
        command = SetControllerVoters(voters=voters)
        # From here to the proposal it is one turn: whom it sees now is whom it proposes with.
        refusal = await led_here(self._replica) or judge(self._replica, command)
        if refusal is not None:
            return refused(refusal)
        result = await proposed(self._replica, command)
        if result.error != Code.NONE:
            return refused(_OUTCOMES.get(result.error) or Refusal(409, "refused", result.message))
        return web.json_response({"voters": list(voters)})
