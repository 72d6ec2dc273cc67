"""The embedded consumer protocol against fixed bytes, against itself, and against garbage."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.groups.assignors.consumer_protocol import (
    Assignment,
    ConsumerProtocolError,
    decode_assignment,
    decode_cooperative_user_data,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_cooperative_user_data,
    encode_sticky_user_data,
    encode_subscription,
)
from muster_coordinator.groups.assignors.membership import Subscription, TopicPartition

OWNED = (TopicPartition("t", 0), TopicPartition("t", 1))
FULL = Subscription(topics=("t",), owned=OWNED, generation_id=7, rack_id="r1")
SUBSCRIPTIONS = (
    "000000000001000174ffffffff",
    "000100000001000174ffffffff00000001000174000000020000000000000001",
    "000200000001000174ffffffff0000000100017400000002000000000000000100000007",
    "000300000001000174ffffffff000000010001740000000200000000000000010000000700027231",
)
ASSIGNMENT_V1 = "000100000001000174000000020000000000000001ffffffff"

names = st.text(min_size=1, max_size=20)
partitions = st.lists(st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), max_size=8, unique=True).map(
    lambda some: tuple(sorted(some))
)
subscriptions = st.builds(
    Subscription,
    topics=st.lists(names, max_size=5).map(lambda some: tuple(sorted(some))),
    user_data=st.none() | st.binary(max_size=20),
    owned=partitions,
    generation_id=st.integers(-1, 2**31 - 1),
    rack_id=st.none() | names,
)


@pytest.mark.parametrize("version", range(4))
def test_subscription_bytes_of_every_version(version):
    assert encode_subscription(FULL, version).hex() == SUBSCRIPTIONS[version]


def test_older_subscriptions_read_as_if_the_newer_fields_were_unset():
    v0, v1, v2, v3 = (decode_subscription(bytes.fromhex(text)) for text in SUBSCRIPTIONS)
    assert v0 == Subscription(topics=("t",))
    assert v1 == Subscription(topics=("t",), owned=OWNED)
    assert v2 == Subscription(topics=("t",), owned=OWNED, generation_id=7)
    assert v3 == FULL


def test_assignment_bytes():
    assert encode_assignment(Assignment(OWNED), 1).hex() == ASSIGNMENT_V1
    assert decode_assignment(bytes.fromhex(ASSIGNMENT_V1)) == Assignment(OWNED)


def test_no_bytes_assign_nothing():
    assert decode_assignment(b"") == Assignment()


def test_a_version_of_the_future_is_read_up_to_what_is_known():
    assert decode_subscription(b"\x00\x09" + bytes.fromhex(SUBSCRIPTIONS[3])[2:] + b"future") == FULL


def test_writers_sort_so_that_equal_subscriptions_have_equal_bytes():
    forward = Subscription(topics=("a", "b"), owned=(TopicPartition("a", 1), TopicPartition("b", 0)))
    backward = Subscription(topics=("b", "a"), owned=(TopicPartition("b", 0), TopicPartition("a", 1)))
    assert encode_subscription(forward) == encode_subscription(backward)


@given(subscriptions)
def test_subscriptions_survive_the_wire(subscription):
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(partitions, st.none() | st.binary(max_size=20), st.integers(0, 3))
def test_assignments_survive_the_wire(assigned, user_data, version):
    assert decode_assignment(encode_assignment(Assignment(assigned, user_data), version)) == Assignment(
        assigned, user_data
    )


@given(partitions, st.integers(-1, 2**31 - 1))
def test_sticky_user_data_survives_the_wire(claimed, generation):
    data = encode_sticky_user_data(claimed, generation)
    assert decode_sticky_user_data(data) == (claimed, generation)
    assert decode_sticky_user_data(data[:-4]) == (claimed, None), "its oldest form has no generation"


def test_unreadable_user_data_claims_nothing():
    assert decode_sticky_user_data(b"\x00\x00\x00\x01\x00") == ((), -1)
    assert decode_cooperative_user_data(b"\x00\x00") == -1
    assert decode_cooperative_user_data(encode_cooperative_user_data(5)) == 5


@given(subscriptions, st.integers(0, 3), st.data())
def test_cut_subscriptions_are_refused(subscription, version, data):
    whole = encode_subscription(subscription, version)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ConsumerProtocolError):
        decode_subscription(whole[:cut])


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_but_the_typed_error(garbage):
    for decode in (decode_subscription, decode_assignment):
        with contextlib.suppress(ConsumerProtocolError):
            decode(garbage)


def test_a_huge_count_is_refused_before_anything_is_allocated():
    with pytest.raises(ConsumerProtocolError, match="items announced"):
        decode_subscription(b"\x00\x00\x7f\xff\xff\xff\x00\x00")


def test_a_name_too_long_for_its_length_field_is_refused():
    with pytest.raises(ConsumerProtocolError, match="32767"):
        encode_subscription(Subscription(topics=("x" * 32768,)))
