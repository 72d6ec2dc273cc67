"""Every served version of every API is answered, in a shape that kio reads to the last byte (invariant P3)."""

from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import (
    DeleteGroup,
    DeleteGroupAnswer,
    DescribedMember,
    DescribeGroup,
    DescribeGroupAnswer,
    FetchedOffset,
    GroupAnswer,
    GroupRequest,
    Heartbeat,
    HeartbeatAnswer,
    JoinedMember,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    ListedGroup,
    ListGroups,
    ListGroupsAnswer,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
    SyncGroup,
    SyncGroupAnswer,
    TxnOffsetCommit,
    refusal,
)
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.api.batches import batch
from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient

ORDERS_ID = b"orders----------"


def happy(request: GroupRequest) -> GroupAnswer:
    """A shard to which everything is fine."""
    match request:
        case JoinGroup():
            member = JoinedMember("m-1", None, b"meta")
            return JoinGroupAnswer(
                error=0, member="m-1", generation=4, protocol_type="consumer", protocol="range", leader="m-1",
                members=(member,),
            )  # fmt: skip
        case SyncGroup():
            return SyncGroupAnswer(error=0, protocol_type="consumer", protocol="range", assignment=b"mine")
        case Heartbeat():
            return HeartbeatAnswer(0)
        case LeaveGroup():
            return LeaveGroupAnswer(0, tuple((one.member, one.instance, 0) for one in request.leavers))
        case OffsetCommit() | TxnOffsetCommit():
            return OffsetCommitAnswer(
                tuple((t.topic, tuple((p.partition, 0) for p in t.partitions)) for t in request.topics)
            )
        case OffsetFetch():
            topics = (("orders", (0,)),) if request.topics is None else request.topics
            return OffsetFetchAnswer(
                0, tuple((name, tuple(FetchedOffset(p, 11, 3, "note", 0) for p in parts)) for name, parts in topics)
            )
        case OffsetDelete():
            return OffsetDeleteAnswer(0, tuple((name, tuple((p, 0) for p in parts)) for name, parts in request.topics))
        case DescribeGroup():
            member = DescribedMember("m-1", None, "cli", "/10.0.0.9", b"meta", b"mine")
            return DescribeGroupAnswer(
                error=0, group=request.group, state="Stable", protocol_type="consumer", protocol="range",
                members=(member,),
            )  # fmt: skip
        case ListGroups():
            return ListGroupsAnswer(0, (ListedGroup("g", "consumer", "Stable", "classic"),))
        case DeleteGroup():
            return DeleteGroupAnswer(0)


TOPIC = {"name": "orders", "topic": "orders", "topic_id": ORDERS_ID}
ANY_ACL = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}
REQUESTS: dict[int, dict[str, Any]] = {
    Api.PRODUCE: {
        "acks": -1,
        "timeout_ms": 1_000,
        "topic_data": [{**TOPIC, "partition_data": [{"index": 0, "records": batch()}]}],
    },
    Api.FETCH: {
        "replica_id": -1,
        "max_wait_ms": 0,
        "max_bytes": 1_000,
        "topics": [{**TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 99}]}],
    },
    Api.LIST_OFFSETS: {
        "replica_id": -1,
        "topics": [{**TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    },
    Api.METADATA: {"topics": [{"name": "orders"}]},
    Api.OFFSET_COMMIT: {
        "group_id": "g",
        "topics": [
            {**TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "note"}]}
        ],
    },
    Api.OFFSET_FETCH: {
        "group_id": "g",
        "topics": [{**TOPIC, "partition_indexes": [0]}],
        "groups": [{"group_id": "g", "topics": [{**TOPIC, "partition_indexes": [0]}]}],
    },
    Api.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g"]},
    Api.JOIN_GROUP: {"group_id": "g", "session_timeout_ms": 9_000, "protocol_type": "consumer"},
    Api.HEARTBEAT: {"group_id": "g", "member_id": "m-1"},
    Api.LEAVE_GROUP: {"group_id": "g", "member_id": "m-1", "members": [{"member_id": "m-1"}]},
    Api.SYNC_GROUP: {"group_id": "g", "member_id": "m-1", "protocol_type": "consumer", "protocol_name": "range"},
    Api.DESCRIBE_GROUPS: {"groups": ["g"]},
    Api.LIST_GROUPS: {},
    Api.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
    Api.SASL_AUTHENTICATE: {"auth_bytes": b"secret"},
    Api.DESCRIBE_ACLS: ANY_ACL,
    Api.CREATE_ACLS: {"creations": [{"resource_type": 2, "resource_name": "orders"}]},
    Api.DELETE_ACLS: {"filters": [ANY_ACL]},
    Api.ALTER_CONFIGS: {
        "resources": [
            {"resource_type": 2, "resource_name": "orders", "configs": [{"name": "retention.ms", "value": "5000"}]}
        ]
    },
    Api.DESCRIBE_LOG_DIRS: {"topics": [{"topic": "orders", "partitions": [0]}]},
    Api.ELECT_LEADERS: {"topic_partitions": [{"topic": "orders", "partitions": [2]}], "timeout_ms": 0},
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": None},
    Api.ALTER_USER_SCRAM_CREDENTIALS: {
        "deletions": [],
        "upsertions": [
            {"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"},
        ],
    },
    Api.DESCRIBE_CLIENT_QUOTAS: {"components": [{"entity_type": "user", "match_type": 2, "match": None}]},
    Api.ALTER_CLIENT_QUOTAS: {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": "a"}],
                "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}],
            }
        ],
        "validate_only": False,
    },
    Api.DESCRIBE_QUORUM: {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}],
    },
    Api.DESCRIBE_PRODUCERS: {"topics": [{"name": "orders", "partition_indexes": [0]}]},
    Api.LIST_TRANSACTIONS: {},
    Api.DESCRIBE_TRANSACTIONS: {"transactional_ids": ["tx"]},
    Api.ADD_PARTITIONS_TO_TXN: {
        "v3_and_below_transactional_id": "tx",
        "v3_and_below_producer_id": 7,
        "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": "orders", "partitions": [0]}],
        "transactions": [
            {
                "transactional_id": "tx",
                "producer_id": 7,
                "producer_epoch": 0,
                "verify_only": False,
                "topics": [{"name": "orders", "partitions": [0]}],
            }
        ],
    },
    Api.ADD_OFFSETS_TO_TXN: {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 0, "group_id": "g"},
    Api.END_TXN: {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 0, "committed": True},
    Api.WRITE_TXN_MARKERS: {
        "markers": [
            {
                "producer_id": 7,
                "producer_epoch": 0,
                "transaction_result": False,
                "topics": [{"name": "orders", "partition_indexes": [0]}],
                "coordinator_epoch": 1,
                "transaction_version": 0,
            }
        ]
    },
    Api.API_VERSIONS: {"client_software_name": "tests", "client_software_version": "1.0"},
    Api.CREATE_TOPICS: {
        "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}],
        "timeout_ms": 1_000,
    },
    Api.DELETE_TOPICS: {"topic_names": ["orders"], "topics": [{"name": "orders"}], "timeout_ms": 1_000},
    Api.DELETE_RECORDS: {
        "topics": [{**TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}],
        "timeout_ms": 1_000,
    },
    Api.INIT_PRODUCER_ID: {"transactional_id": None, "transaction_timeout_ms": 1},
    Api.OFFSET_FOR_LEADER_EPOCH: {"topics": [{**TOPIC, "partitions": [{"partition": 0, "leader_epoch": 3}]}]},
    Api.DESCRIBE_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "orders", "configuration_keys": None}]},
    Api.CREATE_PARTITIONS: {"topics": [{"name": "orders", "count": 5, "assignments": None}], "timeout_ms": 1_000},
    Api.DELETE_GROUPS: {"groups_names": ["g"]},
    Api.INCREMENTAL_ALTER_CONFIGS: {
        "resources": [
            {
                "resource_type": 2,
                "resource_name": "orders",
                "configs": [{"name": "retention.ms", "config_operation": 0, "value": "5000"}],
            }
        ]
    },
    Api.ALTER_PARTITION_REASSIGNMENTS: {
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1, 2, 0]}]}],
        "timeout_ms": 1_000,
    },
    Api.LIST_PARTITION_REASSIGNMENTS: {"topics": None},
    Api.OFFSET_DELETE: {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]},
    Api.TXN_OFFSET_COMMIT: {
        "transactional_id": "x",
        "group_id": "g",
        "producer_id": 7,
        "producer_epoch": 0,
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    },
    Api.UNREGISTER_BROKER: {"broker_id": 99},
    Api.UPDATE_FEATURES: {
        "feature_updates": [{"feature": "muster.feature.level", "max_version_level": 3, "allow_downgrade": False}],
        "timeout_ms": 1_000,
    },
    Api.DESCRIBE_CLUSTER: {},
    Api.DESCRIBE_TOPIC_PARTITIONS: {"topics": [{"name": "orders"}], "response_partition_limit": 100},
}
NOT_HERE = {
    Api.ELECT_LEADERS: 80,
    Api.SASL_HANDSHAKE: 34,
    Api.SASL_AUTHENTICATE: 34,
    Api.UNREGISTER_BROKER: 102,
    Api.TXN_OFFSET_COMMIT: 53,
    Api.DESCRIBE_ACLS: 54,
    Api.CREATE_ACLS: 54,
    Api.DELETE_ACLS: 54,
    Api.ADD_PARTITIONS_TO_TXN: 16,
    Api.ADD_OFFSETS_TO_TXN: 16,
    Api.END_TXN: 16,
    Api.DESCRIBE_TRANSACTIONS: 16,
}
"""What is answered about things that this cluster does not have or do, as Kafka answers without them."""
BY_ID = {Api.OFFSET_COMMIT: 10, Api.OFFSET_FETCH: 10}
"""From these versions on topics are named by their ids."""
SERVED = [(int(api), v) for api, r in sorted(VERSIONS.items()) for v in range(r.min, r.max + 1)]


def error_codes(value: Any) -> list[int]:
    """Every error code anywhere in an answer."""
    if isinstance(value, tuple):
        return [code for one in value for code in error_codes(one)]
    if hasattr(value, "__dataclass_fields__"):
        codes = []
        for name in value.__dataclass_fields__:
            part = getattr(value, name)
            codes += [int(part.value)] if name in ("error_code", "partition_error_code") else error_codes(part)
        return codes
    return []


def happy_surface() -> FakeSurface:
    surface = FakeSurface()
    surface.on_group = happy
    surface.logs[100].append(b"0123456789" * 3)
    return surface


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_a_good_request_of_every_version_gets_a_good_answer(api: int, version: int) -> None:
    client = KafkaClient(happy_surface())
    answer = client.ask(api, version, **REQUESTS[api])
    expected = {NOT_HERE.get(Api(api), 0)} - {0}
    assert set(error_codes(answer)) - {0} == expected, f"a true answer with an error belongs to NOT_HERE: {answer}"
    assert not client.closed


ASKS_A_SHARD = [
    (api, version)
    for api, version in SERVED
    if Api(api)
    in {
        Api.OFFSET_COMMIT, Api.OFFSET_FETCH, Api.JOIN_GROUP, Api.HEARTBEAT, Api.LEAVE_GROUP, Api.SYNC_GROUP,
        Api.DESCRIBE_GROUPS, Api.DELETE_GROUPS, Api.OFFSET_DELETE,
    }
]  # fmt: skip
SAID = {
    Api.JOIN_GROUP: {"m-1", 4, "range", b"meta"},
    Api.SYNC_GROUP: {b"mine"},
    Api.OFFSET_COMMIT: {"orders", 0},
    Api.OFFSET_FETCH: {"orders", 11, "note"},
    Api.DESCRIBE_GROUPS: {"g", "Stable", "consumer", "range", "m-1", "cli", "/10.0.0.9", b"meta", b"mine"},
    Api.DELETE_GROUPS: {"g"},
    Api.OFFSET_DELETE: {"orders"},
}
"""Of what `happy` says, what every version has a place for."""


def values(answer: Any) -> set[Any]:
    """Everything that an answer holds, at any depth."""
    if isinstance(answer, tuple):
        return {value for one in answer for value in values(one)}
    if hasattr(answer, "__dataclass_fields__"):
        return {value for name in answer.__dataclass_fields__ for value in values(getattr(answer, name))}
    return {answer}


@pytest.mark.parametrize(("api", "version"), ASKS_A_SHARD)
def test_what_the_shard_says_is_in_the_answer_of_every_version(api: int, version: int) -> None:
    client = KafkaClient(happy_surface())
    answer = client.ask(api, version, **REQUESTS[api])
    expected = SAID.get(Api(api), set())
    if "topics" in REQUESTS[api] and version >= BY_ID.get(Api(api), 99):
        expected = expected - {"orders"}
    assert expected <= values(answer), answer


@pytest.mark.parametrize("refused", [Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS])
@pytest.mark.parametrize(("api", "version"), ASKS_A_SHARD)
def test_a_shard_that_refuses_is_heard_in_every_version(api: int, version: int, refused: Code) -> None:
    """The one that always says yes lets an answer pass that has no place for its error."""
    surface = happy_surface()
    surface.on_group = lambda request: refusal(request, refused)
    answer = KafkaClient(surface).ask(api, version, **REQUESTS[api])
    assert set(error_codes(answer)) - {0} == {refused}, answer


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_before_the_cluster_is_formed_every_version_is_answered(api: int, version: int) -> None:
    """Clients may be there first. Nobody is told that something does not exist for good, or that it worked."""
    surface = happy_surface()
    surface.formed = False
    client = KafkaClient(surface)
    client.send(api, version, **REQUESTS[api])
    surface.fake_loop.run(5_000)
    answers = client.receive()
    assert len(answers) == 1
    promising = {
        Api.PRODUCE, Api.OFFSET_COMMIT, Api.CREATE_TOPICS, Api.DELETE_TOPICS, Api.JOIN_GROUP, Api.SYNC_GROUP,
        Api.ALTER_PARTITION_REASSIGNMENTS, Api.UNREGISTER_BROKER, Api.UPDATE_FEATURES, Api.ADD_OFFSETS_TO_TXN,
        Api.END_TXN, Api.WRITE_TXN_MARKERS,
    }  # fmt: skip
    if api in promising:
        assert 0 not in error_codes(answers[0])


def test_every_served_api_has_a_request_here() -> None:
    assert REQUESTS.keys() == VERSIONS.keys()
