"""Heartbeat and LeaveGroup. Before v3 a LeaveGroup has one member, whose error is the error of the answer."""

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.cluster_view import offsets_partition
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import (
    GroupAnswer,
    Heartbeat,
    HeartbeatAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    Leaver,
)
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_MEMBERS_SINCE = 3


class HeartbeatLeave:
    """Handlers of Heartbeat and LeaveGroup."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def heartbeat(self, context: RequestContext, _version: int, request: Heartbeat, reply: Exchange) -> None:
        """Heartbeat v0-4. Hot path: it creates no object but the context and the answer."""
        services = self._services
        if not services.may_group(context, Operation.READ, request.group):
            reply(HeartbeatAnswer(Code.GROUP_AUTHORIZATION_FAILED))
            return
        image = services.surface.image()
        if image is None:
            reply(HeartbeatAnswer(Code.COORDINATOR_NOT_AVAILABLE))
            return
        services.surface.group_request(offsets_partition(image, request.group), request, context, reply)

    def heartbeat_at_once(self, request: Heartbeat, times: int) -> Code | None:
        """See `wire.repeated_heartbeat.HeartbeatAtOnce`. Not used when rights depend on the principal."""
        services = self._services
        image = services.surface.image() if services.open else None
        if image is None:
            return None
        return services.surface.heartbeat_at_once(offsets_partition(image, request.group), request, times)

    def leave(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """LeaveGroup v0-5."""
        services = self._services
        if not services.may_group(context, Operation.READ, request.group_id):
            reply({"error_code": Code.GROUP_AUTHORIZATION_FAILED, "members": ()})
            return
        image = services.surface.image()
        if image is None:
            reply({"error_code": Code.COORDINATOR_NOT_AVAILABLE, "members": ()})
            return
        if version >= _MEMBERS_SINCE:
            leavers = tuple(Leaver(m.member_id, m.group_instance_id, m.reason or "") for m in request.members)
        else:
            leavers = (Leaver(request.member_id, None, ""),)

        def answered(answer: GroupAnswer) -> None:
            assert isinstance(answer, LeaveGroupAnswer)
            reply(_leave_answer(answer, version))

        services.surface.group_request(
            offsets_partition(image, request.group_id), LeaveGroup(request.group_id, leavers), context, answered
        )


def _leave_answer(answer: LeaveGroupAnswer, version: int) -> Value:
    error = answer.error
    if version < _MEMBERS_SINCE and not error and answer.leavers:
        error = answer.leavers[0][2]
    members = [{"member_id": m, "group_instance_id": i, "error_code": e} for m, i, e in answer.leavers]
    return {"error_code": error, "members": members}
