"""JoinGroup and SyncGroup: authorise, find the partition, forward. The answer may come minutes later."""

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.cluster_view import offsets_partition
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import JoinGroup, SyncGroup, refusal
from muster_coordinator.wire.exchange import Exchange

_PROTOCOL_REQUIRED_SINCE = 5


class JoinSync:
    """Handlers of JoinGroup and SyncGroup."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def join(self, context: RequestContext, _version: int, request: JoinGroup, reply: Exchange) -> None:
        """JoinGroup v0-9."""
        self._forward(context, request, reply)

    def sync(self, context: RequestContext, version: int, request: SyncGroup, reply: Exchange) -> None:
        """SyncGroup v0-5. From v5 on protocol type and name are required (error 23)."""
        named = request.protocol_type is not None and request.protocol is not None
        if version >= _PROTOCOL_REQUIRED_SINCE and not named:
            if self._services.may_group(context, Operation.READ, request.group):
                reply(refusal(request, Code.INCONSISTENT_GROUP_PROTOCOL))
            else:
                reply(refusal(request, Code.GROUP_AUTHORIZATION_FAILED))
            return
        self._forward(context, request, reply)

    def _forward(self, context: RequestContext, request: JoinGroup | SyncGroup, reply: Exchange) -> None:
        services = self._services
        if not services.may_group(context, Operation.READ, request.group):
            reply(refusal(request, Code.GROUP_AUTHORIZATION_FAILED))
            return
        image = services.surface.image()
        if image is None:
            reply(refusal(request, Code.COORDINATOR_NOT_AVAILABLE))
            return
        services.surface.group_request(offsets_partition(image, request.group), request, context, reply)
