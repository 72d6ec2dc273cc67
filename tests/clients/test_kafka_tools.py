"""Kafka's own command-line tools: what an operator of Kafka types works, and says the same."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import kafka_tools
from tests.clients.member import Member
from tests.clients.server import Server
from tests.cluster import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.timeout(180)]


def tool(server: Server, main_class: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
    return kafka_tools.run(main_class, "--bootstrap-server", server.bootstrap, *arguments, stdin=stdin, fails=fails)


def rows(table: str) -> list[dict[str, str]]:
    """The tools' column output as dicts."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    head = next(i for i, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :]]


def test_topics_create_describe_alter_list_delete(server: Server) -> None:
    name = server.unique("tool")
    tool(server, kafka_tools.TOPICS, "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=60000")
    described = tool(server, kafka_tools.TOPICS, "--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "retention.ms=60000" in described
    assert len(re.findall(r"Partition: \d+\s+Leader: \d+", described)) == 3
    tool(server, kafka_tools.TOPICS, "--alter", "--topic", name, "--partitions", "5")
    server.wait_topic(name, 5)
    assert name in tool(server, kafka_tools.TOPICS, "--list").split()
    tool(server, kafka_tools.TOPICS, "--delete", "--topic", name)
    wait_until("it is gone", lambda: name not in tool(server, kafka_tools.TOPICS, "--list").split(), 20, 0.5)


def test_console_producer_and_consumer_and_get_offsets(server: Server) -> None:
    name = server.create(server.unique("console"), 2)
    lines = "".join(f"key{n}:value {n}\n" for n in range(20))
    tool(
        server,
        kafka_tools.PRODUCER,
        "--topic",
        name,
        "--property",
        "parse.key=true",
        "--property",
        "key.separator=:",
        stdin=lines,
    )
    read = tool(server, kafka_tools.CONSUMER, "--topic", name, "--from-beginning", "--max-messages", "20")
    assert sorted(read.split("\n"))[-20:] == sorted(f"value {n}" for n in range(20))
    ends = dict(line.rsplit(":", 1) for line in tool(server, kafka_tools.OFFSETS, "--topic", name).split())
    assert sum(int(end) for end in ends.values()) == 20
    earliest = tool(server, kafka_tools.OFFSETS, "--topic", name, "--time", "earliest").split()
    assert earliest == [f"{name}:0:0", f"{name}:1:0"]


def test_consumer_groups_list_and_describe_in_all_forms(server: Server, member: Callable[..., Member]) -> None:
    topic, group = server.create(server.unique("desc"), 2), server.unique("g")
    server.fill(topic, 2, 10)
    one = member("librdkafka", group=group, topics=[topic], client_id="me", instance="pod-0")
    one.wait("all records", lambda m: len(m.records) == 20, 60)
    one.commit()
    server.fill(topic, 2, 3, start=10)
    assert group in tool(server, kafka_tools.GROUPS, "--list").split()
    listed = tool(server, kafka_tools.GROUPS, "--list", "--state", "Stable")
    assert re.search(rf"{group}\s+.*Stable", listed)
    offsets = rows(tool(server, kafka_tools.GROUPS, "--describe", "--group", group))
    assert [(r["PARTITION"], r["CURRENT-OFFSET"], r["LOG-END-OFFSET"], r["LAG"]) for r in offsets] == [
        ("0", "10", "13", "3"),
        ("1", "10", "13", "3"),
    ]
    assert all(r["CLIENT-ID"] == "me" and r["HOST"].startswith("/127.0.0.1") for r in offsets)
    members = tool(server, kafka_tools.GROUPS, "--describe", "--group", group, "--members", "--verbose")
    assert "pod-0" in members
    assert re.search(rf"{topic}[:(]\s*0,1", members)
    state = tool(server, kafka_tools.GROUPS, "--describe", "--group", group, "--state")
    assert re.search(r"range\s+Stable\s+1", state)


def test_consumer_groups_reset_delete_offsets_and_delete(server: Server, member: Callable[..., Member]) -> None:
    topic, group = server.create(server.unique("reset"), 2), server.unique("g")
    server.fill(topic, 2, 10)
    one = member("librdkafka", group=group, topics=[topic])
    one.wait("all records", lambda m: len(m.records) == 20, 60)
    one.commit()
    refused = tool(server, kafka_tools.GROUPS, "--delete", "--group", group, fails=True)
    assert "not empty" in refused.lower() or "NonEmptyGroup" in refused
    one.leave()
    reset = ["--reset-offsets", "--group", group, "--topic", topic]
    tool(server, kafka_tools.GROUPS, *reset, "--to-offset", "4", "--execute")
    assert [r["CURRENT-OFFSET"] for r in rows(tool(server, kafka_tools.GROUPS, "--describe", "--group", group))] == [
        "4",
        "4",
    ]
    tool(server, kafka_tools.GROUPS, *reset, "--shift-by", "-1", "--execute")
    assert [r["CURRENT-OFFSET"] for r in rows(tool(server, kafka_tools.GROUPS, "--describe", "--group", group))] == [
        "3",
        "3",
    ]
    tool(server, kafka_tools.GROUPS, "--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    left = rows(tool(server, kafka_tools.GROUPS, "--describe", "--group", group))
    assert [r["CURRENT-OFFSET"] for r in left if r["PARTITION"] == "0"] == ["3"]
    assert [r["CURRENT-OFFSET"] for r in left if r["PARTITION"] == "1" and r["CURRENT-OFFSET"] != "-"] == []
    tool(server, kafka_tools.GROUPS, "--delete", "--group", group)
    assert group not in tool(server, kafka_tools.GROUPS, "--list").split()


def test_verifiable_producer_and_consumer_agree(server: Server, tmp_path: Path) -> None:
    topic, group = server.create(server.unique("verify"), 3), server.unique("g")
    sent = kafka_tools.run(
        kafka_tools.VERIFIABLE_PRODUCER,
        "--bootstrap-server",
        server.bootstrap,
        "--topic",
        topic,
        "--max-messages",
        "500",
    )
    assert sent.count("producer_send_success") == 500
    output = tmp_path / "consumer.txt"
    arguments = ["--bootstrap-server", server.bootstrap, "--topic", topic, "--group-id", group]
    arguments += ["--reset-policy", "earliest", "--enable-autocommit"]
    with kafka_tools.running(kafka_tools.VERIFIABLE_CONSUMER, *arguments, output=output):

        def read() -> bool:
            found = re.findall(r'"name":"records_consumed","partitions":\[[^]]*\],"count":(\d+)', output.read_text())
            found += re.findall(r'"name":"records_consumed".*?"count":(\d+)', output.read_text()) if not found else []
            return sum(int(count) for count in found) >= 500

        wait_until("the consumer read what the producer sent", read, 60, 0.5)


def test_configs_describe_and_alter(server: Server) -> None:
    name = server.create(server.unique("conf"), 1)
    entity = ["--entity-type", "topics", "--entity-name", name]
    tool(server, kafka_tools.CONFIGS, "--alter", *entity, "--add-config", "retention.ms=1000000")
    wait_until(
        "the new value shows",
        lambda: "retention.ms=1000000" in tool(server, kafka_tools.CONFIGS, "--describe", *entity),
        20,
        0.5,
    )


def test_reassign_partitions_executes_verifies_and_lists(server: Server, tmp_path: Path) -> None:
    """The replicas of a partition in another order, which is no move: the first leads when that is asked for. And what
    cannot be had."""
    name = server.create(server.unique("reassign"), 1)
    brokers = server.brokers()
    plan = tmp_path / "plan.json"

    def wanted(replicas: list[int]) -> None:
        partitions = [{"topic": name, "partition": 0, "replicas": replicas}]
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def reassign(mode: str, **more: bool) -> str:
        return tool(server, kafka_tools.REASSIGN, mode, "--reassignment-json-file", str(plan), **more)

    def described() -> str:
        return tool(server, kafka_tools.TOPICS, "--describe", "--topic", name)

    leader = int(re.findall(r"Leader: (\d+)", described())[0])
    order = [*(broker for broker in brokers if broker != leader), leader]
    wanted(order)
    assert "Successfully started partition reassignment" in reassign("--execute")
    wait_until("it is complete", lambda: f"Reassignment of partition {name}-0 is completed" in reassign("--verify"), 30)
    assert f"Replicas: {','.join(map(str, order))}" in described()
    assert "No partition reassignments found" in tool(server, kafka_tools.REASSIGN, "--list")
    of_one = ("--topic", name, "--partition", "0")
    elected = tool(server, kafka_tools.ELECTION, "--election-type", "PREFERRED", *of_one).strip()
    held, not_needed = "Successfully completed leader election (PREFERRED)", "Valid replica already elected"
    assert elected == f"{not_needed if order[0] == leader else held} for partitions {name}-0"
    assert f"Leader: {order[0]}\t" in described()
    wanted([*brokers[1:], 99])
    assert "Unknown broker id 99" in reassign("--execute", fails=True)
    server.delete(name)


def test_leader_election_says_word_for_word_what_it_says_of_a_real_kafka(server: Server) -> None:
    """Of a partition that its preferred leader leads, of either kind of election, and of one that is not there. A
    leader that is not the preferred one gives its partitions back by itself (docs/clients.md)."""
    name = server.create(server.unique("elect"), 1)

    def elect(kind: str, topic: str, **more: bool) -> str:
        arguments = ("--election-type", kind, "--topic", topic, "--partition", "0")
        return tool(server, kafka_tools.ELECTION, *arguments, **more).replace(topic, "TOPIC").strip()

    for kind in ("PREFERRED", "UNCLEAN"):
        assert elect(kind, name) == "Valid replica already elected for partitions TOPIC-0"
    absent = elect("PREFERRED", server.unique("absent"), fails=True)
    assert absent.startswith(
        "Error completing leader election (PREFERRED) for partition: TOPIC-0: "
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
    )
    assert "1 replica(s) could not be elected" in absent
    server.delete(name)


def test_metadata_quorum_tells_the_leader_the_voters_and_how_far_each_is(server: Server) -> None:
    """Its two forms agree with each other and with the brokers that there are."""
    told = dict(
        line.split(":", 1) for line in tool(server, kafka_tools.QUORUM, "describe", "--status").splitlines() if line
    )
    status = {key: value.strip() for key, value in told.items()}
    assert set(status) == {
        "ClusterId", "LeaderId", "LeaderEpoch", "HighWatermark", "MaxFollowerLag", "MaxFollowerLagTimeMs",
        "CurrentVoters", "CurrentObservers",
    }  # fmt: skip
    voters = json.loads(status["CurrentVoters"])
    assert sorted(one["id"] for one in voters) == server.brokers()
    assert all(len(one["endpoints"]) == 1 for one in voters)
    assert int(status["LeaderEpoch"]) >= 1
    table = tool(server, kafka_tools.QUORUM, "describe", "--replication").splitlines()
    head, *lines = [line.split() for line in table if line.strip()]
    assert head == [
        "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status",
    ]  # fmt: skip
    roles = {int(line[0]): line[-1] for line in lines}
    assert sorted(roles) == server.brokers()
    assert [broker for broker, role in roles.items() if role == "Leader"] == [int(status["LeaderId"])]
    assert set(roles.values()) <= {"Leader", "Follower"}
    (leader,) = [line for line in lines if line[-1] == "Leader"]
    assert int(leader[2]) >= int(status["HighWatermark"])
    assert leader[3] == "0"


def test_a_feature_that_kafka_has_too_is_described_and_refused_alike(server: Server) -> None:
    """`transaction.version`, and a level above all there are."""
    shown = tool(server, kafka_tools.FEATURES, "describe")
    assert re.search(r"Feature: transaction.version\s+.*SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2\s", shown), (
        shown
    )
    above = tool(server, kafka_tools.FEATURES, "upgrade", "--feature", "transaction.version=99", fails=True)
    assert "Could not upgrade transaction.version to 99." in above
    assert "1 out of 1 operation(s) failed." in above


def test_features_are_described_and_never_fall(server: Server) -> None:
    if not server.is_muster:
        pytest.skip(
            "muster.feature.level is Muster's own: the server of this run is Apache Kafka, whose features are others"
        )
    shown = tool(server, kafka_tools.FEATURES, "describe")
    feature = r"Feature: muster.feature.level\s+SupportedMinVersion: 1\s+"
    told = re.search(feature + r"SupportedMaxVersion: (\d+)\s+FinalizedVersionLevel: (\d+)", shown)
    assert told is not None, shown
    assert told[1] == told[2]
    same = tool(server, kafka_tools.FEATURES, "upgrade", "--feature", f"muster.feature.level={told[2]}")
    assert f"muster.feature.level was upgraded to {told[2]}" in same
    above = f"muster.feature.level={int(told[2]) + 1}"
    refused = tool(server, kafka_tools.FEATURES, "upgrade", "--feature", above, fails=True)
    assert "supports feature levels up to" in refused
    down = tool(
        server, kafka_tools.FEATURES, "downgrade", "--unsafe", "--feature", "muster.feature.level=1", fails=True
    )
    assert "never falls" in down


def test_cluster_unregisters_nobody_who_votes_or_is_unknown(server: Server) -> None:
    def unregister(broker: int) -> str:
        arguments = ["unregister", "--bootstrap-server", server.bootstrap, "--id", str(broker)]
        return kafka_tools.run(kafka_tools.CLUSTER, *arguments, fails=True)

    assert re.search("(?i)broker (id )?99 is not (currently )?registered", unregister(99))
    if server.is_muster:
        assert "broker 1 votes in the controller's group" in unregister(1)


_USER = ("--entity-type", "users", "--entity-name", "USER")
_PAIR = (*_USER, "--entity-type", "clients", "--entity-name", "APP")
_DONE = "Completed updating config for user USER."
_SCRAM = "SCRAM credential configs for user-principal 'USER' are SCRAM-SHA-256=iterations=4096"
_OF_BOTH = (
    "Quota configs for user-principal 'USER', client-id 'APP' are controller_mutation_rate=5.0, request_percentage=12.5"
)
_QUOTAS = "Quota configs for user-principal 'USER' are consumer_byte_rate=2048.0, producer_byte_rate=1024.0"


def _refused(arguments: str, kind: str, why: str) -> str:
    error = f"org.apache.kafka.common.errors.{kind}: {why}"
    return (
        f"Error while executing config command with args '--bootstrap-server AT --alter {arguments}'\n"
        f"java.util.concurrent.ExecutionException: {error}\nCaused by: {error}"
    )


USERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("--alter", *_USER, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=canary]"), _DONE),
    (("--alter", *_USER, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048"), _DONE),
    (("--describe", *_USER), f"{_QUOTAS}\n{_SCRAM}"),
    (("--alter", *_PAIR, "--add-config", "controller_mutation_rate=5,request_percentage=12.5"), _DONE),
    (("--describe", *_PAIR), _OF_BOTH),
    (
        ("--alter", *_USER, "--delete-config", "SCRAM-SHA-512"),
        _refused(
            f"{' '.join(_USER)} --delete-config SCRAM-SHA-512",
            "ResourceNotFoundException",
            "Attempt to delete a user credential that does not exist",
        ),
    ),
    (
        ("--alter", *_USER, "--add-config", "producer_byte_rate=-1"),
        _refused(
            f"{' '.join(_USER)} --add-config producer_byte_rate=-1",
            "InvalidRequestException",
            "Quota producer_byte_rate must be greater than 0",
        ),
    ),
    (("--alter", *_USER, "--delete-config", "consumer_byte_rate,producer_byte_rate"), _DONE),
    (("--describe", *_USER), _SCRAM),
)
"""What `kafka-configs` is asked, and every word of its answer."""


@pytest.mark.timeout(400)
def test_configs_of_users_say_word_for_word_what_they_say_of_a_real_kafka(server: Server) -> None:
    """SCRAM credentials and quotas: set, shown, refused, taken away. What is expected here, a real Kafka 4.3 says:
    MUSTER_TEST_AGAINST=kafka. A change may reach the broker that is asked next a moment later."""
    user, client = server.unique("user"), server.unique("app")

    def told(arguments: tuple[str, ...]) -> str:
        named = [one.replace("USER", user).replace("APP", client) for one in arguments]
        output = tool(server, kafka_tools.CONFIGS, *named, fails=True)
        for word, shown in ((user, "USER"), (client, "APP"), (server.bootstrap, "AT")):
            output = output.replace(word, shown)
        return "\n".join(line.rstrip() for line in output.splitlines() if line.strip() and not line.startswith("\tat "))

    for arguments, expected in USERS:
        answer = told(arguments)
        if answer != expected and arguments[0] == "--describe":
            answer = told(arguments)
        assert answer == expected, arguments
