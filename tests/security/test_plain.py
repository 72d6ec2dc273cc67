"""PLAIN (RFC 4616): one message, and one answer to all that is wrong with it."""

import pytest
from muster_coordinator.security.limits import PLAIN_MESSAGE_BYTES_MAX
from muster_coordinator.security.outcome import Accepted, Refused
from muster_coordinator.security.plain import INVALID, PlainServer

USERS = {"alice": "wonder land", "bob": "ü", "empty": "", "odd": "aba"}


@pytest.mark.parametrize("message", ["\0alice\0wonder land", "alice\0alice\0wonder land", "\0bob\0ü"])
def test_who_knows_the_password_is_accepted(message: str) -> None:
    outcome = PlainServer(USERS).step(message.encode())
    assert isinstance(outcome, Accepted)
    assert outcome.user == message.split("\0")[1]


@pytest.mark.parametrize(
    "message",
    [
        b"\0alice\0wonder", b"\0alice\0", b"\0\0wonder land", b"\0carol\0x", b"\0carol\0aba",
        b"bob\0alice\0wonder land",
        b"\0alice", b"alice\0wonder land", b"\0alice\0wonder land\0", b"", b"\0empty\0", b"\0\xff\0\xff",
        b"\0alice\0" + b"x" * PLAIN_MESSAGE_BYTES_MAX,
    ],
)  # fmt: skip
def test_all_else_is_refused_in_the_same_words(message: bytes) -> None:
    outcome = PlainServer(USERS).step(message)
    assert isinstance(outcome, Refused)
    assert outcome.told == INVALID
    assert "wonder" not in repr(outcome)
