"""Records of the transaction log: the bytes that Kafka 4.3's `TransactionLogKey` and `TransactionLogValue` write."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.transaction_log import (
    TransactionValue,
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)

KEY = bytes.fromhex("000000056170702d31")
EMPTY = TransactionValue(1000, 0, 60_000, 0, None, 1_700_000_000_000, -1)
EMPTY_V0 = bytes.fromhex("000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff")
EMPTY_V1 = bytes.fromhex("000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff00")
IN_IT = (("a", 0), ("a", 2), ("b", 7))
ONGOING = TransactionValue(1000, 3, 900_000, 1, IN_IT, 1_700_000_000_001, 1_700_000_000_000)
ONGOING_V0 = bytes.fromhex(
    "000000000000000003e80003000dbba001000000020001610000000200000000000000020001620000000100000007"
    "0000018bcfe568010000018bcfe56800"
)
ONGOING_V1 = bytes.fromhex(
    "000100000000000003e80003000dbba0010302610300000000000000020002620200000007000000018bcfe568010000018bcfe5680000"
)
PREPARED = TransactionValue(1000, 32_767, 900_000, 2, IN_IT, 1_700_000_000_001, 1_700_000_000_000, 999, 2000, 2)
PREPARED_V1 = bytes.fromhex(
    "000100000000000003e87fff000dbba0020302610300000000000000020002620200000007000000018bcfe568010000018bcfe568"
    "0003000800000000000003e7010800000000000007d002020002"
)
LARGEST = TransactionValue(2**63 - 1, 2**15 - 1, 2**31 - 1, 5, (), 2**63 - 1, 2**63 - 1)
LARGEST_V0 = bytes.fromhex("00007fffffffffffffff7fff7fffffff05000000007fffffffffffffff7fffffffffffffff")
LARGEST_V1 = bytes.fromhex("00017fffffffffffffff7fff7fffffff05017fffffffffffffff7fffffffffffffff00")
NEXT_EPOCH_V1 = bytes.fromhex(
    "000100000000000003e80003000dbba0010302610300000000000000020002620200000007000000018bcfe568010000018bcfe56800"
    "0103020005"
)
"""With KIP-939's NextProducerEpoch (tag 3), which this release does not know."""


def test_the_key_has_the_bytes_of_kafka() -> None:
    assert encode_transaction_key("app-1") == KEY
    assert decode_transaction_key(KEY) == "app-1"


@pytest.mark.parametrize(
    ("value", "version", "expected"),
    [
        (EMPTY, 0, EMPTY_V0),
        (EMPTY, 1, EMPTY_V1),
        (ONGOING, 0, ONGOING_V0),
        (ONGOING, 1, ONGOING_V1),
        (PREPARED, 1, PREPARED_V1),
        (LARGEST, 0, LARGEST_V0),
        (LARGEST, 1, LARGEST_V1),
    ],
)
def test_values_have_the_bytes_of_kafka(value: TransactionValue, version: int, expected: bytes) -> None:
    assert encode_transaction_value(value, version).hex() == expected.hex()
    assert decode_transaction_value(expected) == value


def test_unknown_tags_are_passed_over() -> None:
    """Kafka adds tagged fields without a new version (KIP-915)."""
    assert decode_transaction_value(NEXT_EPOCH_V1) == ONGOING


def test_versions_above_ours_are_refused_as_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        decode_transaction_value(b"\0\2" + EMPTY_V1[2:])
    with pytest.raises(UnsupportedError):
        decode_transaction_key(b"\0\1" + KEY[2:])


@pytest.mark.parametrize("whole", [EMPTY_V0, EMPTY_V1, ONGOING_V0, ONGOING_V1, PREPARED_V1])
def test_a_value_that_is_cut_anywhere_or_longer_is_malformed(whole: bytes) -> None:
    for end in range(len(whole)):
        with pytest.raises(MalformedError):
            decode_transaction_value(whole[:end])
    with pytest.raises(MalformedError):
        decode_transaction_value(whole + b"\0")


def test_a_tag_of_the_wrong_size_is_malformed() -> None:
    with pytest.raises(MalformedError):
        decode_transaction_value(EMPTY_V1[:-1] + bytes.fromhex("01000400000001"))


def test_an_id_or_a_topic_that_is_too_long_is_malformed() -> None:
    assert decode_transaction_key(encode_transaction_key("x" * 32_767)) == "x" * 32_767
    with pytest.raises(MalformedError):
        encode_transaction_key("x" * 32_768)
    with pytest.raises(MalformedError):
        encode_transaction_value(ONGOING._replace(partitions=(("x" * 32_768, 0),)))


@settings(max_examples=200)
@given(data=st.binary(max_size=120))
def test_bytes_that_are_no_value_are_malformed_and_nothing_else(data: bytes) -> None:
    for decode in (decode_transaction_value, decode_transaction_key):
        with suppress(MalformedError, UnsupportedError):
            decode(data)  # type: ignore[operator]


_I64 = st.integers(-1, 2**63 - 1)


@settings(max_examples=100)
@given(
    value=st.builds(
        TransactionValue,
        _I64,
        st.integers(-1, 2**15 - 1),
        st.integers(0, 2**31 - 1),
        st.integers(0, 5),
        st.none()
        | st.sets(st.tuples(st.sampled_from(("a", "é", "t" * 249)), st.integers(0, 2**31 - 1))).map(
            lambda s: tuple(sorted(s))
        ),
        _I64,
        _I64,
        _I64,
        _I64,
        st.integers(0, 2**15 - 1),
    )
)
def test_what_is_written_is_read(value: TransactionValue) -> None:
    assert decode_transaction_value(encode_transaction_value(value)) == value
