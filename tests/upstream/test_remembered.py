"""What is told while the upstream is away, against Kafka's schemas as kio has them: what it said last, and no more."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import WireError
from muster_coordinator.upstream.brokers import Broker
from muster_coordinator.upstream.limits import TOLD_BYTES_MAX
from muster_coordinator.upstream.remembered import Ours, Question, Remembered, Said
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.upstream.test_brokers import OURS, address, framed
from tests.wire.kio_entities import decode_answer, encode_request

THEIRS = (Broker(2, "theirs", 1, "r"), Broker(3, "without-a-port", 1))
HERE = Ours(address, OURS)


def partition(index: int, error: int = 0) -> dict[str, Any]:
    return {
        "error_code": error, "partition_index": index, "leader_id": 2 if not error else -1, "leader_epoch": 4,
        "replica_nodes": (2, 3), "isr_nodes": (2,), "offline_replicas": (3,),
    }  # fmt: skip


def topic(name: str, partitions: int, error: int = 0) -> dict[str, Any]:
    return {
        "error_code": error, "name": name, "topic_id": name.encode().ljust(16, b"-")[:16], "is_internal": name == "__x",
        "partitions": [partition(i, 5 if i == 1 else 0) for i in range(partitions)],
    }  # fmt: skip


def said(version: int, *topics: dict[str, Any]) -> Said:
    values = {"brokers": (), "cluster_id": "c", "controller_id": 2, "topics": topics, "error_code": 0}
    return Said(version, framed(Api.METADATA, version, values))


def remembered(version: int = 12, *topics: dict[str, Any]) -> Remembered:
    return Remembered(said(version, *topics), THEIRS)


TOPICS = (topic("one", 3), topic("__x", 1), topic("gone", 0, 3))


def ask(api: int, version: int, of: Remembered, **values: Any) -> Any:
    frame = encode_request(api, version, values, 77, "someone")
    body = 4 + 8 + 2 + len("someone")
    flexible = VERSIONS[api].flexible
    question = Question(api, version, 77, frame, body + (1 if 0 <= flexible <= version else 0))
    told = of.told(question, HERE)
    if told is None:
        return None
    correlation, answer = decode_answer(api, version, bytes(told))
    assert correlation == 77
    return answer


def endpoints(brokers: Any, name: str) -> list[tuple[int, str, int]]:
    return [(getattr(one, name), one.host, one.port) for one in brokers]


ENDPOINTS = [(2, *(address(2) or ())), *((one.node, one.host, one.port) for one in OURS)]


@pytest.mark.parametrize("version", range(VERSIONS[Api.METADATA].max + 1))
@pytest.mark.parametrize("said_in", [1, 5, 9, 12, 13])
def test_all_topics_are_those_of_the_last_time(version: int, said_in: int) -> None:
    answer = ask(Api.METADATA, version, remembered(said_in, *TOPICS), topics=None if version else ())
    assert endpoints(answer.brokers, "node_id") == ENDPOINTS
    assert [(t.name, t.error_code.value, len(t.partitions)) for t in answer.topics] == [("one", 0, 3), ("__x", 0, 1)]
    first = decode_answer(Api.METADATA, said_in, framed(Api.METADATA, said_in, {"topics": TOPICS, "brokers": (),
        "cluster_id": "c", "controller_id": 2, "error_code": 0}))[1]  # fmt: skip
    if version == said_in:
        assert list(answer.topics) == [dataclasses.replace(t) for t in first.topics if not t.error_code.value]
        assert (answer.cluster_id if version > 1 else None, answer.controller_id) == ("c" if version > 1 else None, 2)


@pytest.mark.parametrize("version", range(VERSIONS[Api.METADATA].max + 1))
def test_a_topic_that_nobody_spoke_of_has_no_leader_and_is_not_unknown(version: int) -> None:
    asked = [{"name": name, "topic_id": None} for name in ("new", "one", "gone")]
    answer = ask(Api.METADATA, version, remembered(12, *TOPICS), topics=asked)
    told = [(t.name, t.error_code.value, len(t.partitions)) for t in answer.topics]
    assert told == [("new", 5, 0), ("one", 0, 3), ("gone", 5, 0)]
    assert [p.error_code.value for p in answer.topics[1].partitions] == [0, 5, 0]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_known_by_their_ids(version: int) -> None:
    asked = [{"name": None, "topic_id": name.encode().ljust(16, b"-")} for name in ("one", "new")]
    answer = ask(Api.METADATA, version, remembered(12, *TOPICS), topics=asked)
    assert [(t.name, t.error_code.value) for t in answer.topics] == [("one", 0), (None, 5)]


@pytest.mark.parametrize("version", range(VERSIONS[Api.DESCRIBE_CLUSTER].max + 1))
def test_the_cluster_is_that_of_the_last_time(version: int) -> None:
    answer = ask(Api.DESCRIBE_CLUSTER, version, remembered(12, *TOPICS), endpoint_type=1)
    assert endpoints(answer.brokers, "broker_id") == ENDPOINTS
    assert (answer.error_code.value, answer.cluster_id, answer.controller_id) == (0, "c", 2)
    if version:
        answer = ask(Api.DESCRIBE_CLUSTER, version, remembered(12, *TOPICS), endpoint_type=2)
        assert (answer.error_code.value, answer.brokers) == (114, ())


@pytest.mark.parametrize("version", range(VERSIONS[Api.FIND_COORDINATOR].max + 1))
def test_a_transaction_has_no_coordinator_now(version: int) -> None:
    answer = ask(Api.FIND_COORDINATOR, version, remembered(), key="t", coordinator_keys=["t", "u"], key_type=1)
    found = answer.coordinators if version >= 4 else (answer,)
    assert [one.error_code.value for one in found] == [15] * len(found)
    if version >= 4:
        assert [one.key for one in found] == ["t", "u"]


def told(of: Remembered, *names: str) -> list[tuple[str, int, int]]:
    asked = [{"name": name, "topic_id": None} for name in names]
    answer = ask(Api.METADATA, 12, of, topics=asked)
    return [(t.name, t.error_code.value, len(t.partitions)) for t in answer.topics]


def test_what_clients_were_told_since_is_newer() -> None:
    of = remembered(12, *TOPICS)
    assert told(of, "one", "new") == [("one", 0, 3), ("new", 5, 0)]
    of.note(said(5, topic("new", 2), topic("one", 4)))
    of.note(said(9, topic("one", 5), topic("new", 0, 3)))
    assert told(of, "one", "new", "__x") == [("one", 0, 5), ("new", 0, 2), ("__x", 0, 1)]


def test_what_clients_were_told_is_kept_up_to_a_limit() -> None:
    of = remembered(12, *TOPICS)
    of.note(said(12, topic("first", 1)))
    size = len(said(12, topic("n" * 200, 1000)).frame)
    for number in range(TOLD_BYTES_MAX // size + 2):
        of.note(said(12, topic(f"{number:0200}", 1000)))
    last = f"{number:0200}"
    assert told(of, "first", last) == [("first", 5, 0), (last, 0, 1000)]
    assert sum(len(one.frame) for one in of._since) <= TOLD_BYTES_MAX
    huge = said(12, *(topic(f"{number:0249}", 100) for number in range(500)))
    assert len(huge.frame) > TOLD_BYTES_MAX
    of.note(huge)
    assert told(of, f"{1:0249}", "one") == [(f"{1:0249}", 5, 0), ("one", 0, 3)]


def test_nothing_else_is_answered() -> None:
    assert ask(Api.INIT_PRODUCER_ID, 4, remembered(), transactional_id=None, transaction_timeout_ms=1) is None


@given(st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_question_or_an_error(body: bytes) -> None:
    of = remembered(12, *TOPICS)
    for version in (0, 4, 12):
        question = Question(Api.METADATA, version, 1, body, 0)
        try:
            told = of.told(question, HERE)
        except WireError:
            continue
        assert told is not None
        decode_answer(Api.METADATA, version, bytes(told))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_an_answer_that_clients_were_told_and_that_cannot_be_read_changes_nothing(data: st.DataObject) -> None:
    """Answers are passed on without being read to their end."""
    whole = said(12, topic("newer", 2))
    cut = data.draw(st.integers(60, len(whole.frame) - 1))
    broken = whole.frame[:cut] + data.draw(st.binary(max_size=4))
    known = remembered(12, *TOPICS)
    known.note(Said(12, broken))
    known.note(said(12, topic("last", 1)))
    names = {found.name for found in ask(Api.METADATA, 12, known, topics=None).topics}
    assert {"one", "__x", "last"} <= names


def test_names_that_fit_the_version_that_told_them_and_not_the_one_that_asks_are_an_error() -> None:
    known = remembered(12, topic("n" * 40_000, 1))
    with pytest.raises(WireError):
        ask(Api.METADATA, 8, known, topics=None)
