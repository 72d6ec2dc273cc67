"""The hash beside a stream of another name: in the stream's slot of a Redis Cluster, and no other key's name."""

import binascii

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from muster_coordinator.controller.stream_names import StreamNames, pattern_error
from muster_coordinator.redis_streams.keys import keys_beside, keys_of

TEXT = st.text("a:0", max_size=4)


def slot(key: str) -> int:
    """`keyHashSlot` of Redis 7.0 (cluster.c): CRC16 of XMODEM over what is between the first brace and the next closing
    one, if anything is; else over all of it."""
    data = key.encode()
    begin = data.find(b"{")
    if begin >= 0:
        end = data.find(b"}", begin + 1)
        if end > begin + 1:
            data = data[begin + 1 : end]
    return binascii.crc_hqx(data, 0) % 16_384


def test_the_slots_are_redis_own() -> None:
    """The examples of its cluster specification; `{bar` is what counts of the last."""

    def whole(text: bytes) -> int:
        return binascii.crc_hqx(text, 0) % 16_384

    assert slot("123456789") == 0x31C3
    assert slot("{user1000}.following") == slot("{user1000}.followers") == whole(b"user1000")
    assert (slot("foo{}{bar}"), slot("foo{{bar}}zap")) == (whole(b"foo{}{bar}"), whole(b"{bar"))


@given(TEXT, st.none() | st.text("a:0", min_size=1, max_size=4), TEXT)
@example("korvet:", None, ":0")
@example("", "orders", "")
def test_both_keys_are_in_one_slot(head: str, tag: str | None, tail: str) -> None:
    pattern = head + ("" if tag is None else f"{{{{{tag}}}}}") + tail
    if pattern_error(pattern) is not None:
        return
    stream, state = keys_beside("muster", StreamNames.parse(pattern, "t").of(0))
    assert slot(stream) == slot(state)
    assert state.startswith("muster:{")


@pytest.mark.parametrize("other", ["orders:0", "{orders:0}", "orders:0:state", "{orders}:0", "orders:0}:state"])
def test_it_is_not_the_hash_of_a_topic_of_our_own(other: str) -> None:
    assert keys_of("muster", "orders", 0)[1] != keys_beside("muster", other)[1]


@given(TEXT, TEXT)
def test_two_streams_have_two_hashes(one: str, other: str) -> None:
    names = {f"{one}{{{other}a}}", f"{one}{other}a", f"{{{other}a}}{one}"}
    assert len({keys_beside("muster", name)[1] for name in names}) == len(names)
