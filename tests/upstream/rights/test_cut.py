"""Answers of Metadata without topics, cut out of their bytes: what is left is what kio reads of the whole."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import WireError
from muster_coordinator.upstream.apis import JUDGED
from muster_coordinator.upstream.rights.cut import with_topics
from muster_coordinator.wire.versions import Api

from tests.upstream.rights.frames import CORRELATION, MINE, THEIRS, messages
from tests.upstream.test_brokers import framed
from tests.wire.kio_entities import decode_answer

API = Api.METADATA
VERSIONS = range(JUDGED[API].low, JUDGED[API].high + 1)


def keeps(name: str) -> bool:
    return name.startswith("mine")


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_what_is_left_is_what_is_kept(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(VERSIONS))
    values = data.draw(messages(API, version, "response"))
    answer = framed(API, version, values, CORRELATION)
    assert with_topics(version, answer, lambda _: True) == answer
    correlation, whole = decode_answer(API, version, answer)
    told_correlation, told = decode_answer(API, version, bytes(with_topics(version, answer, keeps)))
    kept = tuple(one for one in whole.topics if one.name.startswith("mine"))
    assert (told_correlation, told) == (correlation, dataclasses.replace(whole, topics=kept))


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_bytes_that_are_no_answer_are_told(data: st.DataObject) -> None:
    """Cut anywhere, or with a byte changed: an error, or an answer that kio can or cannot read; it always ends."""
    version = data.draw(st.sampled_from(VERSIONS))
    answer = framed(API, version, data.draw(messages(API, version, "response")), CORRELATION)
    at = data.draw(st.integers(8, len(answer) - 1))
    with pytest.raises(WireError):
        # The last tags, or a field at the very end, may be missing without notice: nobody reads them here.
        with_topics(version, answer[: min(at, len(answer) - 6)], keeps)
    changed = bytearray(answer)
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        with_topics(version, bytes(changed), keeps)
    except WireError:
        return


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("replicas", [0, 1, 126, 127, 128, 20_000])
def test_a_partition_of_any_number_of_replicas(version: int, replicas: int) -> None:
    partition = {
        "error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 2, "replica_nodes": (7,) * replicas,
        "isr_nodes": (7,), "offline_replicas": (),
    }  # fmt: skip

    def topic(name: str) -> dict[str, Any]:
        parts = (partition, {**partition, "partition_index": 1})
        return {"error_code": 0, "name": name, "topic_id": bytes(16), "is_internal": False, "partitions": parts}

    names = (THEIRS[0], MINE[0], THEIRS[1], MINE[1])
    answer = framed(
        API,
        version,
        {"brokers": (), "cluster_id": "c", "controller_id": 1, "topics": tuple(map(topic, names))},
        CORRELATION,
    )
    _, told = decode_answer(API, version, bytes(with_topics(version, answer, keeps)))
    _, whole = decode_answer(API, version, answer)
    assert told.topics == (whole.topics[1], whole.topics[3])
