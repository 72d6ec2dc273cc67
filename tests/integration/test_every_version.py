"""Every advertised (api, version), asked by kafka-python's encoder; what the answer *means* is checked, not its bytes.

`MUSTER_TEST_AGAINST=kafka` runs the same questions against a real broker.
"""

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.cluster import MusterCluster, wait_until
from tests.integration.second_client import SecondClient
from tests.wire.kio_entities import decode_answer, encode_request
from tests.wire.test_versions import DECISION_33

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

TOPIC = "versions"
WITH_ID = {"Produce": 13, "Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10}
ANY_ACL = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
Ask = Callable[..., Any]


class World:
    """A one-replica cluster with one topic of three records, and ids that are not used twice."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.client = SecondClient(port)
        self.topic_id = uuid.UUID(int=0)

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return self.client.ask(api, version, **fields)

    def unique(self, stem: str) -> str:
        return f"{stem}-{uuid.uuid4().hex[:10]}"

    def prepare(self) -> None:
        self.create(TOPIC, 2)
        self.topic_id = self.ask("Metadata", 12, topics=[{"name": TOPIC}]).topics[0].topic_id
        values = [b"one", b"two", b"three"]
        wait_until("records", lambda: self.produce(9, values).responses[0].partition_responses[0].error_code == 0, 10)

    def create(self, name: str, partitions: int, version: int = 5) -> Any:
        topic = {"name": name, "num_partitions": partitions, "replication_factor": -1, "assignments": [], "configs": []}
        if version < 4:
            topic["replication_factor"] = 1
        answer = self.ask("CreateTopics", version, topics=[topic], timeout_ms=10_000, validate_only=False)
        if answer.topics[0].error_code == 0:
            wait_until("the topic is led", lambda: self.led(name, partitions), 10)
        return answer

    def led(self, name: str, partitions: int) -> bool:
        topic = self.ask("Metadata", 9, topics=[{"name": name}]).topics[0]
        return len(topic.partitions) == partitions and all(p.error_code == 0 for p in topic.partitions)

    def produce(self, version: int, values: list[bytes], partition: int = 0) -> Any:
        batch = encode_batch([(None, v) for v in values], timestamp_ms=1_700_000_000_000)
        topic = {"name": TOPIC, "topic_id": self.topic_id}
        data = [{**topic, "partition_data": [{"index": partition, "records": bytes(batch)}]}]
        return self.ask("Produce", version, transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=data)

    def member(self, group: str) -> tuple[str, int]:
        """A lone member of a new group, synced; (member id, generation)."""
        answer = self.join(5, group)
        member = answer.member_id
        answer = self.join(5, group, member)
        assert answer.error_code == 0
        synced = self.sync(3, group, member, answer.generation_id)
        assert synced.error_code == 0
        return member, answer.generation_id

    def join(self, version: int, group: str, member: str = "") -> Any:
        return self.ask(
            "JoinGroup",
            version,
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
            reason="because",
        )

    def sync(self, version: int, group: str, member: str, generation: int) -> Any:
        return self.ask(
            "SyncGroup",
            version,
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": member, "assignment": b"plan"}],
        )

    def commit(self, version: int, group: str, offset: int, member: str = "", generation: int = -1) -> Any:
        partition = {"partition_index": 1, "committed_offset": offset, "committed_metadata": "m"}
        if version >= 6:
            partition["committed_leader_epoch"] = 3
        return self.ask(
            "OffsetCommit",
            version,
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[{"name": TOPIC, "topic_id": self.topic_id, "partitions": [partition]}],
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("versions")
    if os.environ.get("MUSTER_TEST_AGAINST") == "kafka":
        from tests.kafka_broker import KafkaBroker

        with KafkaBroker(folder) as broker:
            yield from prepared(broker.port)
        return
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with MusterCluster(folder / "data", replicas=1, partitions=4, settings=settings) as cluster:
        yield from prepared(cluster.port)


def prepared(port: int) -> Iterator[World]:
    it = World(port)
    try:
        it.prepare()
        it.ask("FindCoordinator", 0, key="warm")  # makes a fresh Kafka create its offsets topic
        wait_until("groups are served", lambda: it.join(3, "warm").error_code == 0, 20)
        yield it
    finally:
        it.client.close()


# --- one question per API; each takes (world, version)


def ask_produce(world: World, version: int) -> None:
    answer = world.produce(version, [b"x"], partition=1).responses[0].partition_responses[0]
    assert answer.error_code == 0
    assert answer.base_offset >= 0


def ask_fetch(world: World, version: int) -> None:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    partition |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
    answer = world.ask(
        "Fetch",
        version,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": TOPIC, "topic_id": world.topic_id, "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    got = answer.responses[0].partitions[0]
    assert got.error_code == 0
    assert got.high_watermark >= 3
    assert b"three" in bytes(got.records)
    if version >= 7:
        fetch_session(world, version, {**partition, "fetch_offset": got.high_watermark})


def fetch_session(world: World, version: int, at_the_end: dict[str, int]) -> None:
    """KIP-227: only what is new is told, another epoch is refused, and the last partition ends the session."""
    topic = {"topic": TOPIC, "topic_id": world.topic_id}
    bounds = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0, "rack_id": ""}

    def poll(
        session: int, epoch: int, *partitions: dict[str, int], forget: tuple[int, ...] = ()
    ) -> tuple[int, int, int]:
        """(error, session, partitions told)."""
        answer = world.ask(
            "Fetch", version, session_id=session, session_epoch=epoch,
            topics=[{**topic, "partitions": list(partitions)}] if partitions else [],
            forgotten_topics_data=[{**topic, "partitions": list(forget)}] if forget else [], **bounds,
        )  # fmt: skip
        return answer.error_code, answer.session_id, sum(len(one.partitions) for one in answer.responses)

    error, session, told = poll(0, 0, at_the_end)
    assert (error, session > 0, told) == (0, True, 1)
    assert poll(session, 1) == (0, session, 0)
    assert poll(session, 2, {**at_the_end, "fetch_offset": 0}) == (0, session, 1)
    assert poll(session, 9)[0] == 71
    assert poll(0, 3)[0] == 70
    assert poll(session, 3, forget=(0,)) == (0, 0, 0)
    assert poll(session, 4)[0] == 70
    error, session, _ = poll(0, 0, at_the_end)
    assert poll(session, -1) == (0, 0, 0)
    assert poll(session, 1)[0] == 70


def ask_list_offsets(world: World, version: int) -> None:
    def at(timestamp: int) -> tuple[int, int]:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": TOPIC, "partitions": [partition]}]
        answer = world.ask("ListOffsets", version, isolation_level=0, topics=topics, timeout_ms=5000)
        got = answer.topics[0].partitions[0]
        return got.error_code, got.offset

    assert at(-1) == (0, 3)
    assert at(-2) == (0, 0)
    assert at(1_700_000_000_000) == (0, 0)
    if version >= 7:
        assert at(-3) == (0, 0)


def ask_metadata(world: World, version: int) -> None:
    answer = world.ask("Metadata", version, topics=[{"name": TOPIC}], allow_auto_topic_creation=False)
    topic = answer.topics[0]
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, TOPIC, 2)
    assert {p.leader_id for p in topic.partitions} <= {b.node_id for b in answer.brokers}
    if version >= 1:
        assert answer.controller_id in {b.node_id for b in answer.brokers}
    if version >= 2:
        assert len(answer.cluster_id) == 22
    if version >= 10:
        assert topic.topic_id == world.topic_id


def ask_offset_commit(world: World, version: int) -> None:
    group = world.unique("commit")
    answer = world.commit(version, group, 77)
    assert answer.topics[0].partitions[0].error_code == 0
    got = world.ask("OffsetFetch", 5, group_id=group, topics=[{"name": TOPIC, "partition_indexes": [1]}])
    read = got.topics[0].partitions[0]
    assert (read.committed_offset, read.metadata) == (77, "m")
    assert read.committed_leader_epoch == (3 if version >= 6 else -1)


def ask_offset_fetch(world: World, version: int) -> None:
    group = world.unique("fetch")
    world.commit(6, group, 5)
    topics = [{"name": TOPIC, "topic_id": world.topic_id, "partition_indexes": [0, 1]}]
    if version >= 8:
        groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}]
        answer = world.ask("OffsetFetch", version, groups=groups, require_stable=False).groups[0]
    else:
        answer = world.ask("OffsetFetch", version, group_id=group, topics=topics, require_stable=False)
    if version >= 2:
        assert answer.error_code == 0
    got = {p.partition_index: p.committed_offset for p in answer.topics[0].partitions}
    assert got == {0: -1, 1: 5}


def ask_find_coordinator(world: World, version: int) -> None:
    group = world.unique("find")
    if version >= 4:
        answer = world.ask("FindCoordinator", version, key_type=0, coordinator_keys=[group, "other"])
        assert [c.key for c in answer.coordinators] == [group, "other"]
        found = answer.coordinators[0]
    else:
        found = world.ask("FindCoordinator", version, key=group, key_type=0)
    assert (found.error_code, found.port) == (0, world.port)


def ask_join_group(world: World, version: int) -> None:
    group = world.unique("join")
    answer = world.join(version, group)
    if version >= 4:
        assert answer.error_code == 79
        answer = world.join(version, group, answer.member_id)
    assert answer.error_code == 0
    assert answer.generation_id == 1
    assert answer.leader == answer.member_id
    assert [m.member_id for m in answer.members] == [answer.member_id]
    assert answer.protocol_name == "range"
    if version >= 7:
        assert answer.protocol_type == "consumer"


def ask_heartbeat(world: World, version: int) -> None:
    group = world.unique("beat")
    member, generation = world.member(group)
    fields = {"group_id": group, "member_id": member, "group_instance_id": None}
    assert world.ask("Heartbeat", version, generation_id=generation, **fields).error_code == 0
    assert world.ask("Heartbeat", version, generation_id=generation + 1, **fields).error_code == 22


def ask_leave_group(world: World, version: int) -> None:
    group = world.unique("leave")
    member, _ = world.member(group)
    identity = {"member_id": member, "group_instance_id": None, "reason": "done"}
    answer = world.ask("LeaveGroup", version, group_id=group, member_id=member, members=[identity])
    assert answer.error_code == 0
    if version >= 3:
        assert [(m.member_id, m.error_code) for m in answer.members] == [(member, 0)]


def ask_sync_group(world: World, version: int) -> None:
    group = world.unique("sync")
    first = world.join(5, group)
    joined = world.join(5, group, first.member_id)
    answer = world.sync(version, group, joined.member_id, joined.generation_id)
    assert (answer.error_code, bytes(answer.assignment)) == (0, b"plan")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def ask_describe_groups(world: World, version: int) -> None:
    group = world.unique("describe")
    member, _ = world.member(group)
    answer = world.ask("DescribeGroups", version, groups=[group, "absent"], include_authorized_operations=False)
    known, absent = answer.groups
    assert (known.error_code, known.group_state, known.protocol_data) == (0, "Stable", "range")
    assert [m.member_id for m in known.members] == [member]
    assert bytes(known.members[0].member_assignment) == b"plan"
    assert known.members[0].client_host == "/127.0.0.1"
    assert (absent.group_state, absent.error_code) == ("Dead", 69 if version >= 6 else 0)


def ask_list_groups(world: World, version: int) -> None:
    group = world.unique("list")
    world.member(group)
    answer = world.ask("ListGroups", version, states_filter=[], types_filter=[])
    listed = {g.group_id: g for g in answer.groups}
    assert listed[group].protocol_type == "consumer"
    if version >= 4:
        assert listed[group].group_state == "Stable"
        empty = world.ask("ListGroups", version, states_filter=["Empty"], types_filter=[])
        assert group not in {g.group_id for g in empty.groups}
    if version >= 5:
        assert listed[group].group_type.lower() == "classic"


def ask_api_versions(world: World, version: int) -> None:
    answer = world.ask("ApiVersions", version, client_software_name="test", client_software_version="1.0")
    assert answer.error_code == 0
    ranges = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
    assert ranges[18] == (0, 4)
    assert ranges[0][0] == 0


def ask_create_topics(world: World, version: int) -> None:
    name = world.unique("created")
    answer = world.create(name, 3, version)
    assert answer.topics[0].error_code == 0
    if version >= 5:
        assert answer.topics[0].num_partitions == 3
    if version >= 7:
        assert answer.topics[0].topic_id.int != 0
    assert world.create(name, 3, version).topics[0].error_code == 36


def ask_delete_topics(world: World, version: int) -> None:
    name = world.unique("deleted")
    world.create(name, 1)
    if version >= 6:
        fields: dict[str, Any] = {"topics": [{"name": name, "topic_id": uuid.UUID(int=0)}]}
    else:
        fields = {"topic_names": [name]}
    answer = world.ask("DeleteTopics", version, timeout_ms=10_000, **fields)
    assert answer.responses[0].error_code == 0
    wait_until("gone", lambda: world.ask("Metadata", 4, topics=[{"name": name}]).topics[0].error_code == 3, 10)


def ask_delete_records(world: World, version: int) -> None:
    name = world.unique("truncated")
    world.create(name, 1)
    partition = {"partition_index": 0, "offset": 0}

    def truncated() -> bool:
        """6 while the new partition's leader has not begun to serve."""
        topics = [{"name": name, "partitions": [partition]}]
        got = world.ask("DeleteRecords", version, topics=topics, timeout_ms=10_000).topics[0].partitions[0]
        assert got.error_code in (0, 6)
        return (got.error_code, got.low_watermark) == (0, 0)

    wait_until("nothing to delete", truncated, 5)
    partition["offset"] = 5
    answer = world.ask("DeleteRecords", version, topics=[{"name": name, "partitions": [partition]}], timeout_ms=10_000)
    assert answer.topics[0].partitions[0].error_code == 1


def ask_init_producer_id(world: World, version: int) -> None:
    fields = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}

    def fresh() -> Any:
        """14 until the first block of ids is there, as in Kafka."""
        answer = world.ask("InitProducerId", version, transactional_id=None, **fields)
        return answer if answer.error_code == 0 else None

    first, second = (wait_until("a producer id", fresh, 10) for _ in range(2))
    assert first.producer_id != second.producer_id
    assert first.producer_epoch == second.producer_epoch == 0


def ask_txn_offset_commit(world: World, version: int) -> None:
    """Of a transaction that nobody began: its coordinator does not know the id (49), or there is none until somebody
    begins one, so that clients ask again (15, here 14 from v2 on)."""
    partition = {"partition_index": 1, "committed_offset": 5, "committed_metadata": "m"}
    if version >= 2:
        partition["committed_leader_epoch"] = 3
    members = {"generation_id": -1, "member_id": "", "group_instance_id": None} if version >= 3 else {}
    group = world.unique("in-transaction")
    topics = [{"name": TOPIC, "partitions": [partition]}]
    fields = {"transactional_id": world.unique("nobody"), "producer_id": 4_711, "producer_epoch": 0, **members}
    answer = world.ask("TxnOffsetCommit", version, group_id=group, topics=topics, **fields)
    assert answer.topics[0].partitions[0].error_code in (14, 15, 49)
    got = world.ask("OffsetFetch", 5, group_id=group, topics=[{"name": TOPIC, "partition_indexes": [1]}])
    assert got.topics[0].partitions[0].committed_offset == -1


def ask_offset_for_leader_epoch(world: World, version: int) -> None:
    epoch = world.ask("Metadata", 9, topics=[{"name": TOPIC}]).topics[0].partitions[0].leader_epoch
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    topics = [{"topic": TOPIC, "partitions": [partition]}]
    got = world.ask("OffsetForLeaderEpoch", version, replica_id=-2, topics=topics).topics[0].partitions[0]
    assert (got.error_code, got.end_offset) == (0, 3)


def ask_describe_configs(world: World, version: int) -> None:
    resource = {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": ["retention.ms", "cleanup.policy"]}
    answer = world.ask(
        "DescribeConfigs", version, resources=[resource], include_synonyms=True, include_documentation=False
    )
    got = answer.results[0]
    assert got.error_code == 0
    assert {c.name: c.value for c in got.configs} == {"retention.ms": "604800000", "cleanup.policy": "delete"}


def ask_sasl_handshake(world: World, version: int) -> None:
    answer = world.ask("SaslHandshake", version, mechanism="PLAIN")
    assert (answer.error_code, list(answer.mechanisms)) == (34, [])


def ask_sasl_authenticate(world: World, version: int) -> None:
    assert world.ask("SaslAuthenticate", version, auth_bytes=b"\0me\0secret").error_code == 34


def ask_describe_acls(world: World, version: int) -> None:
    answer = world.ask("DescribeAcls", version, **ANY_ACL)
    assert (answer.error_code, list(answer.resources)) == (54, [])


def ask_create_acls(world: World, version: int) -> None:
    acl = {"resource_type": 2, "resource_name": TOPIC, "resource_pattern_type": 3, "principal": "User:me"}
    answer = world.ask("CreateAcls", version, creations=[{**acl, "host": "*", "operation": 3, "permission_type": 3}])
    assert [r.error_code for r in answer.results] == [54]


def ask_delete_acls(world: World, version: int) -> None:
    answer = world.ask("DeleteAcls", version, filters=[ANY_ACL, ANY_ACL])
    assert [(r.error_code, list(r.matching_acls)) for r in answer.filter_results] == [(54, []), (54, [])]


def ask_alter_configs(world: World, version: int) -> None:
    """The whole set is replaced: what is not named goes back to its default."""
    name = world.unique("replaced")
    world.create(name, 1)

    def replace(**configs: str) -> int:
        named = [{"name": key, "value": value} for key, value in configs.items()]
        resource = {"resource_type": 2, "resource_name": name, "configs": named}
        answer = world.ask("AlterConfigs", version, resources=[resource], validate_only=False)
        return int(answer.responses[0].error_code)

    def shown() -> dict[str, str]:
        wanted = {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms", "segment.ms"]}
        got = world.ask("DescribeConfigs", 1, resources=[wanted], include_synonyms=False)
        return {c.name: c.value for c in got.results[0].configs}

    assert replace(**{"retention.ms": "12345678"}) == 0
    wait_until("the first value", lambda: shown()["retention.ms"] == "12345678", 10)
    assert replace(**{"segment.ms": "7654321"}) == 0
    wait_until("the second set", lambda: shown() == {"retention.ms": "604800000", "segment.ms": "7654321"}, 10)
    assert replace(**{"no.such": "1"}) == 40


def ask_describe_log_dirs(world: World, version: int) -> None:
    asked = [{"topic": TOPIC, "partitions": [0, 1]}, {"topic": "never-was", "partitions": [0]}]
    (folder,) = world.ask("DescribeLogDirs", version, topics=asked).results
    assert (folder.error_code, folder.log_dir.startswith("/")) == (0, True)
    (topic,) = folder.topics
    assert (topic.name, [p.partition_index for p in topic.partitions]) == (TOPIC, [0, 1])
    assert topic.partitions[0].partition_size >= len(encode_batch([(None, b"one")], timestamp_ms=0))
    if version >= 4:
        assert folder.usable_bytes > 0


def ask_elect_leaders(world: World, version: int) -> None:
    """The only replica is everybody's preferred leader."""
    asked = [{"topic": TOPIC, "partitions": [0]}, {"topic": "never-was", "partitions": [0]}]
    answer = world.ask("ElectLeaders", version, election_type=0, topic_partitions=asked, timeout_ms=5_000)
    told = {r.topic: [p.error_code for p in r.partition_result] for r in answer.replica_election_results}
    assert told == {TOPIC: [84], "never-was": [3]}


def ask_describe_client_quotas(world: World, version: int) -> None:
    everyone = [{"entity_type": "user", "match_type": 2, "match": None}]
    answer = world.ask("DescribeClientQuotas", version, components=everyone, strict=False)
    assert (answer.error_code, list(answer.entries)) == (0, [])


def ask_alter_client_quotas(world: World, version: int) -> None:
    user = world.unique("user")
    entity = [{"entity_type": "user", "entity_name": user}]
    here = [{"entity_type": "user", "match_type": 0, "match": user}]

    def alter(remove: bool) -> None:
        ops = [{"key": "producer_byte_rate", "value": 5e6, "remove": remove}]
        answer = world.ask("AlterClientQuotas", version, entries=[{"entity": entity, "ops": ops}], validate_only=False)
        assert [entry.error_code for entry in answer.entries] == [0]

    def told() -> list[tuple[str, float]]:
        entries = world.ask("DescribeClientQuotas", version, components=here, strict=True).entries
        return [(value.key, value.value) for entry in entries for value in entry.values]

    alter(remove=False)
    wait_until("it is in the image", lambda: told() == [("producer_byte_rate", 5e6)], 5)
    alter(remove=True)
    wait_until("it is gone", lambda: not told(), 5)


def ask_describe_quorum(world: World, version: int) -> None:
    asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = world.ask("DescribeQuorum", version, topics=asked)
    (got,) = answer.topics[0].partitions
    assert (answer.error_code, got.error_code) == (0, 0)
    (voter,) = got.current_voters
    assert got.leader_id == voter.replica_id
    assert 0 < got.high_watermark <= voter.log_end_offset


def ask_describe_producers(world: World, version: int) -> None:
    asked = [{"name": TOPIC, "partition_indexes": [0, 9]}, {"name": "never-was", "partition_indexes": [0]}]
    answer = world.ask("DescribeProducers", version, topics=asked)
    assert [(t.name, [p.error_code for p in t.partitions]) for t in answer.topics] == [
        (TOPIC, [0, 3]),
        ("never-was", [3]),
    ]
    assert all(one.current_txn_start_offset == -1 for one in answer.topics[0].partitions[0].active_producers)


def ask_list_transactions(world: World, version: int) -> None:
    """Other questions have begun transactions, too."""
    me = transactional(world)
    name = me["transactional_id"]

    def listed(*states: str) -> set[str]:
        asked = world.ask("ListTransactions", version, state_filters=list(states), producer_id_filters=[])
        assert (asked.error_code, list(asked.unknown_state_filters)) == (0, [one for one in states if one == "Odd"])
        return {one.transactional_id for one in asked.transaction_states}

    assert name in listed("Empty", "Odd")
    assert name not in listed("Ongoing", "Odd")


def transactional(world: World) -> dict[str, Any]:
    """The fields that name a new transactional producer."""
    name = world.unique("tx")
    fields = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}

    def found() -> Any:
        """15 until the transaction log is made, and its partition has a leader, as in Kafka."""
        answer = world.ask("FindCoordinator", 2, key=name, key_type=1)
        given = world.ask("InitProducerId", 3, transactional_id=name, **fields) if answer.error_code == 0 else answer
        assert given.error_code in (0, 14, 15, 16)
        return given if given.error_code == 0 and answer.error_code == 0 else None

    given = wait_until("a transactional producer", found, 30)
    return {
        "transactional_id": name,
        "producer_id": given.producer_id,
        "producer_epoch": given.producer_epoch,
    }


def ask_describe_transactions(world: World, version: int) -> None:
    me = transactional(world)
    answer = world.ask("DescribeTransactions", version, transactional_ids=[me["transactional_id"]])
    (found,) = answer.transaction_states
    assert (found.error_code, found.transaction_state, found.producer_id) == (0, "Empty", me["producer_id"])


def add_to_transaction(world: World, version: int, me: dict[str, Any]) -> int:
    topics = [{"name": TOPIC, "partitions": [1]}]  # an end is a record: those of partition 0 are counted
    if version >= 4:
        asked = [{**me, "verify_only": False, "topics": topics}]
        answer = world.ask("AddPartitionsToTxn", version, transactions=asked)
        assert answer.error_code == 0
        (result,) = answer.results_by_transaction[0].topic_results
    else:
        fields = {f"v3_and_below_{name}": value for name, value in me.items()}
        answer = world.ask("AddPartitionsToTxn", version, **fields, v3_and_below_topics=topics)
        (result,) = answer.results_by_topic_v3_and_below
    return int(result.results_by_partition[0].partition_error_code)


def ask_add_partitions_to_txn(world: World, version: int) -> None:
    me = transactional(world)
    assert add_to_transaction(world, version, me) == 0
    assert add_to_transaction(world, version, {**me, "producer_epoch": 9}) == (90 if version >= 2 else 47)


def ask_add_offsets_to_txn(world: World, version: int) -> None:
    me = transactional(world)
    assert world.ask("AddOffsetsToTxn", version, **me, group_id=world.unique("in-tx")).error_code == 0


def ask_end_txn(world: World, version: int) -> None:
    me = transactional(world)
    assert add_to_transaction(world, 3, me) == 0
    answer = world.ask("EndTxn", version, **me, committed=False)
    assert answer.error_code == 0
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (me["producer_id"], me["producer_epoch"] + 1)


def ask_write_txn_markers(world: World, version: int) -> None:
    """An abort of a transaction that is not open does no harm."""
    more = {"transaction_version": 0} if version >= 2 else {}
    marker = {
        "producer_id": 123_456_789,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": TOPIC, "partition_indexes": [1]}],
        **more,
    }
    answer = world.ask("WriteTxnMarkers", version, markers=[marker])
    assert answer.markers[0].topics[0].partitions[0].error_code == 0


def ask_create_partitions(world: World, version: int) -> None:
    name = world.unique("grown")
    world.create(name, 1)
    wanted = {"name": name, "count": 3, "assignments": None}
    answer = world.ask("CreatePartitions", version, topics=[wanted], timeout_ms=10_000, validate_only=False)
    assert answer.results[0].error_code == 0
    wait_until("three partitions", lambda: world.led(name, 3), 10)


def ask_delete_groups(world: World, version: int) -> None:
    group = world.unique("dead")
    world.commit(6, group, 1)
    answer = world.ask("DeleteGroups", version, groups_names=[group, "never-was"])
    assert {r.group_id: r.error_code for r in answer.results} == {group: 0, "never-was": 69}


def ask_incremental_alter_configs(world: World, version: int) -> None:
    name = world.unique("altered")
    world.create(name, 1)
    config = {"name": "retention.ms", "config_operation": 0, "value": "12345678"}
    resource = {"resource_type": 2, "resource_name": name, "configs": [config]}
    answer = world.ask("IncrementalAlterConfigs", version, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == 0

    def seen() -> bool:
        wanted = {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]}
        got = world.ask("DescribeConfigs", 1, resources=[wanted], include_synonyms=False)
        return bool(got.results[0].configs[0].value == "12345678")

    wait_until("the new value", seen, 10)


def ask_alter_partition_reassignments(world: World, version: int) -> None:
    """The only broker stays; another one is not registered."""
    (broker,) = world.ask("DescribeCluster", 0).brokers
    moves = {0: [broker.broker_id], 1: [broker.broker_id + 99], 2: [broker.broker_id]}
    parts = [{"partition_index": number, "replicas": replicas} for number, replicas in moves.items()]
    asked = [{"name": TOPIC, "partitions": parts}, {"name": "never-was", "partitions": [parts[0]]}]
    more = {"allow_replication_factor_change": True} if version >= 1 else {}
    answer = world.ask("AlterPartitionReassignments", version, timeout_ms=5_000, topics=asked, **more)
    assert answer.error_code == 0
    told = {(r.name, p.partition_index): p.error_code for r in answer.responses for p in r.partitions}
    assert told == {(TOPIC, 0): 0, (TOPIC, 1): 39, (TOPIC, 2): 3, ("never-was", 0): 3}


def ask_unregister_broker(world: World, version: int) -> None:
    """Of nobody. The only broker of a real Kafka would be let go. kafka-python has no such message, kio has."""
    with (
        socket.create_connection(("127.0.0.1", world.port), timeout=30) as connection,
        connection.makefile("rb") as read,
    ):
        connection.sendall(encode_request(Api.UNREGISTER_BROKER, version, {"broker_id": 99}, 7, "second"))
        size = read.read(4)
        frame = size + read.read(int.from_bytes(size, "big"))
    correlation, answer = decode_answer(Api.UNREGISTER_BROKER, version, frame)
    assert (correlation, int(answer.error_code.value)) == (7, 102)


def ask_describe_user_scram_credentials(world: World, version: int) -> None:
    answer = world.ask("DescribeUserScramCredentials", version, users=[("nobody",)])
    assert answer.error_code == 0
    assert [(one.user, one.error_code) for one in answer.results] == [("nobody", 91)]


def ask_alter_user_scram_credentials(world: World, version: int) -> None:
    """A new user; a real Kafka knows it a moment after the answer, so nobody asks for it here."""
    upsertions = [("every-version", 2, 8_192, b"salt", bytes(64))]
    deletions = [("nobody", 1)]
    answer = world.ask("AlterUserScramCredentials", version, deletions=deletions, upsertions=upsertions)
    assert {(one.user, one.error_code) for one in answer.results} == {("every-version", 0), ("nobody", 91)}


def ask_update_features(world: World, version: int) -> None:
    """A level that is too high for anybody, of a feature that only one of the two has."""
    kind = {"allow_downgrade": False} if version == 0 else {"upgrade_type": 1}
    updates = [{"feature": "muster.feature.level", "max_version_level": 9_999, **kind}]
    more = {"validate_only": True} if version >= 1 else {}
    answer = world.ask("UpdateFeatures", version, timeout_ms=5_000, feature_updates=updates, **more)
    assert (answer.error_code if version >= 2 else answer.results[0].error_code) == 95


def ask_list_partition_reassignments(world: World, version: int) -> None:
    answer = world.ask("ListPartitionReassignments", version, timeout_ms=5000, topics=None)
    assert (answer.error_code, list(answer.topics)) == (0, [])


def ask_offset_delete(world: World, version: int) -> None:
    group = world.unique("forget")
    world.commit(6, group, 9)
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 1}]}]
    answer = world.ask("OffsetDelete", version, group_id=group, topics=topics)
    assert answer.error_code == 0
    assert answer.topics[0].partitions[0].error_code == 0
    got = world.ask("OffsetFetch", 5, group_id=group, topics=[{"name": TOPIC, "partition_indexes": [1]}])
    assert got.topics[0].partitions[0].committed_offset == -1


def ask_describe_cluster(world: World, version: int) -> None:
    answer = world.ask(
        "DescribeCluster",
        version,
        include_cluster_authorized_operations=False,
        endpoint_type=1,
        include_fenced_brokers=False,
    )
    assert answer.error_code == 0
    assert [b.port for b in answer.brokers] == [world.port]
    assert answer.controller_id in {b.broker_id for b in answer.brokers}


def ask_describe_topic_partitions(world: World, version: int) -> None:
    answer = world.ask(
        "DescribeTopicPartitions", version, topics=[{"name": TOPIC}], response_partition_limit=1, cursor=None
    )
    assert [p.partition_index for p in answer.topics[0].partitions] == [0]
    assert answer.next_cursor.partition_index == 1


EVERY = [(api, version) for api, span in VERSIONS.items() for version in range(span.min, span.max + 1)]


@pytest.mark.parametrize(("api", "version"), EVERY, ids=[f"{Api(a).name}-{v}" for a, v in EVERY])
def test_answer_means_what_the_second_implementation_expects(world: World, api: int, version: int) -> None:
    globals()[f"ask_{Api(api).name.lower()}"](world, version)


@pytest.mark.skipif(os.environ.get("MUSTER_TEST_AGAINST") == "kafka", reason="Kafka advertises more")
def test_advertised_versions_are_the_decided_ones(world: World) -> None:
    answer = world.ask("ApiVersions", 3, client_software_name="test", client_software_version="1")
    told = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
    assert told == DECISION_33
