"""Produced batches as entries: every form of a record, every codec, and each limit one under and one over."""

import gzip

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.limits import MIB
from muster_coordinator.redis_streams import produced as unit
from muster_coordinator.redis_streams.errors import NotAppendable
from muster_coordinator.redis_streams.limits import ENTRY_BYTES_MAX, HEADERS_MAX
from muster_coordinator.redis_streams.produced import produced

from tests.topics.batch_bytes import T0, Rec, batch


def refused(data: bytes, **more: int) -> Code:
    with pytest.raises(NotAppendable) as caught:
        produced(data, **more)
    return caught.value.code


def test_records_become_fields_in_their_order_with_names_of_any_bytes() -> None:
    headers = ((b"\xff\xfe", b"1"), (b"a", None), (b"\xff\xfe", b""))
    data = batch([Rec(None, None, 5), Rec(b"", b"x", 0, headers=headers)], producer_id=9, producer_epoch=2, sequence=4)
    assert produced(data) == (
        9, 2, 4, [
            (T0 + 5, [b"null", b""]),
            (T0, [b"k", b"", b"v", b"x", b"h:\xff\xfe", b"1", b"n:a", b"", b"h:\xff\xfe", b""]),
        ],
    )  # fmt: skip


def test_a_compressed_batch_is_inflated_and_one_that_explodes_is_refused() -> None:
    body = b"".join(Rec(None, b"v%d" % n).encode(n) for n in range(50))
    data = batch(50, body=gzip.compress(body), attributes=1)
    assert [fields for _, fields in produced(data).records] == [[b"v", b"v%d" % n] for n in range(50)]
    bomb = batch(1, body=gzip.compress(Rec(None, b"\0" * (2 * MIB)).encode(0)), attributes=1)
    assert refused(bomb) is Code.INVALID_RECORD


@pytest.mark.parametrize(("attributes", "configured"), [(8, False), (0, True)])
def test_with_log_append_time_the_time_is_the_ids(attributes: int, configured: bool) -> None:
    assert produced(batch(2, attributes=attributes), log_append_time=configured).records[1][0] is None


@pytest.mark.parametrize("attributes", [0x10, 0x20, 0x30])
def test_transactions_are_refused_by_kafkas_code(attributes: int) -> None:
    assert refused(batch(1, attributes=attributes)) is Code.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_headers_one_under_and_one_over() -> None:
    def with_headers(count: int) -> bytes:
        return batch([Rec(headers=[(b"h", b"")] * count)])

    assert len(produced(with_headers(HEADERS_MAX)).records[0][1]) == 4 + 2 * HEADERS_MAX
    assert refused(with_headers(HEADERS_MAX + 1)) is Code.MESSAGE_TOO_LARGE


def test_bytes_of_an_entry_one_under_and_one_over_also_if_the_server_takes_less() -> None:
    assert len(produced(batch([Rec(None, b"x" * (ENTRY_BYTES_MAX - 1))])).records) == 1
    assert refused(batch([Rec(None, b"x" * ENTRY_BYTES_MAX)])) is Code.MESSAGE_TOO_LARGE
    assert len(produced(batch([Rec(None, b"x" * 99)]), bulk_bytes_max=100).records) == 1
    assert refused(batch([Rec(None, b"x" * 100)]), bulk_bytes_max=100) is Code.MESSAGE_TOO_LARGE


def test_arguments_one_under_and_one_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit, "BATCH_ARGUMENTS_MAX", 40)
    assert len(produced(batch([Rec(None)] * 10)).records) == 10
    assert refused(batch([Rec(None)] * 11)) is Code.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_body_that_does_not_add_up_is_refused_not_raised(cut: int) -> None:
    body = Rec(b"key", b"value", headers=[(b"h", b"x")]).encode(0)
    assert refused(batch(1, body=body[:-cut] if cut < len(body) else b"")) is Code.INVALID_RECORD
    assert refused(batch(1, body=body + b"\0" * cut)) is Code.INVALID_RECORD
