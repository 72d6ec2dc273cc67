"""The frames around a client's own login at the upstream, against Kafka's schemas as kio has them."""

from typing import Any

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.security.outcome import Elsewhere, Judged
from muster_coordinator.upstream.limits import LOGIN_TOLD_CHARS_MAX
from muster_coordinator.upstream.passed_login import PassedLogin
from muster_coordinator.wire.versions import Api

from tests.upstream.test_brokers import framed
from tests.upstream.test_looks import read_request

FIRST, NEXT = Elsewhere(b"first", begins=True), Elsewhere(b"next", begins=False)


def taken(mechanisms: tuple[str, ...] = ("PLAIN",), code: int = 0) -> bytes:
    return framed(Api.SASL_HANDSHAKE, 1, {"error_code": code, "mechanisms": mechanisms}, 0)


def answered(message: bytes = b"", code: int = 0, told: str | None = None, lifetime_ms: int = 0) -> bytes:
    values = {"error_code": code, "error_message": told, "auth_bytes": message, "session_lifetime_ms": lifetime_ms}
    return framed(Api.SASL_AUTHENTICATE, 1, values, 0)


def asked(frame: bytes | Judged) -> Any:
    assert isinstance(frame, bytes)
    return read_request(Api.SASL_AUTHENTICATE, 1, frame)


def shaken() -> PassedLogin:
    one = PassedLogin()
    handshake: Any = read_request(Api.SASL_HANDSHAKE, 1, one.begin("SCRAM-SHA-512", FIRST))
    assert handshake.mechanism == "SCRAM-SHA-512"
    assert asked(one.receive(taken())).auth_bytes == b"first"
    return one


def test_an_exchange_and_another_one_on_the_same_connection() -> None:
    one = shaken()
    assert one.receive(answered(b"challenge")) == Judged(b"challenge")
    assert asked(one.begin("SCRAM-SHA-512", NEXT)).auth_bytes == b"next"
    assert one.receive(answered(b"v=", lifetime_ms=9)) == Judged(b"v=", lifetime_ms=9)
    again: Any = read_request(Api.SASL_HANDSHAKE, 1, one.begin("SCRAM-SHA-512", FIRST))
    assert again.mechanism == "SCRAM-SHA-512"
    assert asked(one.receive(taken())).auth_bytes == b"first"


def test_a_refusal_is_in_the_brokers_words_and_cut() -> None:
    assert shaken().receive(answered(code=58, told="no")) == Judged(b"", refused="no")
    told = shaken().receive(answered(code=58, told="x" * 5_000))
    assert isinstance(told, Judged)
    assert len(told.refused) == LOGIN_TOLD_CHARS_MAX
    unsaid = shaken().receive(answered(code=58, told=None))
    assert isinstance(unsaid, Judged)
    assert unsaid.refused


def test_a_mechanism_that_the_broker_does_not_take() -> None:
    one = PassedLogin()
    one.begin("PLAIN", FIRST)
    told = one.receive(taken(("SCRAM-SHA-256",), 33))
    assert told == Judged(b"", refused="The upstream does not take PLAIN, but SCRAM-SHA-256")


@pytest.mark.parametrize("code", [-1, 7, 34, 41])
def test_what_says_neither_yes_nor_no_is_no_refusal(code: int) -> None:
    """A client that is refused gives up for good."""
    with pytest.raises(WireError, match=f"error {code} to a login"):
        shaken().receive(answered(code=code))
    one = PassedLogin()
    one.begin("PLAIN", FIRST)
    with pytest.raises(WireError, match=f"error {code} to a handshake"):
        one.receive(taken(code=code))


def test_a_broker_that_cannot_judge_refuses_nobody() -> None:
    with pytest.raises(WireError):
        shaken().receive(answered(code=-1, told="the credentials cannot be read"))


def test_a_lifetime_below_zero_is_none() -> None:
    assert shaken().receive(answered(lifetime_ms=-5)) == Judged(b"", lifetime_ms=0)


def test_cut_answers_are_errors() -> None:
    for frame in (taken(), answered(b"message")):
        for stop in range(len(frame)):
            one = PassedLogin()
            one.begin("PLAIN", FIRST)
            if frame != taken():
                one.receive(taken())
            with pytest.raises(WireError):
                one.receive(frame[:stop])
