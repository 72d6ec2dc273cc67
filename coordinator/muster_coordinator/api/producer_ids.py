"""InitProducerId for idempotent producers. A transactional id is answered 53 (see `coordinator`)."""

from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value

_NONE = -1


class ProducerIds:
    """Handler of InitProducerId v0-5."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """A new id with epoch 0, even if the request has an id; error 14 while this broker has no block of ids."""
        services = self._services
        name = request.transactional_id
        if name is not None:
            # The right changes no answer: with and without it, a transactional id gets 53.
            services.authorize(context, Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, name))
            reply(_answer(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if name else Code.INVALID_REQUEST))
            return
        may = services.may_write_idempotently(context)
        code = Code.NONE if may else Code.CLUSTER_AUTHORIZATION_FAILED
        if code is Code.NONE and (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
            code = Code.INVALID_REQUEST
        if code is not Code.NONE:
            reply(_answer(code))
            return

        def given(producer_id: int) -> None:
            if producer_id < 0:
                reply(_answer(Code.COORDINATOR_LOAD_IN_PROGRESS))
            else:
                reply(_answer(Code.NONE, producer_id))

        services.surface.producer_id(given)


def _answer(code: Code, producer_id: int = _NONE) -> Value:
    return {"error_code": code, "producer_id": producer_id, "producer_epoch": 0 if producer_id >= 0 else _NONE}
