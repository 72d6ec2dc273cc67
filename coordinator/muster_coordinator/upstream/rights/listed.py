"""Requests that name what they are about one by one: topics, resources of configs, transactional ids.

Problem: of ten topics a client may have a right to nine, and Kafka serves those. Mechanism: what is denied is left out
of the request, and put into the answer with the code that Kafka gives; a request of which everything is denied goes
nowhere. Operations and codes: kafka.server.KafkaApis. What this does not do: Metadata and Fetch (`rights.metadata`,
`rights.fetched`), which say more than that.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from muster_coordinator.security.resources import CLUSTER, Operation, Resource, ResourceType
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

_CONFIGS_OF_TOPICS, _CONFIGS_OF_GROUPS = 2, 32
"""Numbers of org.apache.kafka.common.config.ConfigResource.Type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """How a request names what it is about."""

    asked: str
    """The request's list."""
    told: str
    """The answer's."""
    right: Callable[[Rights, Value], bool]
    """To one of the list."""
    denied: Callable[[Value], Message]
    """In the answer's list, for one that is denied."""


def _to(operation: Operation, of: Callable[[Value], Resource]) -> Callable[[Rights, Value], bool]:
    return lambda rights, one: rights.may(operation, of(one))


def _of_topic(one: Value) -> Resource:
    return topic(one.name)


def _partitions(
    *,
    asked: str = "partitions",
    told: str = "partitions",
    index: str = "partition_index",
    name: str = "name",
    **more: Value,
) -> Callable[[Value], Message]:
    """A topic whose partitions are answered one by one."""
    code, _ = DENIED[ResourceType.TOPIC]

    def denied(one: Value) -> Message:
        numbers = (part if isinstance(part, int) else part[0] for part in getattr(one, asked))
        return {
            name: getattr(one, name),
            told: [{index: number, "error_code": code, **more} for number in numbers],
        }

    return denied


def _may_create(rights: Rights, one: Value) -> bool:
    return rights.may_instead(Operation.CREATE, CLUSTER) or rights.may(Operation.CREATE, topic(one.name))


def _whole_topic(one: Value) -> Message:
    code, text = DENIED[ResourceType.TOPIC]
    return {"name": one.name, "error_code": code, "error_message": text, "configs": ()}


def _config_resource(one: Value) -> Resource:
    """Whose right a config resource needs. Those of brokers, of their loggers and of what only another Kafka has are
    the cluster's."""
    if one.resource_type == _CONFIGS_OF_TOPICS:
        return topic(one.resource_name)
    if one.resource_type == _CONFIGS_OF_GROUPS:
        return Resource(ResourceType.GROUP, one.resource_name)
    return CLUSTER


def _config(one: Value) -> Message:
    code, text = DENIED[_config_resource(one).type]
    return {
        "error_code": code,
        "error_message": text,
        "resource_type": one.resource_type,
        "resource_name": one.resource_name,
        "configs": (),
    }


def _transaction(one: Value) -> Message:
    code, _ = DENIED[ResourceType.TRANSACTIONAL_ID]
    return {
        "error_code": code,
        "transactional_id": one,
        "transaction_state": "",
        "transaction_timeout_ms": 0,
        "transaction_start_time_ms": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": (),
    }


LISTED: Mapping[int, _Listed] = MappingProxyType(
    {
        Api.PRODUCE: _Listed(
            asked="topic_data",
            told="responses",
            right=_to(Operation.WRITE, _of_topic),
            denied=_partitions(
                asked="partition_data", told="partition_responses", index="index", base_offset=-1, record_errors=()
            ),
        ),
        Api.LIST_OFFSETS: _Listed(
            asked="topics", told="topics", right=_to(Operation.DESCRIBE, _of_topic), denied=_partitions()
        ),
        Api.OFFSET_FOR_LEADER_EPOCH: _Listed(
            asked="topics",
            told="topics",
            right=_to(Operation.DESCRIBE, lambda one: topic(one.topic)),
            denied=_partitions(index="partition", name="topic"),
        ),
        Api.CREATE_TOPICS: _Listed(asked="topics", told="topics", right=_may_create, denied=_whole_topic),
        Api.DELETE_TOPICS: _Listed(
            asked="topic_names",
            told="responses",
            right=_to(Operation.DELETE, topic),
            denied=lambda name: {"name": name, "error_code": DENIED[ResourceType.TOPIC][0]},
        ),
        Api.DELETE_RECORDS: _Listed(
            asked="topics",
            told="topics",
            right=_to(Operation.DELETE, _of_topic),
            denied=_partitions(low_watermark=-1),
        ),
        Api.CREATE_PARTITIONS: _Listed(
            asked="topics", told="results", right=_to(Operation.ALTER, _of_topic), denied=_whole_topic
        ),
        Api.DESCRIBE_PRODUCERS: _Listed(
            asked="topics",
            told="topics",
            right=_to(Operation.READ, _of_topic),
            denied=_partitions(
                asked="partition_indexes", error_message=DENIED[ResourceType.TOPIC][1], active_producers=()
            ),
        ),
        Api.DESCRIBE_CONFIGS: _Listed(
            asked="resources",
            told="results",
            right=_to(Operation.DESCRIBE_CONFIGS, _config_resource),
            denied=_config,
        ),
        Api.ALTER_CONFIGS: _Listed(
            asked="resources", told="responses", right=_to(Operation.ALTER_CONFIGS, _config_resource), denied=_config
        ),
        Api.INCREMENTAL_ALTER_CONFIGS: _Listed(
            asked="resources", told="responses", right=_to(Operation.ALTER_CONFIGS, _config_resource), denied=_config
        ),
        Api.DESCRIBE_TRANSACTIONS: _Listed(
            asked="transactional_ids",
            told="transaction_states",
            right=_to(Operation.DESCRIBE, transactional_id),
            denied=_transaction,
        ),
    }
)


def judge_listed(api: int, request: Value, rights: Rights) -> Verdict:
    """Of a request of one of `LISTED`."""
    how = LISTED[api]
    kept, denied = parted(getattr(request, how.asked), lambda one: how.right(rights, one))
    told = [how.denied(one) for one in denied]
    if denied and not kept:
        return Told({how.told: told})
    less = _LESS.get(api)
    if not denied and less is None:
        return AS_IT_IS

    def answer(given: Value) -> Message:
        entries = message_of(getattr(given, how.told))
        return {**message_of(given), how.told: [*(entries if less is None else less(rights, entries)), *told]}

    changed = {**message_of(request), how.asked: message_of(kept)} if denied else None
    return GoesOn(changed, answer)


def _created(rights: Rights, entries: Iterable[Message]) -> list[Message]:
    """Who may not describe the configs of a topic is not told them when he makes it."""
    code, _ = DENIED[ResourceType.TOPIC]
    hidden = {"configs": (), "num_partitions": -1, "replication_factor": -1, "topic_config_error_code": code}
    return [
        entry
        if entry["error_code"] or rights.sees(Operation.DESCRIBE_CONFIGS, topic(entry["name"]))
        else {**entry, **hidden}
        for entry in entries
    ]


def _described_transactions(rights: Rights, entries: Iterable[Message]) -> list[Message]:
    """Without topics that the client may not describe."""
    return [
        {**entry, "topics": [one for one in entry["topics"] if rights.sees(Operation.DESCRIBE, topic(one["topic"]))]}
        for entry in entries
    ]


_LESS: Mapping[int, Callable[[Rights, Iterable[Message]], list[Message]]] = MappingProxyType(
    {Api.CREATE_TOPICS: _created, Api.DESCRIBE_TRANSACTIONS: _described_transactions}
)
"""What is left out of the upstream's answer."""
