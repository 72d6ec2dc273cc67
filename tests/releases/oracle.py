"""What clients were acknowledged, and the check that a cluster still has it: one list for all releases.

It is plain JSON, so that it lies beside the files of a release. How groups are described is kept as it was answered;
everything else is what a client sent and was told that it is done.
"""

import hashlib
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.releases import compacted, groups, records, rights, transactions

Oracle = dict[str, Any]
METADATA_KEPT = 100
INTERNAL = {"__consumer_offsets", "__transaction_state"}


def empty() -> Oracle:
    return {
        "topics": {},
        "gone_topics": [],
        "configs": {},
        "logs": {},
        "last_batches": [],
        "offsets": {},
        "no_offsets": [],
        "groups": {},
        "gone_groups": [],
        "seats": [],
    }


def kept(metadata: str) -> str:
    """Of a commit's metadata: itself, or of a long one its length and hash."""
    if len(metadata) <= METADATA_KEPT:
        return metadata
    return f"{len(metadata)} characters, SHA-256 {hashlib.sha256(metadata.encode()).hexdigest()}"


def check(bootstrap: str, oracle: Oracle) -> None:
    """Everything of the oracle, asked as clients do."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    check_topics(admin, oracle)
    check_logs(bootstrap, oracle)
    check_offsets(bootstrap, oracle)
    check_groups(bootstrap, oracle)
    check_producers(bootstrap, oracle)
    if "transactions" in oracle:
        compacted.check(bootstrap, oracle["last_values"])
        rights.check(bootstrap, admin, oracle["rights"])
        transactions.check(bootstrap, oracle["transactions"])


def topic_ids(admin: AdminClient) -> dict[str, tuple[int, str]]:
    """Name → (partitions, id), of all topics but the internal one."""
    names = [name for name in admin.list_topics(timeout=20).topics if name not in INTERNAL]
    found = admin.describe_topics(TopicCollection(names))
    told = {name: future.result(20) for name, future in found.items()}
    return {name: (len(one.partitions), str(one.topic_id)) for name, one in told.items()}


def check_topics(admin: AdminClient, oracle: Oracle) -> None:
    wanted = {name: (partitions, topic) for name, (partitions, topic) in oracle["topics"].items()}
    assert topic_ids(admin) == wanted
    for name, configs in oracle["configs"].items():
        told = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
        values = {key: entry.value for one in told.values() for key, entry in one.result(20).items()}
        assert {key: values.get(key) for key in configs} == configs, name


def check_logs(bootstrap: str, oracle: Oracle) -> None:
    logs = {(topic, int(number)): log for topic, numbers in oracle["logs"].items() for number, log in numbers.items()}
    for one, (start, values) in records.read(bootstrap, list(logs)).items():
        assert start == logs[one]["start"], one
        assert records.shorts(values) == logs[one]["values"][start:], one


def check_offsets(bootstrap: str, oracle: Oracle) -> None:
    for group, topics in oracle["offsets"].items():
        for topic, partitions in topics.items():
            found = groups.committed(bootstrap, group, topic, [int(number) for number in partitions])
            found = {number: (offset, kept(metadata)) for number, (offset, metadata) in found.items()}
            wanted = {int(number): (offset, metadata) for number, (offset, metadata) in partitions.items()}
            assert found == wanted, (group, topic)
    for group, topic, partition in oracle["no_offsets"]:
        assert groups.committed(bootstrap, group, topic, [partition]) == {partition: (-1, "")}, (group, topic)


def check_groups(bootstrap: str, oracle: Oracle) -> None:
    for group, wanted in oracle["groups"].items():
        told = groups.describe(bootstrap, group)
        assert told == wanted, f"{group} is described as {told}, acknowledged was {wanted}"
    listed = groups.listed(bootstrap)
    assert set(oracle["groups"]) <= listed
    assert not listed & set(oracle["gone_groups"])
    for group in oracle["gone_groups"]:
        assert groups.describe(bootstrap, group)["state"] == "Dead"
    for seat in oracle["seats"]:
        member = groups.member_of(bootstrap, seat)
        assert groups.heartbeat(member) == seat["heartbeat"], seat
        member.drop_connection()


def check_producers(bootstrap: str, oracle: Oracle) -> None:
    """A batch that is sent again gets the offset that it got then, and is not there twice."""
    for last in oracle["last_batches"]:
        assert records.send(bootstrap, last["topic"], last["partition"], last) == last["offset"], last["topic"]
