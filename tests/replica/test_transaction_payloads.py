"""Payloads 15 to 18: what is written is read, at each field's extremes; what is cut or foreign is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import PEER_FRAME_BYTES_MAX
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.replica.multiraft.payloads import Kind, kind_of
from muster_coordinator.replica.transactions.limits import MARKERS_PER_FRAME_MAX
from muster_coordinator.replica.transactions.transaction_payloads import (
    Question,
    decode_markers,
    decode_markers_result,
    decode_verify,
    decode_verify_result,
    encode_markers,
    encode_markers_result,
    encode_verify,
    encode_verify_result,
)

LARGE = (GroupNo(2**32 - 1), TransactionMarker(2**63 - 1, 2**15 - 1, EndMarker(True, 2**31 - 1), 2))
SMALL = (GroupNo(0), TransactionMarker(-1, -1, EndMarker(False, 0), 0))
QUESTIONS = (
    Question(True, 2**63 - 1, 2**15 - 1, "x" * 32_767, "t" * 249, 2**31 - 1),
    Question(False, 0, 0, "ü", "t", 0),
)


def test_markers_and_their_results_are_read_as_written() -> None:
    rows = [LARGE, SMALL] * (MARKERS_PER_FRAME_MAX // 2)
    payload = encode_markers(2**64 - 1, rows)
    assert kind_of(payload) is Kind.MARKERS
    assert len(payload) <= PEER_FRAME_BYTES_MAX
    assert decode_markers(payload) == (2**64 - 1, rows)
    codes = [-1, 0, 47, 52]
    answer = encode_markers_result(7, codes)
    assert kind_of(answer) is Kind.MARKERS_RESULT
    assert decode_markers_result(answer) == (7, codes)


@pytest.mark.parametrize("question", QUESTIONS, ids=("large", "small"))
def test_questions_are_read_as_written(question: Question) -> None:
    payload = encode_verify(9, 5_000, question)
    assert kind_of(payload) is Kind.VERIFY
    assert decode_verify(payload) == (9, 5_000, question)
    assert decode_verify_result(encode_verify_result(9, -1)) == (9, -1)


@pytest.mark.parametrize(
    ("decode", "payload"),
    [
        (decode_markers, encode_markers(1, [LARGE, SMALL])),
        (decode_markers_result, encode_markers_result(1, [0, 6])),
        (decode_verify, encode_verify(1, 5_000, QUESTIONS[1])),
        (decode_verify_result, encode_verify_result(1, 0)),
    ],
    ids=("markers", "results", "question", "answer"),
)
def test_what_is_cut_anywhere_is_refused(decode: Callable[[bytes], Any], payload: bytes) -> None:
    for end in range(2, len(payload)):
        with pytest.raises(WireError):
            decode(payload[:end])


@pytest.mark.parametrize("count", [0, MARKERS_PER_FRAME_MAX + 1, 2**32 - 1])
def test_a_count_that_no_frame_has_is_refused(count: int) -> None:
    payload = encode_markers(1, [LARGE])
    broken = payload[:10] + count.to_bytes(4, "big") + payload[14:]
    with pytest.raises(WireError):
        decode_markers(broken)


def test_names_that_are_no_text_are_refused() -> None:
    payload = encode_verify(1, 5_000, Question(False, 0, 0, "ab", "t", 0))
    with pytest.raises(WireError):
        decode_verify(payload[:-1] + b"\xff")
