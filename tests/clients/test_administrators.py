"""An administrator's round by the libraries of other languages: kafkajs, Java's Admin, confluent-kafka's AdminClient.

Topics are led when their creation is answered, also with manual assignments and more partitions; AlterConfigs; ACLs are
refused in words; the views that tools ask for are there. What the Go libraries do stands in `test_go_libraries.py`.

A real Kafka promises less: what it has created may be unknown, or leaderless, to the next question.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka._model import ElectionType
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import NoReassignmentInProgressError

from tests import java_tools
from tests.clients.server import Server
from tests.cluster import wait_until
from tests.java_tools import CACHE
from tests.machine_parts import give_up

pytestmark = [pytest.mark.clients, pytest.mark.timeout(420)]

HERE = Path(__file__).parent
KAFKAJS = HERE / "kafkajs_tool"
INSTALL_TIMEOUT_S = 120
RUN_TIMEOUT_S = 90
ASK_TIMEOUT_S = 30
PARTITIONS = 12
ALTERED = ("1000000", "2000000")
REPLACED = ("604800000", "2000000")
"""By AlterConfigs of before Kafka 2.3, which puts the second set in the place of the first."""


@pytest.fixture(scope="session")
def kafkajs() -> list[str]:
    """The command, installed as the lock file says, once per version of it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        give_up("node", "no node and npm on PATH")
    assert node is not None
    assert npm is not None
    lock_file = KAFKAJS / "package-lock.json"
    folder = CACHE / "kafkajs" / hashlib.sha256(lock_file.read_bytes()).hexdigest()[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for one in (lock_file, KAFKAJS / "package.json"):
                shutil.copy(one, partial)
            command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run(
                command, cwd=partial, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
            )
            if done.returncode:
                give_up("node", f"kafkajs cannot be installed: {done.stderr[-500:]}")
            partial.rename(folder)
    return ["env", f"NODE_PATH={folder / 'node_modules'}", node, str(KAFKAJS / "main.js")]


def told(command: list[str], server: Server, name: str) -> dict[str, Any]:
    """What a library's round told of a topic of its own."""
    done = subprocess.run(
        [*command, server.bootstrap, server.unique(name)],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
        env={**os.environ, "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def check_topics(got: dict[str, Any], server: Server) -> None:
    assert (got["leaderless"], got["leaderlessGrown"]) == (0, 0)
    assert (got["brokers"], got["assigned"]) == (server.replicas, server.replicas)


def check_broker(got: dict[str, Any], server: Server) -> None:
    """A real Kafka of today tells no release any more; tools that ask for one take ours for what it speaks like."""
    assert int(got["copies"]) == server.replicas
    assert bool(got["release"]) == server.is_muster


def test_kafkajs(kafkajs: list[str], server: Server) -> None:
    got = told(kafkajs, server, "kafkajs")
    check_topics(got, server)
    check_broker(got, server)
    assert (got["retention"], got["segment"]) == REPLACED
    assert {got["aclsCreated"], got["aclsDescribed"], got["aclsDeleted"]} == {"SECURITY_DISABLED"}
    assert got["moving"] == 0


@pytest.mark.java
def test_java_admin(server: Server) -> None:
    class_path = java_tools.compile_java(
        [HERE / "members" / "java" / "Administrator.java"], java_tools.classpath(*java_tools.KAFKA_ALL)
    )
    quiet = f"-Dlog4j2.configurationFile={HERE / 'members' / 'java' / 'log4j2-quiet.yaml'}"
    got = told([*java_tools.jvm(class_path, 96, quiet), "Administrator"], server, "java-admin")
    check_topics(got, server)
    check_broker(got, server)
    assert (got["retention"], got["segment"]) == ALTERED
    refused = {got["aclsCreated"], got["aclsDescribed"], got["aclsDeleted"]}
    assert refused == {"SecurityDisabledException"}
    assert got["elected"] == "ElectionNotNeededException"
    assert (got["quorumLeader"], got["voters"]) == (True, server.replicas)
    assert got["replicas"] == (PARTITIONS + 3) * server.replicas
    assert (got["quotas"], got["moving"]) == (0, 0)
    assert got["transactions"] >= 0, "told, however many others have on this server"
    assert (got["moved"], got["movedTo"], got["listed"]) == ("", True, 0)
    assert got["movedToNobody"] == "InvalidReplicaAssignmentException"
    assert got["cancelled"] == "NoReassignmentInProgressException"
    assert got["unknownMoved"] == "UnknownTopicOrPartitionException"
    assert got["unregistered"] == "BrokerIdNotRegisteredException"
    assert (got["level"] > 0) == server.is_muster
    assert got["lowered"] == "InvalidUpdateVersionException"


def test_kafka_python_moves_partitions(server: Server) -> None:
    topic = server.create(server.unique("kafka-python-moves"), 1)
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap)
    try:
        one = KafkaPythonPartition(topic, 0)
        brokers = sorted(broker["broker_id"] for broker in admin.describe_cluster()["brokers"])
        assert admin.alter_partition_reassignments({one: brokers[::-1]}) == {one: None}
        assert admin.list_partition_reassignments({topic: [0]}) == {}
        assert admin.alter_partition_reassignments({one: None}) == {one: NoReassignmentInProgressError}
        assert ("muster.feature.level" in admin.describe_features()) == server.is_muster
    finally:
        admin.close()
        server.delete(topic)


def refusal(call: Callable[[], Any]) -> str:
    """The name of the error that `call` ends with."""
    with pytest.raises(KafkaException) as raised:
        call()
    return str(raised.value.args[0].name())


def test_confluent_kafka(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    topic, assigned = server.unique("confluent"), server.unique("confluent-assigned")
    brokers = sorted(node.id for node in admin.describe_cluster().result(ASK_TIMEOUT_S).nodes)
    made = admin.create_topics(
        [NewTopic(topic, PARTITIONS, -1), NewTopic(assigned, 1, replica_assignment=[brokers])], operation_timeout=20
    )
    for one in made.values():
        one.result(ASK_TIMEOUT_S)
    described = admin.describe_topics(TopicCollection([topic, assigned]))
    leaders = [one.leader for one in described[topic].result(ASK_TIMEOUT_S).partitions]
    assert len([leader for leader in leaders if leader is not None and leader.id >= 0]) == PARTITIONS
    assert sorted(one.id for one in described[assigned].result().partitions[0].replicas) == brokers
    admin.create_partitions([NewPartitions(topic, PARTITIONS + 3)], operation_timeout=20)[topic].result(ASK_TIMEOUT_S)
    grown = admin.describe_topics(TopicCollection([topic]))[topic].result(ASK_TIMEOUT_S).partitions
    assert len([one for one in grown if one.leader is not None and one.leader.id >= 0]) == PARTITIONS + 3
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(ASK_TIMEOUT_S)
    assert [error.name() for error in elected.values()] == ["ELECTION_NOT_NEEDED"]
    for one in admin.delete_topics([topic, assigned], operation_timeout=20).values():
        one.result(ASK_TIMEOUT_S)


def test_confluent_kafka_alters_configs_both_ways(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    topic = server.create(server.unique("confluent-configs"), 1)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def configs() -> tuple[str | None, str | None]:
        found = admin.describe_configs([resource])[resource].result(ASK_TIMEOUT_S)
        return found["retention.ms"].value, found["segment.ms"].value

    for name, value in (("retention.ms", ALTERED[0]), ("segment.ms", ALTERED[1])):
        change = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={name: value})
        with pytest.warns(DeprecationWarning, match="alter_configs"):
            altered = admin.alter_configs([change])
        altered[change].result(ASK_TIMEOUT_S)
    wait_until("the second set alone is in force", lambda: configs() == REPLACED, 10)
    entry = ConfigEntry("retention.ms", ALTERED[0], incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(ASK_TIMEOUT_S)
    wait_until("one is added", lambda: configs() == ALTERED, 10)
    node = admin.describe_cluster().result(ASK_TIMEOUT_S).nodes[0]
    broker = ConfigResource(ConfigResource.Type.BROKER, str(node.id))
    of = admin.describe_configs([broker])[broker].result(ASK_TIMEOUT_S)
    release = of.get("inter.broker.protocol.version")
    check_broker(
        {"copies": of["default.replication.factor"].value, "release": release.value if release else ""}, server
    )
    server.delete(topic)


def test_confluent_kafka_is_told_that_there_is_no_security(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    acl = (ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:me", "*", AclOperation.READ)
    binding = AclBinding(*acl, AclPermissionType.ALLOW)
    every = AclBindingFilter(*acl, AclPermissionType.ALLOW)
    assert refusal(lambda: admin.create_acls([binding])[binding].result(ASK_TIMEOUT_S)) == "SECURITY_DISABLED"
    # It drops the error of this answer, a real Kafka's likewise; kafkajs and Java above are told it.
    assert admin.describe_acls(every).result(ASK_TIMEOUT_S) == []
    assert refusal(lambda: admin.delete_acls([every])[every].result(ASK_TIMEOUT_S)) == "SECURITY_DISABLED"
