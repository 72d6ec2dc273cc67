"""AddPartitionsToTxn: of producers up to version 3, and of brokers, several transactions at once, from version 4 on.

All partitions of a transaction are added or none: if the client may not write to one of them, or one does not exist,
the others are answered OPERATION_NOT_ATTEMPTED (55). Versions of brokers need CLUSTER_ACTION and no right on a topic,
as in Kafka, since the client's were judged by the broker that asks; our own replicas ask each other over their link
instead. Verification is told 120 from version 5 on, 48 before.
"""

from collections.abc import Callable, Sequence

from muster_coordinator.api.authorize import DENIED, Operation, ResourceType
from muster_coordinator.api.doubt import Doubt
from muster_coordinator.api.gather import gather_few
from muster_coordinator.api.services import Services
from muster_coordinator.api.transactions import FENCED_SINCE, Coordinators, coordinator_code
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import OFFSETS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.records.transaction_log import TopicPartition
from muster_coordinator.topics.stores import Capability
from muster_coordinator.transactions.requests import AddPartitions, Answer, VerifyPartitions
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_BROKERS_SINCE = 4
_ABORTABLE_SINCE = 5
Codes = dict[TopicPartition, Code]


class AddPartitionsToTxn:
    """Handler of AddPartitionsToTxn v0-5."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._coordinators = Coordinators(services)

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """One transaction before v4, a list of them since."""
        if version >= _BROKERS_SINCE:
            self._of_broker(context, version, request, reply)
            return
        name, topics = request.v3_and_below_transactional_id, request.v3_and_below_topics
        if not self._services.may_transact(context, Operation.WRITE, name):
            codes = dict.fromkeys(_places(topics), DENIED[ResourceType.TRANSACTIONAL_ID])
            reply({"results_by_topic_v3_and_below": _by_topic(topics, codes)})
            return
        self._judge(
            context,
            version,
            self._doubt(),
            AddPartitions(name, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch, _places(topics)),
            lambda codes: reply({"results_by_topic_v3_and_below": _by_topic(topics, codes)}),
        )

    def _of_broker(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        code = self._services.cluster_code(context, Operation.CLUSTER_ACTION)
        if code is not Code.NONE:
            reply({"error_code": code, "results_by_transaction": ()})
            return
        asked: Sequence[Value] = request.transactions
        doubt = self._doubt()

        def begin(index: int, arrived: Callable[[Value], None]) -> None:
            one = asked[index]
            make = VerifyPartitions if one.verify_only else AddPartitions
            wanted = make(one.transactional_id, one.producer_id, one.producer_epoch, _places(one.topics))

            def judged(codes: Codes) -> None:
                arrived({"transactional_id": one.transactional_id, "topic_results": _by_topic(one.topics, codes)})

            self._judge(context, version, doubt, wanted, judged)

        def done(results: list[Value]) -> None:
            reply({"error_code": Code.NONE, "results_by_transaction": results})

        gather_few(self._services.surface.loop, len(asked), begin, done)

    def _doubt(self) -> Doubt:
        """Producers ask again on 14 without looking for another coordinator."""
        return Doubt(self._services.surface, Code.COORDINATOR_LOAD_IN_PROGRESS)

    def _judge(
        self,
        context: RequestContext,
        version: int,
        doubt: Doubt,
        request: AddPartitions | VerifyPartitions,
        done: Callable[[Codes], None],
    ) -> None:
        refused = self._refused(context, version, request.partitions)
        if Code.UNKNOWN_TOPIC_OR_PARTITION in refused.values() and doubt.parks(
            Code.UNKNOWN_TOPIC_OR_PARTITION, lambda: self._judge(context, version, doubt, request, done)
        ):
            return
        refused = {place: doubt.answer(code) for place, code in refused.items()}
        if refused:
            rest = request.partitions - refused.keys()
            done(refused | dict.fromkeys(rest, Code.OPERATION_NOT_ATTEMPTED))
            return

        def answered(answer: Answer) -> None:
            code = coordinator_code(answer.code, fenced=version >= FENCED_SINCE)
            codes = dict.fromkeys(request.partitions, code)
            lacks = Code.TRANSACTION_ABORTABLE if version >= _ABORTABLE_SINCE else Code.INVALID_TXN_STATE
            done(codes | dict.fromkeys(answer.missing, lacks))

        self._coordinators.ask(request, answered)

    def _refused(self, context: RequestContext, version: int, places: frozenset[TopicPartition]) -> Codes:
        """Partitions that the client may not write to, that do not exist, or that take no markers or transactions."""
        image = self._services.surface.image()
        topics = {} if image is None else image.topics
        denied = {
            topic
            for topic in {topic for topic, _ in places}
            if version < _BROKERS_SINCE and not self._services.may_topic(context, Operation.WRITE, topic)
        }
        refused: Codes = {}
        for topic, index in places:
            known = topics.get(topic)
            if topic in denied:
                refused[topic, index] = Code.TOPIC_AUTHORIZATION_FAILED
            elif known is None or not 0 <= index < len(known.partitions):
                refused[topic, index] = Code.UNKNOWN_TOPIC_OR_PARTITION
            elif known.internal and topic != OFFSETS_TOPIC:
                refused[topic, index] = Code.INVALID_TOPIC_EXCEPTION
            elif not self._services.store_of(known).can(Capability.TRANSACTIONS):
                refused[topic, index] = Code.UNSUPPORTED_FOR_MESSAGE_FORMAT
        return refused


def _places(topics: Sequence[Value]) -> frozenset[TopicPartition]:
    return frozenset((topic.name, index) for topic in topics for index in topic.partitions)


def _by_topic(topics: Sequence[Value], codes: Codes) -> list[Value]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": codes[topic.name, index]}
                for index in topic.partitions
            ],
        }
        for topic in topics
    ]
