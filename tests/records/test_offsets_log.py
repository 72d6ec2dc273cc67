"""The offsets log: every version Kafka wrote is read, own types come back whole, what we do not know is kept or
refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.keys import (
    CandidateGenerationKey,
    GroupRebalanceKey,
    OffsetCommitKey,
    RawKey,
    decode_key,
    encode_candidate_key,
    encode_group_key,
    encode_offset_key,
    encode_rebalance_key,
)
from muster_coordinator.records.offsets_log import (
    GroupMetadataValue,
    MetadataMember,
    OffsetCommitValue,
    decode_group_value,
    decode_offset_value,
    encode_group_value,
    encode_offset_value,
)
from muster_coordinator.records.own import (
    CandidateGeneration,
    GroupRebalance,
    OwnMember,
    decode_candidate,
    decode_rebalance,
    encode_candidate,
    encode_rebalance,
)

texts = st.text(max_size=12)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=30)
own_members = st.builds(
    OwnMember,
    texts,
    st.none() | texts,
    texts,
    texts,
    i32,
    i32,
    st.lists(st.tuples(texts, blobs), max_size=3).map(tuple),
    blobs,
)
candidates = st.builds(CandidateGeneration, texts, i32, texts, texts, i64, st.lists(own_members, max_size=3).map(tuple))
rebalances = st.builds(
    GroupRebalance,
    texts,
    i32,
    st.none() | texts,
    st.none() | texts,
    i64,
    st.lists(own_members, max_size=3).map(tuple),
    texts,
)
members = st.builds(MetadataMember, texts, st.none() | texts, texts, texts, i32, i32, blobs, blobs)
generations = st.builds(
    GroupMetadataValue, texts, i32, st.none() | texts, st.none() | texts, i64, st.lists(members, max_size=3).map(tuple)
)


@given(texts, texts, i32)
def test_keys_come_back(group, topic, partition):
    assert decode_key(encode_offset_key(group, topic, partition)) == OffsetCommitKey(group, topic, partition)
    assert decode_key(encode_group_key(group)) == (group,)
    assert decode_key(encode_candidate_key(group)) == CandidateGenerationKey(group)
    assert decode_key(encode_rebalance_key(group)) == GroupRebalanceKey(group)
    assert isinstance(decode_key(encode_candidate_key(group)), CandidateGenerationKey)


def test_the_old_type_of_offset_keys_is_read():
    old = b"\0\0" + encode_offset_key("g", "t", 3)[2:]
    assert decode_key(old) == OffsetCommitKey("g", "t", 3)


@pytest.mark.parametrize("kind", [3, 4, 5, 6, 7, 8, 9, 16, 17, 999])
def test_kafkas_other_types_stay_raw(kind):
    key = struct.pack(">h", kind) + b"anything"
    assert decode_key(key) == RawKey(kind, key)


@pytest.mark.parametrize("key", [b"", b"\0", b"\xff\xff", encode_group_key("g") + b"x", encode_group_key("abc")[:-1]])
def test_damaged_keys_are_refused(key):
    with pytest.raises(MalformedError):
        decode_key(key)


def test_own_types_of_a_newer_release_are_refused():
    with pytest.raises(UnsupportedError):
        decode_key(struct.pack(">h", 1002))


@given(i64, i32, texts, i64, st.integers(0, 2**62), st.binary(min_size=16, max_size=16).filter(any))
def test_offset_values_come_back_in_the_version_they_need(offset, epoch, metadata, now_ms, expire_ms, topic_id):
    plain = encode_offset_value(offset, epoch, metadata, now_ms)
    assert plain[:2] == b"\0\3"
    assert decode_offset_value(plain) == OffsetCommitValue(offset, epoch, metadata, now_ms)
    expiring = encode_offset_value(offset, epoch, metadata, now_ms, expire_ms, topic_id)
    assert expiring[:2] == b"\0\1"
    assert decode_offset_value(expiring) == OffsetCommitValue(offset, -1, metadata, now_ms, expire_ms)
    identified = encode_offset_value(offset, epoch, metadata, now_ms, topic_id=topic_id)
    assert identified[:2] == b"\0\4"
    assert decode_offset_value(identified) == OffsetCommitValue(offset, epoch, metadata, now_ms, -1, topic_id)


def test_older_offset_values_and_unknown_tags_are_read():
    head = struct.pack(">q", 7)
    assert decode_offset_value(b"\0\0" + head + b"\0\1m" + struct.pack(">q", 9)) == OffsetCommitValue(7, -1, "m", 9)
    assert decode_offset_value(b"\0\2" + head + b"\0\1m" + struct.pack(">q", 9)) == OffsetCommitValue(7, -1, "m", 9)
    with_tag = b"\0\4" + head + struct.pack(">i", 5) + b"\2m" + struct.pack(">q", 9) + b"\1\x09\2ab"
    assert decode_offset_value(with_tag) == OffsetCommitValue(7, 5, "m", 9)


@given(generations)
def test_group_values_come_back(value):
    assert decode_group_value(encode_group_value(value)) == value


def test_older_and_newer_group_values_are_read():
    member = b"\0\1m" + b"\0\1c" + b"\0\1h"
    blobs_part = b"\0\0\0\1s" + b"\0\0\0\1a"
    head = b"\0\1t" + struct.pack(">i", 3) + b"\0\1p" + b"\0\1m"
    count = struct.pack(">i", 1)
    expected = MetadataMember("m", None, "c", "h", -1, 20, b"s", b"a")
    v0 = decode_group_value(b"\0\0" + head + count + member + struct.pack(">i", 20) + blobs_part)
    assert v0 == GroupMetadataValue("t", 3, "p", "m", -1, (expected,))
    v1 = decode_group_value(b"\0\1" + head + count + member + struct.pack(">ii", 10, 20) + blobs_part)
    assert v1.members == (expected._replace(rebalance_timeout_ms=10),)
    v2 = decode_group_value(
        b"\0\2" + head + struct.pack(">q", 77) + count + member + struct.pack(">ii", 10, 20) + blobs_part
    )
    assert (v2.state_timestamp_ms, v2.members) == (77, v1.members)
    flexible = (
        b"\0\4\2t" + struct.pack(">i", 3) + b"\2p\2m" + struct.pack(">q", 77)
        + b"\2" + b"\2m\2i\2c\2h" + struct.pack(">ii", 10, 20) + b"\2s\2a\0" + b"\0"
    )  # fmt: skip
    assert decode_group_value(flexible) == GroupMetadataValue(
        "t", 3, "p", "m", 77, (expected._replace(rebalance_timeout_ms=10, instance="i"),)
    )


@given(candidates)
def test_candidate_generations_come_back(value):
    assert decode_candidate(encode_candidate(value)) == value


@given(rebalances)
def test_rebalances_come_back(value):
    assert decode_rebalance(encode_rebalance(value)) == value


def test_own_values_are_these_bytes():
    member = OwnMember("m", None, "c", "/h", 3, 4, (("range", b"\x07"),), b"\x09")
    assert encode_candidate(CandidateGeneration("t", 5, "range", "m", 6, (member,))).hex() == (
        "0000" + "0274" + "00000005" + "0672616e6765" + "026d" + "0000000000000006" + "02"
        + "026d" + "00" + "0263" + "032f68" + "00000003" + "00000004" + "02" + "0672616e6765" + "0207" + "0209" + "00" +
        "00"
    )  # fmt: skip
    assert encode_rebalance(GroupRebalance("t", 5, None, None, 6, (), "why")).hex() == (
        "0000" + "0274" + "00000005" + "00" + "00" + "0000000000000006" + "01" + "04776879" + "00"
    )


def test_later_releases_may_add_tags_to_own_values():
    value = CandidateGeneration("t", 5, "p", "m", 6, ())
    assert decode_candidate(encode_candidate(value)[:-1] + b"\1\5\3abc") == value


@pytest.mark.parametrize("decode", [decode_offset_value, decode_group_value, decode_candidate, decode_rebalance])
def test_values_of_unknown_versions_are_refused(decode):
    with pytest.raises(UnsupportedError):
        decode(b"\0\x09" + bytes(40))
    with pytest.raises(MalformedError):
        decode(b"\xff\xff" + bytes(40))


@given(st.sampled_from([decode_offset_value, decode_group_value, decode_candidate, decode_rebalance]), st.binary())
def test_no_bytes_raise_anything_but_malformed(decode, data):
    for version in range(5):
        try:
            decode(struct.pack(">h", version) + data)
        except MalformedError:
            continue


@given(generations.map(encode_group_value) | rebalances.map(encode_rebalance), st.data())
def test_a_cut_value_is_refused(value, data):
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    for decode in (decode_group_value, decode_rebalance):
        with pytest.raises(MalformedError):
            decode(cut)


def test_names_that_kafka_cannot_store_are_refused():
    for encode in (encode_group_key, encode_candidate_key, encode_rebalance_key):
        with pytest.raises(MalformedError):
            encode("g" * 32_768)
    with pytest.raises(MalformedError):
        encode_offset_key("g", "t" * 32_768, 0)
    with pytest.raises(MalformedError):
        encode_offset_value(1, 1, "m" * 32_768, 1)
