"""Records of every type, as Kafka 4.3's own classes encode and tell them: the decoders say the same, whatever is cut or
flipped. The vectors are made by `make_kafka_records`."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_pipeline.decode.consumer_groups import decode_consumer_groups
from muster_pipeline.decode.generations import Decoded, decode_generations
from muster_pipeline.decode.unknown import decode_unknown
from muster_pipeline.schemas.consumer_records import KINDS
from muster_pipeline.schemas.records import RECORDS

from tests.pipeline.decode.make_kafka_records import VECTORS
from tests.pipeline.tables.generated import BLANK

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Vector:
    """One record of Kafka's."""

    kind: int
    key: bytes
    value: bytes
    said_key: Row
    said: Row


def vectors(room: str) -> list[Vector]:
    found = []
    for line in VECTORS.read_text().splitlines():
        coordinator, kind, _, key, value, said_key, said = line.split("\t")
        if coordinator == room:
            raw_key, raw_value = bytes.fromhex(key), bytes.fromhex(value)
            found.append(
                Vector(
                    kind=int(kind), key=raw_key, value=raw_value, said_key=json.loads(said_key), said=json.loads(said)
                )
            )
    return found


GROUP = vectors("group")
MODERN = [one for one in GROUP if one.kind >= 3]


def table(*pairs: tuple[bytes, bytes | None]) -> pa.Table:
    """Rows of `records`, as the decoder of batches makes them of group records."""
    rows = [
        BLANK
        | {"log_offset": at, "append_timestamp_ms": 1, "key_type": int.from_bytes(key[:2], "big")}
        | {"key": key, "value": value, "is_tombstone": value is None, "group_id": None}
        for at, (key, value) in enumerate(pairs)
    ]
    return pa.Table.from_pylist(rows, schema=RECORDS)


def tasks(said: Row, name: str) -> list[Row]:
    return [{"subtopology": one["subtopologyId"], "partitions": one["partitions"]} for one in said[name]]


def ids(said: list[Row]) -> list[Row]:
    return [{"topic_id": one["topicId"], "partitions": one["partitions"]} for one in said]


def epoch(said: Row) -> Row:
    found = {"group_epoch": said["epoch"], "metadata_hash": said.get("metadataHash")}
    return found | {"validated_topology_epoch": said.get("validatedTopologyEpoch")}


def topics(said: Row) -> Row:
    return {
        "topics_metadata": [
            {"topic_id": one["topicId"], "topic": one["topicName"], "partition_count": one["numPartitions"]}
            for one in said["topics"]
        ]
    }


def member(said: Row) -> Row:
    classic = said.get("classicMemberMetadata")
    found = {
        "instance_id": said.get("instanceId"),
        "rack_id": said.get("rackId"),
        "client_id": said["clientId"],
        "client_host": said["clientHost"],
        "subscribed_topics": said.get("subscribedTopicNames"),
        "subscribed_regex": said.get("subscribedTopicRegex"),
        "rebalance_timeout_ms": said.get("rebalanceTimeoutMs"),
        "server_assignor": said.get("serverAssignor"),
        "process_id": said.get("processId"),
        "topology_epoch": said.get("topologyEpoch"),
    }
    if classic is not None:
        found["classic_session_timeout_ms"] = classic["sessionTimeoutMs"]
        found["classic_protocols"] = [
            {"name": one["name"], "metadata": base64.b64decode(one["metadata"])}
            for one in classic["supportedProtocols"]
        ]
    return found


def target_epoch(said: Row) -> Row:
    return {"target_epoch": said["assignmentEpoch"], "target_timestamp_ms": said.get("assignmentTimestamp")}


def target(said: Row) -> Row:
    if "activeTasks" in said:
        return {name: tasks(said, f"{name}Tasks") for name in ("active", "standby", "warmup")}
    return {"target": ids(said["topicPartitions"])}


def current(said: Row) -> Row:
    found = {
        "member_epoch": said["memberEpoch"],
        "previous_member_epoch": said["previousMemberEpoch"],
        "member_state": said["state"],
    }
    if "activeTasks" in said:
        found |= {name: tasks(said, f"{name}Tasks") for name in ("active", "standby", "warmup")}
        return found | {"active_pending_revocation": tasks(said, "activeTasksPendingRevocation")}
    revoking = said.get("partitionsPendingRevocation")
    return found | {
        "assigned": ids(said["assignedPartitions"]),
        "pending_revocation": None if revoking is None else ids(revoking),
    }


def state_topics(said: Row) -> Row:
    named = [*said["initializingTopics"], *said["initializedTopics"]]
    return {
        "topics_metadata": [
            {"topic_id": one["topicId"], "topic": one["topicName"], "partition_count": -1} for one in named
        ],
        "share_deleting": [one["topicId"] for one in said["deletingTopics"]],
    }


def regex(said: Row) -> Row:
    return {
        "subscribed_topics": said["topics"],
        "regex_version": said["version"],
        "regex_timestamp_ms": said["timestamp"],
    }


def topology(said: Row) -> Row:
    return {
        "topology_epoch": said["epoch"],
        "subtopologies": [
            {
                "subtopology": one["subtopologyId"],
                "topics": [*one["sourceTopics"], *(topic["name"] for topic in one["repartitionSourceTopics"])],
                "expressions": one["sourceTopicRegex"],
            }
            for one in said["subtopologies"]
        ],
    }


SAYS: dict[str, Callable[[Row], Row]] = {
    "group_epoch": epoch,
    "partition_metadata": topics,
    "member": member,
    "target_epoch": target_epoch,
    "target_assignment": target,
    "current_assignment": current,
    "share_state_topics": state_topics,
    "regular_expression": regex,
    "topology": topology,
}


@pytest.mark.parametrize("vector", MODERN, ids=lambda one: f"{one.kind}")
def test_a_record_says_what_kafka_says_it_says(vector: Vector) -> None:
    found = decode_consumer_groups(table((vector.key, vector.value), (vector.key, None)))
    assert found.damages == ()
    row, gone = found.rows.to_pylist()
    assert row["kind"] == KINDS[vector.kind]
    expected = SAYS[row["kind"]](vector.said)
    expected |= {"member_id": vector.said_key.get("memberId")}
    expected |= {"regular_expression": vector.said_key.get("regularExpression")}
    place = {name: row[name] for name in ("cluster", "log_partition", "log_offset", "append_timestamp_ms")}
    place |= {
        "group_id": vector.said_key["groupId"],
        "record_type": vector.kind,
        "kind": row["kind"],
        "is_tombstone": False,
    }
    assert row == dict.fromkeys(row) | place | expected
    assert (gone["is_tombstone"], gone["member_id"]) == (True, vector.said_key.get("memberId"))


def test_each_type_of_the_coordinator_of_groups_is_known() -> None:
    assert {one.kind for one in GROUP} == {0, 1, 2, *KINDS} - {9, 18}, "9 and 18 left before 4.3"
    assert decode_unknown(table(*((one.key, one.value) for one in GROUP))) == ()


@pytest.mark.parametrize("kind", [9, 18])
def test_types_that_left_are_read_as_the_type_they_were_copied_from(kind: int) -> None:
    (vector,) = [one for one in GROUP if one.kind == 4 and one.said["topics"] and len(one.value) < 100]
    (row,) = decode_consumer_groups(table((bytes([0, kind]) + vector.key[2:], vector.value))).rows.to_pylist()
    assert row["topics_metadata"] == topics(vector.said)["topics_metadata"]


@pytest.mark.parametrize("vector", [one for one in MODERN if len(one.value) < 400], ids=lambda one: f"{one.kind}")
def test_a_value_that_ends_early_goes_on_or_is_of_a_later_version_is_a_finding(vector: Vector) -> None:
    cuts = [vector.value[:end] for end in range(len(vector.value))]
    later = [b"\x00\x01" + vector.value[2:], b"\xff\xff" + vector.value[2:], vector.value + b"\x00"]
    found = decode_consumer_groups(table(*((vector.key, value) for value in [*cuts, *later])))
    assert found.rows.num_rows == 0
    assert [one.first_offset for one in found.damages] == list(range(len(cuts) + len(later)))
    assert {one.reason for one in found.damages} == {"value_schema"}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(MODERN), st.data())
def test_flipped_bits_make_a_row_or_a_finding_and_never_more(vector: Vector, data: st.DataObject) -> None:
    key, value = bytearray(vector.key), bytearray(vector.value)
    for part in (key, value):
        for at in data.draw(st.lists(st.integers(16, 8 * len(part) - 1), max_size=3)):
            part[at // 8] ^= 1 << at % 8
    decoders: list[Callable[[pa.Table], Decoded]] = [decode_consumer_groups, decode_generations]
    made = [one(table((bytes(key), bytes(value)))) for one in decoders]
    assert sum(one.rows.num_rows + len(one.damages) for one in made) == 1
    for one in made:
        one.rows.validate(full=True)


def test_a_record_of_a_type_that_is_not_known_is_a_finding_with_its_bytes() -> None:
    key = b"\x00\x18\x00\x07streams"
    (one, other) = decode_unknown(table((key, b"\x00\x00body"), (b"\x7f\xff\x00", None)))
    assert (one.damage.reason, one.damage.scope, one.damage.first_offset) == ("unknown_type", "finding", 0)
    assert one.damage.raw == key + b"\x00\x00body"
    assert (one.group_id, other.group_id) == ("streams", None)
    assert "24" in one.damage.detail


@pytest.mark.pipeline
@pytest.mark.java
def test_the_vectors_are_kafkas() -> None:
    from tests.pipeline.decode.make_kafka_records import made

    assert made() == VECTORS.read_text()
