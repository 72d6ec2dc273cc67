"""The hand-written codecs of the five hot APIs say what kio says, in every version."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import WireError
from muster_coordinator.groups.requests import (
    FetchedOffset,
    HeartbeatAnswer,
    JoinedMember,
    JoinGroupAnswer,
    SyncGroupAnswer,
)
from muster_coordinator.wire.codecs import HOT, decoder, encoder
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.hot.offset_fetch import GroupOffsets
from muster_coordinator.wire.schema import schema
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.wire.kio_entities import build, encode, kio_class, plain
from tests.wire.schema_values import entity_values

SOME = settings(max_examples=15, deadline=None)
ERRORS = st.sampled_from([-1, 0, 15, 16, 22, 25, 27])
TEXT = st.text(max_size=6)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)


def versions_of(api: int) -> list[int]:
    return list(range(VERSIONS[api].min, VERSIONS[api].max + 1))


def context_of(api: int, version: int) -> RequestContext:
    return RequestContext(
        principal="User:ANONYMOUS", listener="PLAINTEXT", connection_id=1, client_id="me", client_host="/10.1.1.1",
        api_key=api, api_version=version, deadline_ms=0,
    )  # fmt: skip


def decoded(api: int, version: int, values: dict[str, Any]) -> Any:
    body = encode(build(kio_class(api, version, "request"), values))
    frame = Frame(b"xx" + body + b"yyyy", 2 + len(body))
    return decoder(api, version)(frame, 2, context_of(api, version))


def answered(api: int, version: int, answer: Any) -> Any:
    out = bytearray()
    encoder(api, version)(out, answer)
    entity, used = entity_reader(kio_class(api, version, "response"))(bytes(out), 0)
    assert used == len(out)
    return plain(entity)


def test_the_five_hot_apis_have_codecs_of_their_own() -> None:
    assert set(HOT) == {Api.HEARTBEAT, Api.OFFSET_COMMIT, Api.OFFSET_FETCH, Api.JOIN_GROUP, Api.SYNC_GROUP}


@pytest.mark.parametrize("version", versions_of(Api.HEARTBEAT))
def test_heartbeat(version: int) -> None:
    @SOME
    @given(entity_values(schema(Api.HEARTBEAT, version, "request")), ERRORS)
    def check(values: dict[str, Any], error: int) -> None:
        request = decoded(Api.HEARTBEAT, version, values)
        assert (request.group, request.generation, request.member) == (
            values["group_id"], values["generation_id"], values["member_id"],
        )  # fmt: skip
        assert request.instance == values.get("group_instance_id")
        assert answered(Api.HEARTBEAT, version, HeartbeatAnswer(error))["error_code"] == error

    check()


@pytest.mark.parametrize("version", versions_of(Api.JOIN_GROUP))
def test_join_group_request(version: int) -> None:
    @SOME
    @given(entity_values(schema(Api.JOIN_GROUP, version, "request")))
    def check(values: dict[str, Any]) -> None:
        request = decoded(Api.JOIN_GROUP, version, values)
        assert request.group == values["group_id"]
        assert request.member == values["member_id"]
        assert request.instance == values.get("group_instance_id")
        assert (request.client_id, request.client_host) == ("me", "/10.1.1.1")
        assert request.session_timeout_ms == values["session_timeout_ms"]
        assert request.rebalance_timeout_ms == values.get("rebalance_timeout_ms", values["session_timeout_ms"])
        assert request.protocol_type == values["protocol_type"]
        assert [(p.name, p.metadata) for p in request.protocols] == [
            (p["name"], p["metadata"]) for p in values["protocols"]
        ]
        assert request.reason == (values.get("reason") or "")
        assert request.requires_known_member is (version >= 4)
        assert request.supports_skip_assignment is (version >= 9)

    check()


MEMBERS = st.builds(JoinedMember, TEXT, st.none() | TEXT, st.binary(max_size=6))
JOINED = st.builds(
    JoinGroupAnswer,
    error=ERRORS,
    member=TEXT,
    generation=I32,
    protocol_type=st.none() | TEXT,
    protocol=st.none() | TEXT,
    leader=TEXT,
    skip_assignment=st.booleans(),
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)


@pytest.mark.parametrize("version", versions_of(Api.JOIN_GROUP))
def test_join_group_answer(version: int) -> None:
    @SOME
    @given(JOINED)
    def check(answer: JoinGroupAnswer) -> None:
        said = answered(Api.JOIN_GROUP, version, answer)
        assert (said["error_code"], said["generation_id"]) == (answer.error, answer.generation)
        assert (said["leader"], said["member_id"]) == (answer.leader, answer.member)
        assert said["protocol_name"] == (answer.protocol if version >= 7 else answer.protocol or "")
        if version >= 7:
            assert said["protocol_type"] == answer.protocol_type
        if version >= 9:
            assert said["skip_assignment"] is answer.skip_assignment
        expected = [
            {
                "member_id": m.member,
                "metadata": m.metadata,
                **({"group_instance_id": m.instance} if version >= 5 else {}),
            }
            for m in answer.members
        ]
        assert list(said["members"]) == expected

    check()


@pytest.mark.parametrize("version", versions_of(Api.SYNC_GROUP))
def test_sync_group(version: int) -> None:
    answers = st.builds(
        SyncGroupAnswer, error=ERRORS, protocol_type=st.none() | TEXT, protocol=st.none() | TEXT,
        assignment=st.binary(max_size=9),
    )  # fmt: skip

    @SOME
    @given(entity_values(schema(Api.SYNC_GROUP, version, "request")), answers)
    def check(values: dict[str, Any], answer: SyncGroupAnswer) -> None:
        request = decoded(Api.SYNC_GROUP, version, values)
        assert (request.group, request.generation) == (values["group_id"], values["generation_id"])
        assert (request.member, request.instance) == (values["member_id"], values.get("group_instance_id"))
        assert (request.protocol_type, request.protocol) == (values.get("protocol_type"), values.get("protocol_name"))
        assert request.assignments == tuple((a["member_id"], a["assignment"]) for a in values["assignments"])
        said = answered(Api.SYNC_GROUP, version, answer)
        assert (said["error_code"], said["assignment"]) == (answer.error, answer.assignment)
        if version >= 5:
            assert (said["protocol_type"], said["protocol_name"]) == (answer.protocol_type, answer.protocol)

    check()


@pytest.mark.parametrize("version", versions_of(Api.OFFSET_COMMIT))
def test_offset_commit_request(version: int) -> None:
    @SOME
    @given(entity_values(schema(Api.OFFSET_COMMIT, version, "request")))
    def check(values: dict[str, Any]) -> None:
        request = decoded(Api.OFFSET_COMMIT, version, values)
        assert (request.group, request.member) == (values["group_id"], values["member_id"])
        assert request.generation == values["generation_id_or_member_epoch"]
        assert request.instance == values.get("group_instance_id")
        assert request.retention_ms == values.get("retention_time_ms", -1)
        assert request.unknown_group_is_69 is (version >= 9)
        assert [(t.topic, t.topic_id) for t in request.topics] == [
            (t.get("name", ""), t.get("topic_id", bytes(16))) for t in values["topics"]
        ]
        for topic, asked in zip(request.topics, values["topics"], strict=True):
            assert [(p.partition, p.offset, p.leader_epoch, p.metadata) for p in topic.partitions] == [
                (
                    p["partition_index"], p["committed_offset"], p.get("committed_leader_epoch", -1),
                    p["committed_metadata"] or "",
                )
                for p in asked["partitions"]
            ]  # fmt: skip

    check()


def keys(version: int) -> st.SearchStrategy[Any]:
    return st.binary(min_size=16, max_size=16) if version >= 10 else TEXT


@pytest.mark.parametrize("version", versions_of(Api.OFFSET_COMMIT))
def test_offset_commit_answer(version: int) -> None:
    errors = st.lists(st.tuples(I32, ERRORS), max_size=3)

    @SOME
    @given(st.lists(st.tuples(keys(version), errors), max_size=3))
    def check(answer: Any) -> None:
        said = answered(Api.OFFSET_COMMIT, version, answer)
        name = "topic_id" if version >= 10 else "name"
        assert [
            (t[name], [(p["partition_index"], p["error_code"]) for p in t["partitions"]]) for t in said["topics"]
        ] == answer

    check()


@pytest.mark.parametrize("version", versions_of(Api.OFFSET_FETCH))
def test_offset_fetch_request(version: int) -> None:
    @SOME
    @given(entity_values(schema(Api.OFFSET_FETCH, version, "request")))
    def check(values: dict[str, Any]) -> None:
        name = "topic_id" if version >= 10 else "name"
        expected = [
            (
                g["group_id"],
                None if g["topics"] is None else tuple((t[name], t["partition_indexes"]) for t in g["topics"]),
                values.get("require_stable", False),
            )
            for g in (values["groups"] if version >= 8 else (values,))
        ]
        assert [tuple(asked) for asked in decoded(Api.OFFSET_FETCH, version, values)] == expected

    check()


@pytest.mark.parametrize("version", versions_of(Api.OFFSET_FETCH))
def test_offset_fetch_answer(version: int) -> None:
    offsets = st.lists(st.builds(FetchedOffset, I32, I64, I32, TEXT, ERRORS), max_size=3)
    group = st.builds(GroupOffsets, TEXT, ERRORS, st.lists(st.tuples(keys(version), offsets), max_size=3))

    @SOME
    @given(st.lists(group, max_size=3) if version >= 8 else st.lists(group, min_size=1, max_size=1))
    def check(groups: list[GroupOffsets]) -> None:
        said = answered(Api.OFFSET_FETCH, version, groups)
        name = "topic_id" if version >= 10 else "name"
        for one, asked in zip(said["groups"] if version >= 8 else (said,), groups, strict=True):
            assert one.get("group_id", asked.group) == asked.group
            assert one.get("error_code", asked.error) == asked.error
            assert [t[name] for t in one["topics"]] == [key for key, _ in asked.topics]
            for topic, (_, expected) in zip(one["topics"], asked.topics, strict=True):
                for p, o in zip(topic["partitions"], expected, strict=True):
                    assert (p["partition_index"], p["committed_offset"]) == (o.partition, o.offset)
                    assert (p["metadata"], p["error_code"]) == (o.metadata, o.error)
                    assert p.get("committed_leader_epoch", o.leader_epoch) == o.leader_epoch

    check()


@pytest.mark.parametrize("api", sorted(HOT))
def test_hot_decoders_refuse_noise_with_one_error(api: int) -> None:
    """Mutations of good requests, in every version: a value or WireError."""

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(versions_of(api)))
        values = data.draw(entity_values(schema(api, version, "request")))
        body = bytearray(encode(build(kio_class(api, version, "request"), values)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(body) - 1))
            body[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        cut = bytes(body[: data.draw(st.integers(0, len(body)))])
        for raw in (bytes(body), cut):
            try:
                decoder(api, version)(Frame(raw, len(raw)), 0, context_of(api, version))
            except WireError:
                continue

    check()


def test_null_topics_mean_all_since_version_2_and_nothing_before() -> None:
    body = b"\x00\x01g" + b"\xff\xff\xff\xff"
    with pytest.raises(WireError):
        decoder(Api.OFFSET_FETCH, 1)(Frame(body, len(body)), 0, context_of(Api.OFFSET_FETCH, 1))
    (asked,) = decoder(Api.OFFSET_FETCH, 2)(Frame(body, len(body)), 0, context_of(Api.OFFSET_FETCH, 2))
    assert asked.topics is None
