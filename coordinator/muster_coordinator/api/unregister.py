"""UnregisterBroker: an administrator takes a broker out that holds nothing and is not to come back (KIP-631, ADR 43).

Kafka's controller forgets the broker, and one whose process is started again registers as before. Here its data folder
never registers again; the rules are those of the controller's log (`controller.departures`), by which a request is
judged before anything is proposed. Java's Admin asks again by itself only when it is told 7, so that stands for all
that passes: no leader of the controller, or an image that may be late.
"""

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import NOT_FORMED, Outcome, fit, propose
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import UnregisterBroker
from muster_coordinator.controller.departures import unregister
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_OF_THE_IMAGE = frozenset((Code.BROKER_ID_NOT_REGISTERED, Code.POLICY_VIOLATION, Code.UNSUPPORTED_VERSION))
"""What is said of a broker only when the image is confirmed as current."""


class Unregister:
    """Handler of UnregisterBroker v0."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """Answered when the controller's log has it."""
        code = self._services.cluster_code(context, Operation.ALTER)
        if code is not Code.NONE:
            _answer(reply, code, "")
            return
        doubt = Doubt(self._services.surface, Code.REQUEST_TIMED_OUT, _OF_THE_IMAGE)
        self._one(context, BrokerId(request.broker_id), doubt, reply)

    def _one(self, context: RequestContext, broker: BrokerId, doubt: Doubt, reply: Exchange) -> None:
        def decided(outcome: Outcome) -> None:
            passing = outcome.code is Code.NOT_CONTROLLER
            _answer(reply, Code.REQUEST_TIMED_OUT if passing else outcome.code, outcome.message)

        surface = self._services.surface
        doubt.judge(
            lambda: _command(surface.image(), broker),
            lambda command: propose(surface, command, context.deadline_ms, decided),
            lambda error: _answer(reply, error.code, error.message),
        )


def _command(image: ClusterImage | None, broker: BrokerId) -> UnregisterBroker:
    """The command, valid by this image. Raises ApiError."""
    if image is None:
        raise ApiError(Code.REQUEST_TIMED_OUT, NOT_FORMED)
    known = image.brokers.get(broker)
    command = UnregisterBroker(broker=broker, replica_uuid=EMPTY_ID if known is None else known.replica_uuid)
    fit(image, command, lambda: unregister(image, command))
    return command


def _answer(reply: Exchange, code: Code, message: str | None) -> None:
    said = None if code is Code.NONE else message or f"refused: {code.name}"
    reply({"error_code": code, "error_message": said})
