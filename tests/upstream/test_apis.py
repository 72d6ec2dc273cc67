"""The tables of APIs beside an upstream: complete, and no version among them that tells an address unseen."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.upstream.apis import (
    FORWARDED,
    OURS,
    READDRESSED,
    REFUSED,
    USERS,
    Offered,
    advertised,
    common,
    is_offered,
    versions_of,
)
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.wire.kio_entities import kio_class, structure_of

TABLES = (FORWARDED, READDRESSED, OURS, USERS, REFUSED)
EVERYTHING = {int(api): Offered(0, 99) for api in VERSIONS}


def test_each_api_that_we_know_is_in_one_table() -> None:
    found = [int(api) for table in TABLES for api in table]
    assert sorted(found) == sorted(map(int, VERSIONS))
    for table in TABLES:
        for api, high in table.items():
            assert VERSIONS[api].min <= high <= VERSIONS[api].max, api


def _fields(entity: Any) -> Iterator[tuple[str, frozenset[str]]]:
    names = frozenset(entity.__dataclass_fields__)
    yield entity.__name__, names
    for field in entity.__dataclass_fields__.values():
        inner = structure_of(field.type)
        if inner is not None:
            yield from _fields(inner)


def _tells_addresses(api: int, version: int) -> bool:
    """By Kafka's schema: a structure of the answer has a host and a port."""
    return any({"host", "port"} <= names for _, names in _fields(kio_class(api, version, "response")))


def test_no_forwarded_version_tells_an_address_and_the_next_one_may() -> None:
    for api, high in FORWARDED.items():
        for version in range(VERSIONS[api].min, high + 1):
            assert not _tells_addresses(api, version), (Api(api).name, version)
    for api in (Api.PRODUCE, Api.FETCH, Api.DESCRIBE_QUORUM):
        assert _tells_addresses(api, FORWARDED[api] + 1), api.name


def test_every_version_that_is_readdressed_tells_addresses() -> None:
    for api, high in READDRESSED.items():
        assert all(_tells_addresses(api, version) for version in range(VERSIONS[api].min, high + 1))


def test_commits_name_topics() -> None:
    for api in (Api.OFFSET_COMMIT, Api.OFFSET_FETCH):
        named = dict(_fields(kio_class(api, OURS[api], "request")))
        by_id = dict(_fields(kio_class(api, OURS[api] + 1, "request")))
        assert not any("topic_id" in names for names in named.values())
        assert any("topic_id" in names for names in by_id.values())


def test_a_version_that_is_not_offered_is_none() -> None:
    assert is_offered(Api.PRODUCE, 9)
    assert not is_offered(Api.PRODUCE, 10)
    assert is_offered(Api.METADATA, VERSIONS[Api.METADATA].max)
    assert not is_offered(Api.OFFSET_COMMIT, 10)


ROWS = st.dictionaries(
    st.sampled_from(sorted(map(int, VERSIONS))), st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=60
)


@given(ROWS, st.booleans())
def test_what_is_advertised_is_ours_or_what_both_speak(theirs: dict[int, tuple[int, int]], passes_logins: bool) -> None:
    ours, passed_on = {**OURS, **REFUSED}, {**FORWARDED, **READDRESSED}
    (passed_on if passes_logins else ours).update(USERS)
    offered = versions_of((api, low, high) for api, (low, high) in theirs.items())
    told = advertised(offered, passes_logins=passes_logins)
    rows = {row["api_key"]: (row["min_version"], row["max_version"]) for row in told}
    for api, high in ours.items():
        assert rows.pop(api) == (VERSIONS[api].advertised_min, high)
    for api, (low, high) in rows.items():
        assert offered[api].low <= low <= high <= min(offered[api].high, passed_on[api])
        assert is_offered(api, high)
    for api, there in offered.items():
        if api in passed_on and api not in rows:
            top = passed_on[api]
            assert max(there.low, VERSIONS[api].advertised_min) > min(there.high, top)


@given(ROWS, ROWS)
def test_what_two_brokers_both_speak(one: dict[int, tuple[int, int]], other: dict[int, tuple[int, int]]) -> None:
    a, b = (versions_of((api, low, high) for api, (low, high) in rows.items()) for rows in (one, other))
    for api in VERSIONS:
        both = [v for v in range(21) if all(api in rows and rows[api].low <= v <= rows[api].high for rows in (a, b))]
        found = common(a, b).get(api)
        assert both == ([] if found is None else list(range(found.low, found.high + 1)))


def test_rows_of_a_kafka_are_sorted_and_whole() -> None:
    rows = advertised(EVERYTHING)
    assert [row["api_key"] for row in rows] == sorted(map(int, VERSIONS))


def test_with_our_acls_in_front_no_version_names_topics_by_id_and_acls_are_ours() -> None:
    rows = {row["api_key"]: row for row in advertised(EVERYTHING, judges=True)}
    before = {row["api_key"]: row for row in advertised(EVERYTHING)}
    assert before.keys() - rows.keys() == {Api.WRITE_TXN_MARKERS, Api.DESCRIBE_TOPIC_PARTITIONS}
    assert {api: rows[api]["max_version"] for api in (Api.FETCH, Api.METADATA, Api.DELETE_TOPICS)} == {
        Api.FETCH: 12, Api.METADATA: 11, Api.DELETE_TOPICS: 5,
    }  # fmt: skip
    lowest = {api: row["min_version"] for api, row in rows.items()}
    assert lowest == {api: before[api]["min_version"] for api in rows}, "librdkafka compresses if Produce begins at 0"
    assert {Api.DESCRIBE_ACLS, Api.CREATE_ACLS, Api.DELETE_ACLS} <= {
        row["api_key"] for row in advertised({}, judges=True)
    }, "also while nobody knows what the upstream speaks"
