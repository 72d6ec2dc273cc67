"""Requests by the rights of their client, as bytes: kio has Kafka's schemas, and the names say whose a thing is."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import WireError
from muster_coordinator.upstream.apis import JUDGED
from muster_coordinator.upstream.rights.frames import Goes, Stays, judged
from muster_coordinator.upstream.rights.listed import LISTED
from muster_coordinator.upstream.rights.whole import WHOLE
from muster_coordinator.wire.schema import schema
from muster_coordinator.wire.versions import Api

from tests.upstream.rights.frames import CORRELATION, MINE, THEIRS, Owner, decode_request, messages, of_theirs, request
from tests.upstream.test_brokers import framed
from tests.wire.kio_entities import decode_answer, encode_request, kio_class, structure_of

VERSIONS = [
    (Api(api), version) for api, offered in sorted(JUDGED.items()) for version in range(offered.low, offered.high + 1)
]
SEVERAL = [(Api.FIND_COORDINATOR, version) for version in (1, 3, 4, 5)]
CODES = {29, 30, 31, 53}
CHANGED = {Api.FETCH, Api.METADATA, Api.DESCRIBE_CLUSTER}
"""Requests that go on changed whatever their client may."""


@given(st.data())
@settings(max_examples=600, deadline=None)
def test_nothing_of_others_goes_there_and_nobody_is_left_without_an_answer(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from([*VERSIONS, *SEVERAL]))
    owner = Owner(cluster=data.draw(st.booleans()) and api not in WHOLE and api != Api.CREATE_TOPICS)
    values = data.draw(messages(api, version, "request")) | {"replica_id": -1}
    found = judged(api, version, request(api, version, values), owner)
    if isinstance(found, Stays):
        if found.answer is None:
            assert api == Api.PRODUCE
            assert values["acks"] == 0
        else:
            correlation, told = decode_answer(api, version, bytes(found.answer))
            assert correlation == CORRELATION
            none = {0} if api == Api.FETCH else set()  # of the whole answer
            assert codes(told) <= {*CODES, 55, 70, *none}
    else:
        assert b"theirs" not in found.frame
        decode_request(api, found.version, found.frame)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_who_may_everything_is_served_as_if_nobody_judged(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from([*VERSIONS, *SEVERAL]))
    values = data.draw(messages(api, version, "request"))
    if api == Api.FETCH:
        values["session_id"] = 0
    sent = request(api, version, values)
    found = judged(api, version, sent, Owner(everything=True))
    assert isinstance(found, Goes)
    if api not in CHANGED:
        assert found.frame == sent.data[sent.start : sent.stop]
    if found.reworded is not None:
        values = data.draw(messages(api, found.version, "response"))
        answer = framed(api, found.version, values, CORRELATION)
        expected = decode_answer(api, version, framed(api, version, values, CORRELATION))
        assert decode_answer(api, version, bytes(found.reworded(answer))) == expected


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_of_two_the_one_is_served_and_the_other_one_denied(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from([one for one in VERSIONS if one[0] in LISTED or one[0] == Api.FETCH]))
    asked, told = ("topics", "responses") if api == Api.FETCH else (LISTED[api].asked, LISTED[api].told)
    whole = messages(api, version, "request", MINE).filter(lambda one: one[asked])
    mine, theirs = data.draw(whole), data.draw(messages(api, version, "request", THEIRS).filter(lambda one: one[asked]))
    mine |= {"session_id": 0, "replica_id": -1, "acks": 1}
    both = mine | {asked: (*mine[asked], theirs[asked][0])}
    found = judged(api, version, request(api, version, both), Owner())
    if _is_config_of_the_cluster(mine[asked]) or _is_config_of_the_cluster(theirs[asked][:1]):
        return
    assert isinstance(found, Goes)
    expected = decode_request(api, version, encode_request(api, version, mine, CORRELATION, "c"))
    if api == Api.FETCH and version >= 7:
        expected = dataclasses.replace(expected, session_epoch=type(expected.session_epoch)(-1))
    assert decode_request(api, version, found.frame) == expected
    assert found.reworded is not None
    answer = framed(api, version, data.draw(messages(api, version, "response", MINE)), CORRELATION)
    _, before = decode_answer(api, version, answer)
    _, after = decode_answer(api, version, bytes(found.reworded(answer)))
    assert dataclasses.replace(after, **{told: ()}) == dataclasses.replace(before, **{told: ()})
    *first, last = getattr(after, told)
    if api not in (Api.CREATE_TOPICS, Api.DESCRIBE_TRANSACTIONS):
        assert first == list(getattr(before, told))
    assert codes(last) <= CODES
    assert "theirs" in repr(last)


def _is_config_of_the_cluster(resources: Any) -> bool:
    return any(isinstance(one, dict) and one.get("resource_name") == "0" for one in resources)


def codes(entity: Any) -> set[int]:
    """All error codes in an answer, but of configs that are left out."""
    return set(_codes(entity))


def _codes(entity: Any) -> Iterator[int]:
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if field.name.endswith("error_code") and field.name != "topic_config_error_code":
            yield int(value)
        for one in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(one):
                yield from _codes(one)


def test_a_denial_can_be_told_in_each_version() -> None:
    for api, version in [*VERSIONS, *((Api.FIND_COORDINATOR, version) for version in range(1, 7))]:
        values = of_theirs(schema(api, version, "request")) | {"session_id": 0, "session_epoch": 0, "key_type": 1}
        found = judged(api, version, request(api, version, values), Owner())
        if isinstance(found, Goes):
            assert api in (Api.METADATA, Api.DESCRIBE_CLUSTER, Api.LIST_TRANSACTIONS), (api.name, version)
            continue
        assert found.answer is not None
        _, told = decode_answer(api, version, bytes(found.answer))
        assert (codes(told) - {0}) <= {*CODES, 55}, (api.name, version)
        assert codes(told) & CODES or (api == Api.DESCRIBE_LOG_DIRS and version < 3), (api.name, version)


@pytest.mark.parametrize("api", sorted(WHOLE))
def test_what_is_the_clusters_is_for_who_has_a_right_to_it(api: int) -> None:
    version = JUDGED[api].high
    values: dict[str, Any] = {}
    assert isinstance(judged(api, version, request(api, version, values), Owner(cluster=True)), Goes)
    found = judged(api, version, request(api, version, values), Owner())
    assert isinstance(found, Stays)
    assert found.answer is not None


BY_ID = ((Api.FETCH, 13), (Api.METADATA, 12), (Api.DELETE_TOPICS, 6))


@pytest.mark.parametrize(
    ("api", "version"),
    [*BY_ID, (Api.DESCRIBE_TOPIC_PARTITIONS, 0), (Api.CREATE_ACLS, 3), (Api.WRITE_TXN_MARKERS, 1)],
)
def test_what_cannot_be_judged_is_not_served(api: Api, version: int) -> None:
    with pytest.raises(WireError, match="not served"):
        judged(api, version, request(api, version, {}), Owner(everything=True))


def test_the_version_before_one_that_names_topics_by_id_is_served() -> None:
    for api, version in BY_ID:
        assert JUDGED[api].high == version - 1
        assert "topic_id" in _all_fields(kio_class(api, version, "request"))
        assert api == Api.METADATA or "topic_id" not in _all_fields(kio_class(api, version - 1, "request"))


def _all_fields(entity: Any) -> set[str]:
    found: set[str] = set()
    for field in dataclasses.fields(entity):
        inner = structure_of(field.type)
        found |= {field.name} | (_all_fields(inner) if inner is not None else set())
    return found


@given(st.binary(max_size=60), st.sampled_from(VERSIONS))
def test_no_bytes_do_more_than_fail(body: bytes, api: tuple[Api, int]) -> None:
    sent = request(*api, {})
    data = sent.data[: sent.body] + body
    with contextlib.suppress(WireError):
        judged(*api, sent._replace(data=data, stop=len(data)), Owner())
