"""Peer frames: whole at any fragmentation, and nothing accepted that was damaged or is too long."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.errors import WireError
from muster_coordinator.limits import LINK_HELLO_BYTES_MAX, OFFSETS_BATCH_BYTES_MAX, PEER_FRAME_BYTES_MAX
from muster_coordinator.links.channels import APPEND, BULK, CONTROL, FORWARD, HANDSHAKE
from muster_coordinator.links.frames import HEADER_BYTES, FrameSplitter, frame_header

CHANNELS = (CONTROL, APPEND, BULK, FORWARD)


def framed(channel: int, body: bytes) -> bytes:
    return frame_header(channel, body) + body


def opened() -> FrameSplitter:
    splitter = FrameSplitter()
    splitter.open_up()
    return splitter


def test_the_layout_is_length_checksum_channel_body() -> None:
    header = frame_header(APPEND, b"123456789")
    length, _, channel = struct.unpack(">IIB", header)
    assert (length, channel, len(header)) == (9 + 5, APPEND, HEADER_BYTES)
    # crc32c of "123456789" is 0xE3069283; ours also covers the channel in front of it.
    assert struct.unpack(">I", header[4:8])[0] != 0xE3069283


@pytest.mark.parametrize("cut", range(len(framed(APPEND, b"abc") + framed(CONTROL, b"") + framed(BULK, b"x" * 40))))
def test_frames_survive_a_cut_at_every_byte(cut: int) -> None:
    stream = framed(APPEND, b"abc") + framed(CONTROL, b"") + framed(BULK, b"x" * 40)
    splitter = opened()
    frames = list(splitter.feed(stream[:cut])) + list(splitter.feed(stream[cut:]))
    assert frames == [(APPEND, b"abc"), (CONTROL, b""), (BULK, b"x" * 40)]


def test_frames_survive_byte_by_byte() -> None:
    stream = framed(FORWARD, b"hello") + framed(APPEND, b"w" * 300)
    splitter = opened()
    frames = [frame for i in range(len(stream)) for frame in splitter.feed(stream[i : i + 1])]
    assert frames == [(FORWARD, b"hello"), (APPEND, b"w" * 300)]


@given(st.lists(st.tuples(st.sampled_from(CHANNELS), st.binary(max_size=200)), max_size=8), st.data())
def test_any_fragmentation_gives_the_same_frames(frames: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(framed(channel, body) for channel, body in frames)
    splitter = opened()
    found: list[tuple[int, bytes]] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    assert found == frames


@pytest.mark.parametrize("position", range(4, len(framed(APPEND, b"payload"))))
def test_every_flipped_bit_behind_the_length_is_noticed(position: int) -> None:
    stream = bytearray(framed(APPEND, b"payload"))
    stream[position] ^= 0x01
    with pytest.raises(WireError):
        list(opened().feed(bytes(stream)))


def test_a_longer_claim_is_refused_before_its_body_arrives() -> None:
    splitter = opened()
    header = struct.pack(">IIB", PEER_FRAME_BYTES_MAX + 6, 0, CONTROL)
    with pytest.raises(WireError, match="262145 bytes on channel 0"):
        list(splitter.feed(header))


def test_the_longest_frame_of_a_channel_passes() -> None:
    body = bytes(PEER_FRAME_BYTES_MAX)
    assert list(opened().feed(framed(CONTROL, body))) == [(CONTROL, body)]


def test_an_entry_larger_than_a_frame_travels_on_the_append_channel() -> None:
    body = bytes(OFFSETS_BATCH_BYTES_MAX)
    assert list(opened().feed(framed(APPEND, body))) == [(APPEND, body)]


def test_a_stranger_cannot_announce_more_than_a_hello() -> None:
    header = struct.pack(">IIB", LINK_HELLO_BYTES_MAX + 6, 0, APPEND)
    with pytest.raises(WireError):
        list(FrameSplitter().feed(header))


@pytest.mark.parametrize("length", [0, 4])
def test_a_length_below_its_own_header_is_refused(length: int) -> None:
    with pytest.raises(WireError):
        list(opened().feed(struct.pack(">IIB", length, 0, CONTROL)))


def test_an_unknown_channel_is_refused() -> None:
    with pytest.raises(WireError, match="unknown channel 9"):
        list(opened().feed(struct.pack(">IIB", 5, 0, 9)))


def test_a_message_over_its_channels_limit_is_our_own_bug() -> None:
    with pytest.raises(AssertionError):
        frame_header(CONTROL, bytes(PEER_FRAME_BYTES_MAX + 1))


def test_the_handshake_channel_takes_a_whole_hello() -> None:
    body = bytes(LINK_HELLO_BYTES_MAX)
    assert list(FrameSplitter().feed(framed(HANDSHAKE, body))) == [(HANDSHAKE, body)]
