"""AddOffsetsToTxn, EndTxn and DescribeTransactions: a producer and its coordinator, and who looks at them.

Versions before 2 of the first two know PRODUCER_FENCED (90) as INVALID_PRODUCER_EPOCH (47), as Kafka's do.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter

from muster_coordinator.api.authorize import DENIED, Operation, ResourceType
from muster_coordinator.api.cluster_view import offsets_partition
from muster_coordinator.api.gather import gather_few
from muster_coordinator.api.services import Services
from muster_coordinator.api.transaction_logs import TransactionLogs
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import (
    AddPartitions,
    Answer,
    DescribeTransaction,
    EndTransaction,
    Request,
)
from muster_coordinator.transactions.states import NAMES
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

FENCED_SINCE = 2
_EPOCHS_SINCE = 5
"""EndTxn version of transaction version 2, which answers with the producer's next epoch."""
_DENIED = DENIED[ResourceType.TRANSACTIONAL_ID]


def coordinator_code(code: Code, *, fenced: bool) -> Code:
    """The coordinator's code in a version that knows PRODUCER_FENCED, or does not."""
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED and not fenced else code


class Coordinators:
    """Passes requests to the coordinator of their id, if it is here."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._log = TransactionLogs(services)

    def ask(self, request: Request, done: Callable[[Answer], None]) -> None:
        """A producer that asks a broker which is not its coordinator is told so (16)."""
        group = self._log.group_of(request.transactional_id)
        if group is None:
            formed = self._services.surface.image() is not None
            done(Answer(Code.NOT_COORDINATOR if formed else Code.COORDINATOR_NOT_AVAILABLE))
        else:
            self._services.surface.transaction_request(group, request, done)


class Transactions:
    """Handlers of AddOffsetsToTxn v0-4, EndTxn v0-5 and DescribeTransactions v0."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._coordinators = Coordinators(services)

    def add_offsets(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """The group's offsets partition is in the transaction from now on."""
        services = self._services
        if not services.may_transact(context, Operation.WRITE, request.transactional_id):
            reply({"error_code": _DENIED})
            return
        if not services.may_group(context, Operation.READ, request.group_id):
            reply({"error_code": Code.GROUP_AUTHORIZATION_FAILED})
            return
        if services.upstream is not None:
            # The transaction is the upstream's and the offsets are ours: no log could decide both (ADR 96).
            reply({"error_code": Code.UNSUPPORTED_FOR_MESSAGE_FORMAT})
            return
        image = services.surface.image()
        if image is None:
            reply({"error_code": Code.COORDINATOR_NOT_AVAILABLE})
            return
        place = (OFFSETS_TOPIC, offsets_partition(image, request.group_id))
        asked = AddPartitions(request.transactional_id, request.producer_id, request.producer_epoch, frozenset({place}))
        known = version >= FENCED_SINCE
        self._coordinators.ask(asked, lambda answer: reply({"error_code": coordinator_code(answer.code, fenced=known)}))

    def end(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Answered when the outcome is decided; the partitions are told after that."""
        if not self._services.may_transact(context, Operation.WRITE, request.transactional_id):
            reply({"error_code": _DENIED})
            return
        asked = EndTransaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            client_version=2 if version >= _EPOCHS_SINCE else 0,
        )

        def answered(answer: Answer) -> None:
            code = coordinator_code(answer.code, fenced=version >= FENCED_SINCE)
            told: dict[str, Value] = {"error_code": code}
            if version >= _EPOCHS_SINCE:
                told |= {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
            reply(told)

        self._coordinators.ask(asked, answered)

    def describe(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """Each id by itself, and once."""
        names: Sequence[str] = tuple(dict.fromkeys(request.transactional_ids))

        def begin(index: int, arrived: Callable[[Value], None]) -> None:
            self._describe(context, names[index], arrived)

        loop = self._services.surface.loop
        gather_few(loop, len(names), begin, lambda states: reply({"transaction_states": states}))

    def _describe(self, context: RequestContext, name: str, done: Callable[[Value], None]) -> None:
        services = self._services
        if not services.may_transact(context, Operation.DESCRIBE, name):
            done(_undescribed(name, _DENIED))
            return

        def answered(answer: Answer) -> None:
            if answer.transaction is None:
                done(_undescribed(name, answer.code))
            else:
                done(_described(services, context, name, answer.transaction))

        self._coordinators.ask(DescribeTransaction(name), answered)


def _undescribed(name: str, code: Code) -> Value:
    return {
        "error_code": code,
        "transactional_id": name,
        "transaction_state": "",
        "transaction_timeout_ms": 0,
        "transaction_start_time_ms": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": (),
    }


def _described(services: Services, context: RequestContext, name: str, known: Transaction) -> Value:
    """Topics that the client may not describe are left out, as in Kafka."""
    topics = [
        {"topic": topic, "partitions": [index for _, index in places]}
        for topic, places in groupby(sorted(known.partitions), itemgetter(0))
        if services.may_topic(context, Operation.DESCRIBE, topic)
    ]
    return {
        "error_code": Code.NONE,
        "transactional_id": name,
        "transaction_state": NAMES[known.state],
        "transaction_timeout_ms": known.timeout_ms,
        "transaction_start_time_ms": known.start_ms,
        "producer_id": known.producer_id,
        "producer_epoch": known.producer_epoch,
        "topics": topics,
    }
