"""InitProducerId: an id for an idempotent producer, or the next epoch of a transactional one (KIP-98, 360)."""

from muster_coordinator.api.authorize import DENIED, Operation, ResourceType
from muster_coordinator.api.services import Services
from muster_coordinator.api.transactions import Coordinators, coordinator_code
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.transactions.requests import Answer, Expected, InitProducer
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_NONE = -1
_FENCED_SINCE = 4
"""Version that knows PRODUCER_FENCED."""


class ProducerIds:
    """Handler of InitProducerId v0-5."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._coordinators = Coordinators(services)

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Without a transactional id: a new id with epoch 0, even if the request has one; error 14 while this broker
        has no block of ids."""
        services = self._services
        name = request.transactional_id
        if name is not None:
            may = services.may_transact(context, Operation.WRITE, name)
            code = Code.NONE if may else DENIED[ResourceType.TRANSACTIONAL_ID]
        else:
            may = services.may_write_idempotently(context)
            code = Code.NONE if may else Code.CLUSTER_AUTHORIZATION_FAILED
        if code is Code.NONE and (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
            code = Code.INVALID_REQUEST
        if code is not Code.NONE:
            reply(_answer(code))
        elif name is not None:
            self._transactional(version, request, reply)
        else:
            services.surface.producer_id(
                lambda given: reply(_answer(Code.COORDINATOR_LOAD_IN_PROGRESS if given < 0 else Code.NONE, given, 0))
            )

    def _transactional(self, version: int, request: Value, reply: Exchange) -> None:
        given = request.producer_id != _NONE
        expected = Expected(request.producer_id, request.producer_epoch) if given else None
        asked = InitProducer(request.transactional_id, request.transaction_timeout_ms, expected)

        def answered(answer: Answer) -> None:
            code = coordinator_code(answer.code, fenced=version >= _FENCED_SINCE)
            reply(_answer(code, answer.producer_id, answer.producer_epoch))

        self._coordinators.ask(asked, answered)


def _answer(code: Code, producer_id: int = _NONE, producer_epoch: int = _NONE) -> Value:
    if code is not Code.NONE:
        producer_id = producer_epoch = _NONE
    return {"error_code": code, "producer_id": producer_id, "producer_epoch": producer_epoch}
