"""A small frame cannot make a large allocation (decision 34)."""

import struct
import tracemalloc

import pytest
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import WireError
from muster_coordinator.limits import MIB
from muster_coordinator.wire import limits
from muster_coordinator.wire.codecs import decoder
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.reader import reader
from muster_coordinator.wire.versions import VERSIONS, Api
from muster_coordinator.wire.writer import write_uvarint

CONTEXT = RequestContext(
    principal="", listener="", connection_id=1, client_id="", client_host="", api_key=0, api_version=0, deadline_ms=0
)


def compact(count: int) -> bytes:
    out = bytearray()
    write_uvarint(out, count + 1)
    return bytes(out)


@pytest.mark.parametrize("count", [2**31 - 1, 2**31 - 2, 2**24])
def test_a_count_beyond_the_frame_is_refused_before_anything_is_made(count: int) -> None:
    """kio's native reader ends the process on the compact form of this."""
    readers = {version: reader(Api.METADATA, version) for version in (4, 12)}
    tracemalloc.start()
    for data, version in ((compact(count) + bytes(20), 12), (struct.pack(">i", count) + bytes(20), 4)):
        with pytest.raises(WireError):
            readers[version](Frame(data, len(data)), 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


def test_a_count_within_the_budget_but_beyond_the_frame_is_refused_by_itself() -> None:
    data = compact(1_000) + bytes(20)
    with pytest.raises(WireError, match="longer than its frame"):
        reader(Api.METADATA, 12)(Frame(data, len(data)), 0)


def test_an_honest_frame_of_tiny_elements_stops_at_the_heap_budget() -> None:
    count = 3 * MIB
    data = struct.pack(">i", count) + bytes(2) * count + b"\x01"
    assert len(data) < limits.FRAME_BYTES_MAX
    read = reader(Api.METADATA, 4)
    tracemalloc.start()
    with pytest.raises(WireError, match="budget"):
        read(Frame(data, len(data)), 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MIB


@pytest.mark.parametrize("elements", [1_000, 20_000])
def test_the_budget_bounds_what_is_really_taken(elements: int) -> None:
    """The estimate is not below the truth: decoding within a budget stays within it."""
    data = compact(elements) + b"\x01\x00" * elements + bytes(4)
    frame, read = Frame(data, len(data)), reader(Api.METADATA, 9)
    tracemalloc.start()
    kept = read(frame, 0)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept.topics) == elements
    assert taken <= limits.REQUEST_HEAP_BYTES_MAX - frame.heap_left + 4_096


def test_nested_counts_are_charged_together() -> None:
    """Each array is small; all of them together are not."""
    partitions = struct.pack(">i", 60) + struct.pack(">i", 1) * 60
    topics = 3_000
    body = b"\x00\x01g" + struct.pack(">i", topics) + (b"\x00\x01t" + partitions) * topics
    budget = 1_000_000
    with pytest.raises(WireError, match="budget"):
        decoder(Api.OFFSET_FETCH, 3)(Frame(body, len(body), budget), 0, CONTEXT)
    assert decoder(Api.OFFSET_FETCH, 3)(Frame(body, len(body)), 0, CONTEXT)[0].group == "g"


def test_text_that_python_widens_is_charged() -> None:
    wide = "é" + "a" * 20_000
    raw = wide.encode()
    body = struct.pack(">i", 1) + struct.pack(">h", len(raw)) + raw
    with pytest.raises(WireError, match="budget"):
        reader(Api.METADATA, 1)(Frame(body, len(body), 50_000), 0)


def test_strings_above_kafkas_limit_are_refused_in_the_compact_form_too() -> None:
    """What came in compact may have to go out in the old form, which cannot hold it."""
    for size, fits in ((0x7FFF, True), (0x8000, False)):
        body = compact(size) + b"g" * size + bytes(4) + b"\x01\x00\x00"
        if fits:
            assert decoder(Api.HEARTBEAT, 4)(Frame(body, len(body)), 0, CONTEXT).group == "g" * size
        else:
            with pytest.raises(WireError):
                decoder(Api.HEARTBEAT, 4)(Frame(body, len(body)), 0, CONTEXT)


@pytest.mark.parametrize("raw", [b"\xff" * 11, b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x1f"])
def test_varints_longer_than_32_bits_are_refused(raw: bytes) -> None:
    data = raw + bytes(40)
    with pytest.raises(WireError):
        reader(Api.METADATA, 12)(Frame(data, len(data)), 0)


def test_more_tags_than_bytes_are_refused_at_once() -> None:
    data = b"\x01\x00\x00" + b"\xff\xff\xff\x7f" + bytes(10)
    with pytest.raises(WireError):
        reader(Api.METADATA, 12)(Frame(data, len(data)), 0)


def test_no_served_request_can_be_made_from_zeros_beyond_its_budget() -> None:
    """A frame of nothing but one byte value, for every version: refused or read, never an unbounded object."""
    for api, versions in VERSIONS.items():
        for version in range(versions.min, versions.max + 1):
            for byte in (0, 1, 0x7F):
                data = bytes([byte]) * 50_000
                frame = Frame(data, len(data), 2_000_000)
                try:
                    decoder(api, version)(frame, 0, CONTEXT)
                except WireError:
                    continue
                assert frame.heap_left >= 0
