"""The table of docs/authorization.md: what each API answers to who may not, and which right changes that.

Nobody needs a password for it: ACLs have hosts, and loopback has many addresses. The administrator asks from 127.0.0.2;
the subject from 127.0.0.3, with no right but those of its row. `MUSTER_TEST_AGAINST=kafka` asks a real Kafka with
its StandardAuthorizer the same questions; the answers expected are the same.
"""

import os
import socket
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.settings import STANDARD_AUTHORIZER
from muster_coordinator.wire.versions import VERSIONS, Api
from typing_extensions import override

from tests import kafka_tools
from tests.cluster import MusterCluster, wait_until
from tests.integration.second_client import SecondClient
from tests.wire.kio_entities import decode_answer, encode_request

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

ADMIN, SUBJECT, ELSEWHERE, KAFKAS_OWN = "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.1"
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
}
"""Without an ACL everybody may create some, and once the administrator has, nobody else may."""
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, LITERAL, PREFIXED, DENY, ALLOW = 2, 3, 4, 5, 3, 4, 2, 3
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
ON_CLUSTER = (CLUSTER, "kafka-cluster")
PRODUCER = "moving"
"""A transactional id, of which nobody has a transaction open."""
NOBODYS = {"producer_id": 123_456_789, "producer_epoch": 0}


class World:
    """One broker, topics `orders` and `secret`, group `team`, and a transactional producer."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.admin = SecondClient(port, source=ADMIN)
        self.client = SecondClient(port, source=SUBJECT)
        self.granted: list[dict[str, Any]] = []
        self.ids: dict[str, uuid.UUID] = {}

    def prepare(self) -> None:
        everything = ((TOPIC, "*"), (GROUP, "*"), ON_CLUSTER, (TRANSACTIONAL_ID, "*"))
        rights = [acl(kind, name, ALL, host=ADMIN) for kind, name in everything]
        own = acl(*ON_CLUSTER, ALL, host=KAFKAS_OWN)  # a broker of Kafka's and its controller
        assert self.create([own, *rights]) == [0] * 5
        for name in ("orders", "secret"):
            self.make(name)
        wait_until("topics are led", self.find_ids, 20)
        commit = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        one = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        topics = [{"name": name, "partitions": [one]} for name in ("orders", "secret")]

        def committed() -> bool:
            self.admin.ask("FindCoordinator", 0, key="team")  # makes a fresh Kafka create its offsets topic
            answer = self.admin.ask("OffsetCommit", 6, group_id="team", topics=topics, **commit)
            codes.append({p.error_code for t in answer.topics for p in t.partitions})
            return codes[-1] == {0}

        codes: list[set[int]] = []
        try:
            wait_until("the group is there", committed, 20)
        except AssertionError as error:
            raise AssertionError(f"commits were answered {codes[-3:]}") from error
        wait_until("the transactional producer is there", self.begun, 30)

    def begun(self) -> bool:
        """15 and 16 until the transaction log is made, 14 until there are producer ids."""
        found = self.admin.ask("FindCoordinator", 2, key=PRODUCER, key_type=1).error_code
        fields = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
        return not (found or self.admin.ask("InitProducerId", 3, transactional_id=PRODUCER, **fields).error_code)

    def make(self, name: str) -> int:
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        answer = self.admin.ask("CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=False)
        code: int = answer.topics[0].error_code
        return code

    def find_ids(self) -> bool:
        topics = self.admin.ask("Metadata", 12, topics=None).topics
        self.ids = {t.name: t.topic_id for t in topics}
        led = {t.name for t in topics if all(p.error_code == 0 for p in t.partitions)}
        return {"orders", "secret"} <= led

    def create(self, acls: list[dict[str, Any]]) -> list[int]:
        return [one.error_code for one in self.admin.ask("CreateAcls", 3, creations=acls).results]

    def grant(self, *acls: dict[str, Any]) -> None:
        assert self.create(list(acls)) == [0] * len(acls)
        self.granted += acls
        wait_until("they are in force", lambda: len(self.found(SUBJECT)) == len(self.of_subject()), 5)

    def of_subject(self) -> list[dict[str, Any]]:
        return [one for one in self.granted if one["host"] == SUBJECT]

    def found(self, host: str) -> list[Any]:
        found = self.admin.ask("DescribeAcls", 3, **{**anything(), "host_filter": host}).resources
        return [entry for resource in found for entry in resource.acls]

    def revoke(self) -> None:
        for host in {one["host"] for one in self.granted}:
            results = self.admin.ask("DeleteAcls", 3, filters=[{**anything(), "host_filter": host}]).filter_results
            assert [one.error_code for one in results] == [0]
        self.granted.clear()
        wait_until("they are gone", lambda: not self.found(SUBJECT), 5)

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return self.client.ask(api, version, **fields)


def anything() -> dict[str, Any]:
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1, **names}


def acl(kind: int, name: str, operation: int, **changes: Any) -> dict[str, Any]:
    fields = {"resource_type": kind, "resource_name": name, "resource_pattern_type": LITERAL, "operation": operation}
    return {**fields, "principal": "User:ANONYMOUS", "host": SUBJECT, "permission_type": ALLOW, **changes}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("rights")
    if os.environ.get("MUSTER_TEST_AGAINST") == "kafka":
        from tests.kafka_broker import KafkaBroker

        with KafkaBroker(folder, SETTINGS) as broker:
            yield from prepared(broker.port)
        return
    with MusterCluster(folder / "data", replicas=1, partitions=4, settings=SETTINGS) as cluster:
        yield from prepared(cluster.port)


def prepared(port: int) -> Iterator[World]:
    it = World(port)
    try:
        it.prepare()
        yield it
    finally:
        it.admin.close()
        it.client.close()


@pytest.fixture(autouse=True)
def revoked(world: World) -> Iterator[None]:
    yield
    world.revoke()


# --- one question per API, about topic `orders` and group `team`; each returns the code that the right decides


def produce(world: World) -> int:
    data = bytes(encode_batch([(None, b"x")], timestamp_ms=1_700_000_000_000))
    topic = {"name": "orders", "partition_data": [{"index": 0, "records": data}]}
    answer = world.ask("Produce", 9, transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[topic])
    return int(answer.responses[0].partition_responses[0].error_code)


def fetch(world: World) -> int:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    partition |= {"last_fetched_epoch": -1, "log_start_offset": -1}
    fields = {"replica_id": -1, "max_wait_ms": 1, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0}
    fields |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    answer = world.ask("Fetch", 11, topics=[{"topic": "orders", "partitions": [partition]}], **fields)
    return int(answer.responses[0].partitions[0].error_code)


def list_offsets(world: World) -> int:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": "orders", "partitions": [partition]}]
    answer = world.ask("ListOffsets", 5, replica_id=-1, isolation_level=0, topics=topics)
    return int(answer.topics[0].partitions[0].error_code)


def leader_epoch(world: World) -> int:
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]
    answer = world.ask("OffsetForLeaderEpoch", 3, replica_id=-1, topics=topics)
    return int(answer.topics[0].partitions[0].error_code)


def metadata(world: World) -> int:
    return int(world.ask("Metadata", 9, topics=[{"name": "orders"}]).topics[0].error_code)


def metadata_by_id(world: World) -> int:
    (topic,) = world.ask("Metadata", 12, topics=[{"topic_id": world.ids["orders"], "name": None}]).topics
    assert (topic.name is None) == (topic.error_code != 0), "the name is for who may see it"
    return int(topic.error_code)


def metadata_of_all(world: World) -> int:
    """29 for a topic that is left out."""
    names = {topic.name for topic in world.ask("Metadata", 9, topics=None).topics}
    assert "secret" not in names
    return 0 if "orders" in names else 29


def topic_partitions(world: World) -> int:
    topics = [{"name": "orders"}]
    answer = world.ask("DescribeTopicPartitions", 0, topics=topics, response_partition_limit=9, cursor=None)
    return int(answer.topics[0].error_code)


def commit(world: World) -> int:
    one = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": "orders", "partitions": [one]}]
    answer = world.ask("OffsetCommit", 6, group_id="team", topics=topics, **fields)
    return int(answer.topics[0].partitions[0].error_code)


def offset_fetch(world: World) -> int:
    answer = world.ask("OffsetFetch", 5, group_id="team", topics=[{"name": "orders", "partition_indexes": [0]}])
    return int(answer.error_code or answer.topics[0].partitions[0].error_code)


def offset_fetch_of_all(world: World) -> int:
    """29 for a topic that is left out."""
    answer = world.ask("OffsetFetch", 5, group_id="team", topics=None)
    names = {topic.name for topic in answer.topics}
    assert "secret" not in names
    return int(answer.error_code or (0 if "orders" in names else 29))


def find_coordinator(world: World) -> int:
    answer = world.ask("FindCoordinator", 4, key_type=0, coordinator_keys=["team"])
    return int(answer.coordinators[0].error_code)


def join(world: World) -> int:
    """79, a member id is needed, comes after the right."""
    fields = {"session_timeout_ms": 9_000, "rebalance_timeout_ms": 9_000, "protocol_type": "consumer"}
    fields |= {"member_id": "", "group_instance_id": None, "protocols": [{"name": "range", "metadata": b""}]}
    code = world.ask("JoinGroup", 5, group_id="joined", **fields).error_code
    return 0 if code == 79 else int(code)


def sync(world: World) -> int:
    """25, an unknown member, comes after the right; so it does below."""
    fields = {"generation_id": 1, "member_id": "m", "group_instance_id": None, "assignments": []}
    return int(world.ask("SyncGroup", 3, group_id="team", **fields).error_code)


def heartbeat(world: World) -> int:
    fields = {"generation_id": 1, "member_id": "m", "group_instance_id": None}
    return int(world.ask("Heartbeat", 3, group_id="team", **fields).error_code)


def leave(world: World) -> int:
    members = [{"member_id": "m", "group_instance_id": None}]
    answer = world.ask("LeaveGroup", 3, group_id="team", members=members)
    return int(answer.error_code or answer.members[0].error_code)


def describe_group(world: World) -> int:
    return int(
        world.ask("DescribeGroups", 4, groups=["team"], include_authorized_operations=False).groups[0].error_code
    )


def list_groups(world: World) -> int:
    """30 for a group that is left out."""
    answer = world.ask("ListGroups", 2)
    return int(answer.error_code or (0 if "team" in {group.group_id for group in answer.groups} else 30))


def delete_group(world: World) -> int:
    """69, no such group, comes after the right."""
    return int(world.ask("DeleteGroups", 1, groups_names=["none"]).results[0].error_code)


def offset_delete(world: World) -> int:
    topics = [{"name": "orders", "partitions": [{"partition_index": 7}]}]
    answer = world.ask("OffsetDelete", 0, group_id="team", topics=topics)
    return int(answer.error_code or answer.topics[0].partitions[0].error_code)


def create_topic(world: World) -> int:
    topic = {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = world.ask("CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=True)
    return int(answer.topics[0].error_code)


def delete_topic(world: World) -> int:
    return int(world.ask("DeleteTopics", 4, topic_names=["gone"], timeout_ms=10_000).responses[0].error_code)


def delete_topic_by_id(world: World) -> int:
    topics = [{"name": None, "topic_id": world.ids["secret"]}]
    return int(world.ask("DeleteTopics", 6, topics=topics, timeout_ms=10_000).responses[0].error_code)


def delete_records(world: World) -> int:
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 0}]}]
    answer = world.ask("DeleteRecords", 1, topics=topics, timeout_ms=10_000)
    return int(answer.topics[0].partitions[0].error_code)


def create_partitions(world: World) -> int:
    topics = [{"name": "orders", "count": 2, "assignments": None}]
    answer = world.ask("CreatePartitions", 1, topics=topics, timeout_ms=10_000, validate_only=True)
    return int(answer.results[0].error_code)


def describe_configs(kind: int, name: str) -> Callable[[World], int]:
    def ask(world: World) -> int:
        resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
        return int(world.ask("DescribeConfigs", 2, resources=resources, include_synonyms=False).results[0].error_code)

    return ask


def alter_configs(world: World) -> int:
    config = {"name": "retention.ms", "config_operation": 0, "value": "86400000"}
    resources = [{"resource_type": TOPIC, "resource_name": "orders", "configs": [config]}]
    answer = world.ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=True)
    return int(answer.responses[0].error_code)


def producer_id(world: World) -> int:
    """14, no block of ids here yet, passes."""
    fields = {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": -1, "producer_epoch": -1}
    codes: list[int] = []

    def told() -> bool:
        codes.append(int(world.ask("InitProducerId", 3, **fields).error_code))
        return codes[-1] != 14

    wait_until("there are producer ids", told, 10)
    return codes[-1]


def describe_acls(world: World) -> int:
    return int(world.ask("DescribeAcls", 3, **anything()).error_code)


def create_acls(world: World) -> int:
    """42, no principal, comes after the right."""
    return int(world.ask("CreateAcls", 3, creations=[acl(TOPIC, "", READ)]).results[0].error_code)


def delete_acls(world: World) -> int:
    nobody = {**anything(), "principal_filter": "User:nobody"}
    return int(world.ask("DeleteAcls", 3, filters=[nobody]).filter_results[0].error_code)


def describe_quotas(world: World) -> int:
    return int(world.ask("DescribeClientQuotas", 1, components=[], strict=False).error_code)


def alter_quotas(world: World) -> int:
    entity = [{"entity_type": "user", "entity_name": "somebody"}]
    entries = [{"entity": entity, "ops": [{"key": "request_percentage", "value": 50.0, "remove": False}]}]
    return int(world.ask("AlterClientQuotas", 1, entries=entries, validate_only=True).entries[0].error_code)


def elect(world: World) -> int:
    partitions = [{"topic": "orders", "partitions": [0]}]
    answer = world.ask("ElectLeaders", 2, election_type=0, topic_partitions=partitions, timeout_ms=10_000)
    return int(answer.error_code)


def reassign(world: World) -> int:
    return int(world.ask("AlterPartitionReassignments", 0, timeout_ms=10_000, topics=[]).error_code)


def list_moves(world: World) -> int:
    return int(world.ask("ListPartitionReassignments", 0, timeout_ms=10_000, topics=None).error_code)


def log_dirs(world: World) -> int:
    return int(world.ask("DescribeLogDirs", 3, topics=[]).error_code)


def update_features(world: World) -> int:
    return int(world.ask("UpdateFeatures", 1, timeout_ms=10_000, feature_updates=[], validate_only=True).error_code)


def describe_cluster(world: World) -> int:
    answer = world.ask("DescribeCluster", 0, include_cluster_authorized_operations=True)
    assert answer.error_code == 0
    return 0 if answer.authorized_operations else 31


def topic_partitions_of_all(world: World) -> int:
    """29 for a topic that is left out."""
    answer = world.ask("DescribeTopicPartitions", 0, topics=[], response_partition_limit=99, cursor=None)
    names = {topic.name for topic in answer.topics}
    assert "secret" not in names
    return 0 if "orders" in names else 29


def producers(world: World) -> int:
    answer = world.ask("DescribeProducers", 0, topics=[{"name": "orders", "partition_indexes": [0]}])
    return int(answer.topics[0].partitions[0].error_code)


def replace_configs(world: World) -> int:
    configs = [{"name": "retention.ms", "value": "86400000"}]
    resources = [{"resource_type": TOPIC, "resource_name": "orders", "configs": configs}]
    return int(world.ask("AlterConfigs", 1, resources=resources, validate_only=True).responses[0].error_code)


def quorum(world: World) -> int:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    return int(world.ask("DescribeQuorum", 0, topics=topics).error_code)


def describe_scram(world: World) -> int:
    """Nobody's: that there are none (91) is told of each."""
    return int(world.ask("DescribeUserScramCredentials", 0, users=[{"name": "nobody"}]).error_code)


def alter_scram(world: World) -> int:
    """91, nobody has one, comes after the right."""
    gone = [{"name": "nobody", "mechanism": 1}]
    return int(world.ask("AlterUserScramCredentials", 0, deletions=gone, upsertions=[]).results[0].error_code)


def unregister(world: World) -> int:
    """102, no such broker, comes after the right. kafka-python has no such message, kio has."""
    there = ("127.0.0.1", world.port)
    with socket.create_connection(there, 30, source_address=(SUBJECT, 0)) as line, line.makefile("rb") as read:
        line.sendall(encode_request(Api.UNREGISTER_BROKER, 0, {"broker_id": 99}, 7, "second"))
        size = read.read(4)
        answer = decode_answer(Api.UNREGISTER_BROKER, 0, size + read.read(int.from_bytes(size, "big")))[1]
    return int(answer.error_code.value)


# --- of transactions: by a producer id that is not this transactional id's (49), which comes after the right


def find_transactions(world: World) -> int:
    return int(world.ask("FindCoordinator", 4, key_type=1, coordinator_keys=[PRODUCER]).coordinators[0].error_code)


def transactional_producer_id(world: World) -> int:
    fields = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    return int(world.ask("InitProducerId", 3, transactional_id=PRODUCER, **fields).error_code)


def add_partitions(world: World) -> int:
    fields = {f"v3_and_below_{name}": value for name, value in {"transactional_id": PRODUCER, **NOBODYS}.items()}
    topics = [{"name": "orders", "partitions": [0]}]
    answer = world.ask("AddPartitionsToTxn", 3, **fields, v3_and_below_topics=topics)
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def add_partitions_of_brokers(world: World) -> int:
    """Since version 4 brokers ask, for their clients."""
    topics = [{"name": "orders", "partitions": [0]}]
    asked = [{"transactional_id": PRODUCER, **NOBODYS, "verify_only": True, "topics": topics}]
    answer = world.ask("AddPartitionsToTxn", 4, transactions=asked)
    if answer.error_code:
        return int(answer.error_code)
    return int(answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code)


def add_offsets(world: World) -> int:
    return int(world.ask("AddOffsetsToTxn", 3, transactional_id=PRODUCER, **NOBODYS, group_id="team").error_code)


def end_transaction(world: World) -> int:
    return int(world.ask("EndTxn", 3, transactional_id=PRODUCER, **NOBODYS, committed=False).error_code)


def commit_in_transaction(world: World) -> int:
    one = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    members = {"generation_id": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": "orders", "partitions": [one]}]
    fields = {"transactional_id": PRODUCER, "group_id": "team", **NOBODYS, **members}
    return int(world.ask("TxnOffsetCommit", 3, topics=topics, **fields).topics[0].partitions[0].error_code)


def describe_transaction(world: World) -> int:
    return int(world.ask("DescribeTransactions", 0, transactional_ids=[PRODUCER]).transaction_states[0].error_code)


def list_transactions(world: World) -> int:
    """53 for one that is left out."""
    answer = world.ask("ListTransactions", 0, state_filters=[], producer_id_filters=[])
    assert answer.error_code == 0
    return 0 if PRODUCER in {one.transactional_id for one in answer.transaction_states} else 53


def write_markers(world: World) -> int:
    """The end of a transaction that nobody has open does no harm."""
    topics = [{"name": "orders", "partition_indexes": [0]}]
    marker = {**NOBODYS, "transaction_result": False, "coordinator_epoch": 0, "topics": topics}
    answer = world.ask("WriteTxnMarkers", 1, markers=[marker])
    return int(answer.markers[0].topics[0].partitions[0].error_code)


class Row(NamedTuple):
    ask: Callable[[World], int]
    rights: tuple[tuple[int, str, int], ...]
    """(type, name, operation): any one of them is enough."""
    without: int
    having: int = 0
    """The code of what is asked for once that is allowed."""
    beside: tuple[tuple[int, str, int], ...] = ()
    """Rights that it needs besides, and has throughout."""


ORDERS, TEAM, MOVING = (TOPIC, "orders"), (GROUP, "team"), (TRANSACTIONAL_ID, PRODUCER)
ROWS = (
    Row(produce, ((*ORDERS, WRITE),), 29),
    Row(fetch, ((*ORDERS, READ),), 29),
    Row(list_offsets, tuple((*ORDERS, o) for o in (DESCRIBE, READ, WRITE, DELETE, ALTER)), 29),
    Row(leader_epoch, ((*ORDERS, DESCRIBE), (*ON_CLUSTER, CLUSTER_ACTION)), 29),
    Row(metadata, ((*ORDERS, DESCRIBE), (*ORDERS, READ)), 29),
    Row(metadata_by_id, ((*ORDERS, DESCRIBE),), 29),
    Row(metadata_of_all, ((*ORDERS, DESCRIBE),), 29),
    Row(topic_partitions, ((*ORDERS, DESCRIBE),), 29),
    Row(commit, ((*TEAM, READ),), 30, beside=((*ORDERS, READ),)),
    Row(commit, ((*ORDERS, READ),), 29, beside=((*TEAM, READ),)),
    Row(offset_fetch, ((*TEAM, DESCRIBE),), 30, beside=((*ORDERS, DESCRIBE),)),
    Row(offset_fetch, ((*ORDERS, DESCRIBE),), 29, beside=((*TEAM, DESCRIBE),)),
    Row(offset_fetch_of_all, ((*ORDERS, DESCRIBE),), 29, beside=((*TEAM, DESCRIBE),)),
    Row(find_coordinator, ((*TEAM, DESCRIBE), (*TEAM, READ), (*TEAM, DELETE)), 30),
    Row(join, ((GROUP, "joined", READ),), 30),
    Row(sync, ((*TEAM, READ),), 30, having=25),
    Row(heartbeat, ((*TEAM, READ),), 30, having=25),
    Row(leave, ((*TEAM, READ),), 30, having=25),
    Row(describe_group, ((*TEAM, DESCRIBE),), 30),
    Row(list_groups, ((*TEAM, DESCRIBE), (*ON_CLUSTER, DESCRIBE)), 30),
    Row(delete_group, ((GROUP, "none", DELETE),), 30, having=69),
    Row(offset_delete, ((*TEAM, DELETE),), 30, having=3, beside=((*ORDERS, READ),)),
    Row(offset_delete, ((*ORDERS, READ),), 29, having=3, beside=((*TEAM, DELETE),)),
    Row(create_topic, ((TOPIC, "new", CREATE), (*ON_CLUSTER, CREATE)), 29),
    Row(delete_topic, ((TOPIC, "gone", DELETE), (*ON_CLUSTER, DELETE)), 29, having=3),
    Row(delete_records, ((*ORDERS, DELETE),), 29),
    Row(create_partitions, ((*ORDERS, ALTER),), 29),
    Row(describe_configs(TOPIC, "orders"), ((*ORDERS, DESCRIBE_CONFIGS), (*ORDERS, ALTER_CONFIGS)), 29),
    Row(describe_configs(4, ""), ((*ON_CLUSTER, DESCRIBE_CONFIGS),), 31),
    Row(describe_configs(32, "team"), ((*TEAM, DESCRIBE_CONFIGS),), 30),
    Row(alter_configs, ((*ORDERS, ALTER_CONFIGS),), 29),
    Row(producer_id, ((*ON_CLUSTER, IDEMPOTENT_WRITE), (TOPIC, "anything", WRITE)), 31),
    Row(describe_acls, ((*ON_CLUSTER, DESCRIBE),), 31),
    Row(create_acls, ((*ON_CLUSTER, ALTER),), 31, having=42),
    Row(delete_acls, ((*ON_CLUSTER, ALTER),), 31),
    Row(describe_quotas, ((*ON_CLUSTER, DESCRIBE_CONFIGS),), 31),
    Row(alter_quotas, ((*ON_CLUSTER, ALTER_CONFIGS),), 31),
    Row(elect, ((*ON_CLUSTER, ALTER),), 31),
    Row(reassign, ((*ON_CLUSTER, ALTER),), 31),
    Row(list_moves, ((*ON_CLUSTER, DESCRIBE),), 31),
    Row(log_dirs, ((*ON_CLUSTER, DESCRIBE),), 31),
    Row(update_features, ((*ON_CLUSTER, ALTER),), 31),
    Row(describe_cluster, ((*ON_CLUSTER, DESCRIBE),), 31),
    Row(topic_partitions_of_all, ((*ORDERS, DESCRIBE),), 29),
    Row(producers, ((*ORDERS, READ),), 29),
    Row(replace_configs, ((*ORDERS, ALTER_CONFIGS),), 29),
    Row(quorum, ((*ON_CLUSTER, DESCRIBE),), 31),
    Row(describe_scram, ((*ON_CLUSTER, DESCRIBE),), 31),
    Row(alter_scram, ((*ON_CLUSTER, ALTER),), 31, having=91),
    Row(unregister, ((*ON_CLUSTER, ALTER),), 31, having=102),
    Row(find_transactions, ((*MOVING, DESCRIBE), (*MOVING, WRITE)), 53),
    Row(transactional_producer_id, ((*MOVING, WRITE),), 53),
    Row(add_partitions, ((*MOVING, WRITE),), 53, having=49, beside=((*ORDERS, WRITE),)),
    Row(add_partitions, ((*ORDERS, WRITE),), 29, having=49, beside=((*MOVING, WRITE),)),
    Row(add_partitions_of_brokers, ((*ON_CLUSTER, CLUSTER_ACTION),), 31, having=49),
    Row(add_offsets, ((*MOVING, WRITE),), 53, having=49, beside=((*TEAM, READ),)),
    Row(add_offsets, ((*TEAM, READ),), 30, having=49, beside=((*MOVING, WRITE),)),
    Row(end_transaction, ((*MOVING, WRITE),), 53, having=49),
    Row(commit_in_transaction, ((*MOVING, WRITE),), 53, having=49, beside=((*TEAM, READ), (*ORDERS, READ))),
    Row(commit_in_transaction, ((*TEAM, READ),), 30, having=49, beside=((*MOVING, WRITE), (*ORDERS, READ))),
    Row(commit_in_transaction, ((*ORDERS, READ),), 29, having=49, beside=((*MOVING, WRITE), (*TEAM, READ))),
    Row(describe_transaction, ((*MOVING, DESCRIBE), (*MOVING, WRITE)), 53),
    Row(list_transactions, ((*MOVING, DESCRIBE), (*MOVING, WRITE)), 53),
    Row(write_markers, ((*ON_CLUSTER, ALTER), (*ON_CLUSTER, CLUSTER_ACTION)), 31),
)
ASK_NOBODY = {Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE}
"""Answered to whoever asks."""


class Asked(Exception):
    """The API that a row asks."""


class Listening(World):
    """Asks nobody."""

    def __init__(self) -> None:
        self.port = 0
        self.ids = defaultdict(uuid.uuid4)

    @override
    def ask(self, api: str, version: int, **fields: Any) -> Any:
        raise Asked(api)


def test_each_api_that_is_advertised_has_its_row() -> None:
    found = {"UnregisterBroker"}  # by a connection of its own
    for row in ROWS:
        if row.ask is not unregister:
            with pytest.raises(Asked) as asked:
                row.ask(Listening())
            found.add(str(asked.value))
    wanted = {"".join(word.capitalize() for word in Api(api).name.split("_")) for api in set(VERSIONS) - ASK_NOBODY}
    assert found == wanted


def named(row: Row) -> str:
    return f"{row.ask.__name__}-{row.without}"


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_each_right_decides_what_its_row_says(world: World, row: Row) -> None:
    world.grant(*(acl(*right) for right in row.beside))
    assert row.ask(world) == row.without, "nothing is allowed"
    first = row.rights[0]
    world.grant(*(acl(*right, host=ELSEWHERE) for right in row.rights))
    assert row.ask(world) == row.without, "allowed from another host"
    if first[0] != CLUSTER:
        world.grant(acl(first[0], first[1][:3] + "zzz", first[2], resource_pattern_type=PREFIXED))
        assert row.ask(world) == (row.having if row.ask is producer_id else row.without), "another prefix"
    world.revoke()
    for right in row.rights:
        world.grant(*(acl(*one) for one in row.beside))
        world.grant(acl(*right))
        assert row.ask(world) == row.having, ("allowed", right)
        world.revoke()
        if right[0] != CLUSTER:
            world.grant(*(acl(*one) for one in row.beside))
            world.grant(acl(right[0], right[1][:2], right[2], resource_pattern_type=PREFIXED))
            assert row.ask(world) == row.having, ("by prefix", right)
            world.revoke()
    world.grant(*(acl(*one) for one in row.beside), *(acl(*right) for right in row.rights))
    resources = {(kind, name) for kind, name, _ in row.rights}
    world.grant(*(acl(*one, ALL, permission_type=DENY, principal="User:*") for one in resources))
    assert row.ask(world) == row.without, "denied beside allowed"


def test_of_a_topic_that_is_named_by_its_id_only_who_may_see_it_learns_the_name(world: World) -> None:
    def asked() -> tuple[int, str | None]:
        topics = [{"name": None, "topic_id": world.ids["secret"]}]
        answer = world.ask("DeleteTopics", 6, topics=topics, timeout_ms=10_000).responses[0]
        return answer.error_code, answer.name

    assert asked() == (29, None)
    world.grant(acl(TOPIC, "secret", DESCRIBE))
    assert asked() == (29, "secret")


def test_who_may_describe_is_told_that_a_topic_is_not_there(world: World) -> None:
    world.grant(acl(TOPIC, "gone", DESCRIBE))
    assert delete_topic(world) == 3


def test_the_configs_of_a_new_topic_are_for_who_may_describe_them(world: World) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}

    def made() -> Any:
        return world.ask("CreateTopics", 5, topics=[topic], timeout_ms=10_000, validate_only=True).topics[0]

    world.grant(acl(TOPIC, name, CREATE))
    answer = made()
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, -1, -1)
    assert (answer.topic_config_error_code, answer.configs or None) == (29, None)
    world.grant(acl(TOPIC, name, DESCRIBE_CONFIGS))
    answer = made()
    assert (answer.topic_config_error_code, answer.num_partitions, answer.replication_factor) == (0, 1, 1)
    assert answer.configs


def test_what_a_client_may_do_is_told_with_what_it_describes(world: World) -> None:
    world.grant(acl(TOPIC, "orders", READ), acl(TOPIC, "orders", ALTER_CONFIGS), acl(GROUP, "team", READ))
    fields = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    answer = world.ask("Metadata", 9, topics=[{"name": "orders"}], **fields)
    may = {READ, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS}
    assert set(answer.topics[0].authorized_operations) == may
    assert not answer.authorized_operations
    groups = world.ask("DescribeGroups", 4, groups=["team"], include_authorized_operations=True).groups
    assert set(groups[0].authorized_operations) == {READ, DESCRIBE}


_TOLD = "(resourceType=TOPIC, name=told, patternType=LITERAL)`:"
_GROUP = "(resourceType=GROUP, name=told, patternType=LITERAL)`:"
_PREFIX = "(resourceType=TOPIC, name=tol, patternType=PREFIXED)`:"
_READ = "(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)"
_DESCRIBE = "(principal=User:bob, host=*, operation=DESCRIBE, permissionType=ALLOW)"
_EVE = "(principal=User:eve, host=10.0.0.9, operation=WRITE, permissionType=DENY)"
_EVERYTHING = (
    "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=*, patternType=LITERAL)`:",
    f"(principal=User:ANONYMOUS, host={ADMIN}, operation=ALL, permissionType=ALLOW)",
)
_ADDING, _CURRENT = "Adding ACLs for resource `ResourcePattern", "Current ACLs for resource `ResourcePattern"
_PREFIXED = "--resource-pattern-type prefixed"
ACLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "--add --allow-principal User:bob --consumer --topic told --group told",
        (_ADDING + _GROUP, _READ, _ADDING + _TOLD, _READ, _DESCRIBE),
    ),
    (
        f"--add --deny-principal User:eve --deny-host 10.0.0.9 --operation Write --topic tol {_PREFIXED}",
        (_ADDING + _PREFIX, _EVE),
    ),
    (
        "--list --topic told --resource-pattern-type match",
        (_CURRENT + _PREFIX, _EVE, *_EVERYTHING, _CURRENT + _TOLD, _READ, _DESCRIBE),
    ),
    ("--remove --force --allow-principal User:bob --operation Describe --topic told", ()),
    ("--list --topic told", (_CURRENT + _TOLD, _READ)),
)
"""What `kafka-acls` is asked, and every line of its answer, by a real Kafka 4.3; they come in any order."""


@pytest.mark.java
def test_kafka_acls_says_line_by_line_what_it_says_of_a_real_kafka(world: World) -> None:
    try:
        for arguments, expected in ACLS:
            said = kafka_tools.run(
                kafka_tools.ACLS, "--bootstrap-server", f"127.0.0.1:{world.port}", *arguments.split()
            )
            assert sorted(line.strip() for line in said.splitlines() if line.strip()) == sorted(expected), arguments
    finally:
        filters = [{**anything(), "principal_filter": f"User:{who}"} for who in ("bob", "eve")]
        world.admin.ask("DeleteAcls", 3, filters=filters)
