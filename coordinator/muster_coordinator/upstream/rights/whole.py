"""Requests that a client may send or may not: what is about the whole cluster, and what is about one transaction.

Operations and answers: kafka.server.KafkaApis and ControllerApis, and `getErrorResponse` of the requests themselves.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from muster_coordinator.errors import Code
from muster_coordinator.security.resources import CLUSTER, Operation, ResourceType
from muster_coordinator.upstream.rights.verdict import (
    AS_IT_IS,
    DENIED,
    GoesOn,
    Message,
    Rights,
    Told,
    Verdict,
    message_of,
    parted,
    topic,
    transactional_id,
)
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import Api

_CODE, _TEXT = DENIED[ResourceType.CLUSTER]
_TRANSACTION_CODE, _TRANSACTION_TEXT = DENIED[ResourceType.TRANSACTIONAL_ID]


class _Whole(NamedTuple):
    """What a request of the cluster's needs, and how its denial is told."""

    operation: Operation
    denied: Callable[[Value], Message]


def _plain(_request: Value) -> Message:
    return {"error_code": _CODE, "error_message": _TEXT}


def _elections(request: Value) -> Message:
    parts = request.topic_partitions or ()
    return {
        "error_code": _CODE,
        "replica_election_results": [
            {
                "topic": one.topic,
                "partition_result": [
                    {"partition_id": number, "error_code": _CODE, "error_message": _TEXT} for number in one.partitions
                ],
            }
            for one in parts
        ],
    }


def _reassignments(request: Value) -> Message:
    return {
        **_plain(request),
        "responses": [
            {
                "name": one.name,
                "partitions": [
                    {"partition_index": part.partition_index, "error_code": _CODE, "error_message": _TEXT}
                    for part in one.partitions
                ],
            }
            for one in request.topics
        ],
    }


def _reassigned(request: Value) -> Message:
    nothing: Message = {"replicas": (), "adding_replicas": (), "removing_replicas": ()}
    return {
        **_plain(request),
        "topics": [
            {
                "name": one.name,
                "partitions": [{"partition_index": number, **nothing} for number in one.partition_indexes],
            }
            for one in request.topics or ()
        ],
    }


def _quotas(request: Value) -> Message:
    return {
        "entries": [
            {"error_code": _CODE, "error_message": _TEXT, "entity": message_of(one.entity)} for one in request.entries
        ]
    }


WHOLE: Mapping[int, _Whole] = MappingProxyType(
    {
        Api.DESCRIBE_LOG_DIRS: _Whole(Operation.DESCRIBE, lambda _: {"error_code": _CODE, "results": ()}),
        Api.ELECT_LEADERS: _Whole(Operation.ALTER, _elections),
        Api.ALTER_PARTITION_REASSIGNMENTS: _Whole(Operation.ALTER, _reassignments),
        Api.LIST_PARTITION_REASSIGNMENTS: _Whole(Operation.DESCRIBE, _reassigned),
        Api.DESCRIBE_CLIENT_QUOTAS: _Whole(Operation.DESCRIBE_CONFIGS, lambda one: {**_plain(one), "entries": None}),
        Api.ALTER_CLIENT_QUOTAS: _Whole(Operation.ALTER_CONFIGS, _quotas),
        Api.DESCRIBE_QUORUM: _Whole(Operation.DESCRIBE, lambda _: {"error_code": _CODE, "topics": ()}),
        Api.UPDATE_FEATURES: _Whole(Operation.ALTER, lambda one: {**_plain(one), "results": ()}),
        Api.UNREGISTER_BROKER: _Whole(Operation.ALTER, _plain),
    }
)


def judge_whole(api: int, request: Value, rights: Rights) -> Verdict:
    """Of a request of one of `WHOLE`."""
    how = WHOLE[api]
    return AS_IT_IS if rights.may(how.operation, CLUSTER) else Told(how.denied(request))


def judge_producer_id(request: Value, rights: Rights) -> Verdict:
    """InitProducerId: for a transactional id, or for whoever may write anything (KIP-679)."""
    if request.transactional_id is not None:
        code = _TRANSACTION_CODE
        may = rights.may(Operation.WRITE, transactional_id(request.transactional_id))
    else:
        code = _CODE
        may = rights.may_some(Operation.WRITE, ResourceType.TOPIC) or rights.may(Operation.IDEMPOTENT_WRITE, CLUSTER)
    return AS_IT_IS if may else Told({"error_code": code, "producer_id": -1, "producer_epoch": -1})


def judge_end(request: Value, rights: Rights) -> Verdict:
    """EndTxn."""
    may = rights.may(Operation.WRITE, transactional_id(request.transactional_id))
    return AS_IT_IS if may else Told({"error_code": _TRANSACTION_CODE, "producer_id": -1, "producer_epoch": -1})


def judge_added(request: Value, rights: Rights) -> Verdict:
    """AddPartitionsToTxn up to 3: of all partitions or of none."""
    topics = request.v3_and_below_topics
    code, _ = DENIED[ResourceType.TOPIC]
    if not rights.may(Operation.WRITE, transactional_id(request.v3_and_below_transactional_id)):
        codes = dict.fromkeys((one.name for one in topics), _TRANSACTION_CODE)
    else:
        denied = {one.name for one in topics if not rights.may(Operation.WRITE, topic(one.name))}
        if not denied:
            return AS_IT_IS
        codes = {one.name: code if one.name in denied else Code.OPERATION_NOT_ATTEMPTED for one in topics}
    return Told(
        {
            "results_by_topic_v3_and_below": [
                {
                    "name": one.name,
                    "results_by_partition": [
                        {"partition_index": number, "partition_error_code": codes[one.name]}
                        for number in one.partitions
                    ],
                }
                for one in topics
            ]
        }
    )


def judge_coordinator(version: int, request: Value, rights: Rights) -> Verdict:
    """FindCoordinator for transactions. `version`: from 4 on it asks for several at once."""
    nowhere = {
        "error_code": _TRANSACTION_CODE,
        "error_message": _TRANSACTION_TEXT,
        "node_id": -1,
        "host": "",
        "port": -1,
    }
    if version < _SEVERAL_SINCE:
        may = rights.may(Operation.DESCRIBE, transactional_id(request.key))
        return AS_IT_IS if may else Told(nowhere)
    kept, denied = parted(request.coordinator_keys, lambda key: rights.may(Operation.DESCRIBE, transactional_id(key)))
    if not denied:
        return AS_IT_IS
    told = [{**nowhere, "key": key} for key in denied]
    if not kept:
        return Told({"coordinators": told})
    return GoesOn(
        {**message_of(request), "coordinator_keys": kept},
        lambda answer: {**message_of(answer), "coordinators": [*message_of(answer.coordinators), *told]},
    )


_SEVERAL_SINCE = 4


def judge_transactions(rights: Rights) -> Verdict:
    """ListTransactions: those of which the client may hear."""

    def answer(given: Value) -> Message:
        states = [
            message_of(one)
            for one in given.transaction_states
            if rights.sees(Operation.DESCRIBE, transactional_id(one.transactional_id))
        ]
        return {**message_of(given), "transaction_states": states}

    return GoesOn(answer=answer)
