"""Fairness between groups: the subject of a frame as other encoders write it, and the round of the subjects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.wire.fairness import FairQueue, subject_of
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.wire.kio_entities import encode_request

GROUP = "orders-äöü"
ONE_GROUP = [
    (api, version)
    for api in (Api.OFFSET_COMMIT, Api.JOIN_GROUP, Api.HEARTBEAT, Api.LEAVE_GROUP, Api.SYNC_GROUP, Api.OFFSET_FETCH)
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1)
    if api != Api.OFFSET_FETCH or version < 8
]


@pytest.mark.parametrize(("api", "version"), ONE_GROUP)
@pytest.mark.parametrize("client", ["", "a-client", None])
def test_the_subject_of_every_version_of_a_group_request_is_its_group(
    api: Api, version: int, client: str | None
) -> None:
    frame = encode_request(api, version, {"group_id": GROUP}, 7, client)
    assert subject_of(frame) == GROUP.encode()


@pytest.mark.parametrize("api", [Api.METADATA, Api.FETCH, Api.FIND_COORDINATOR])
def test_other_requests_have_no_group(api: Api) -> None:
    assert subject_of(encode_request(api, VERSIONS[api].min, {}, 7, "c")) == b""


def test_a_long_group_is_cut_and_one_of_a_longer_length_field_is_left_out() -> None:
    assert subject_of(encode_request(Api.HEARTBEAT, 3, {"group_id": "g" * 1_000}, 1, "c")) == b"g" * 255
    assert subject_of(encode_request(Api.HEARTBEAT, 4, {"group_id": "g" * 1_000}, 1, "c")) == b""


@given(st.binary(max_size=64))
def test_no_bytes_raise(data: bytes) -> None:
    assert isinstance(subject_of(data), bytes)


@given(st.integers(0, 60))
def test_a_frame_that_is_not_whole_raises_nothing(size: int) -> None:
    frame = encode_request(Api.HEARTBEAT, 4, {"group_id": GROUP}, 7, "c")
    assert GROUP.encode().startswith(subject_of(frame[:size]))


def test_subjects_take_turns_and_each_is_served_in_order() -> None:
    queue: FairQueue[int] = FairQueue()
    for item in range(5):
        queue.put(b"storm", item)
    queue.put(b"quiet", 100)
    assert [queue.take() for _ in range(3)] == [0, 100, 1]
    queue.put(b"quiet", 101)
    assert [queue.take() for _ in range(4)] == [2, 101, 3, 4]
    assert len(queue) == 0


@given(st.lists(st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c"])), max_size=200))
def test_nothing_is_lost_or_overtaken_within_its_subject(steps: list[bytes | None]) -> None:
    """None: take one, if any waits."""
    queue: FairQueue[tuple[bytes, int]] = FairQueue()
    taken: list[tuple[bytes, int]] = []
    put = 0
    for subject in steps:
        if subject is not None:
            queue.put(subject, (subject, put))
            put += 1
        elif queue:
            taken.append(queue.take())
    while queue:
        taken.append(queue.take())
    assert len(taken) == put
    for subject in (b"a", b"b", b"c"):
        mine = [number for name, number in taken if name == subject]
        assert mine == sorted(mine)
