"""The order of messages of a connection that authenticates, once and again."""

import pytest
from muster_coordinator.security.outcome import Accepted, Challenge, Outcome, Refused
from muster_coordinator.security.session import (
    OTHER_USER,
    PLAIN,
    SCRAM_SHA_256,
    ListenerSasl,
    Refusal,
    SaslSession,
    session_lifetime_ms,
)

OFFERED = ListenerSasl(mechanisms=(PLAIN, SCRAM_SHA_256), reauth_ms={}, plain_users={"a": "canary"})


class Script:
    """Gives what it was made with, one for each message."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)

    def step(self, _message: bytes) -> Outcome:
        return self.outcomes.pop(0)


def begun(session: SaslSession, *outcomes: Outcome, now_ms: int = 0, mechanism: str = PLAIN) -> Refusal | None:
    return session.handshake(mechanism, now_ms, lambda _: Script(*outcomes))


def authenticated(user: str = "alice") -> SaslSession:
    session = SaslSession(OFFERED)
    assert begun(session, Accepted(b"", user, since=7)) is None
    assert session.step(b"") == Accepted(b"", user, since=7)
    assert (session.user, session.since, session.mechanism) == (user, 7, PLAIN)
    return session


def test_a_challenge_is_followed_by_another_message() -> None:
    session = SaslSession(OFFERED)
    begun(session, Challenge(b"1"), Accepted(b"", "alice"))
    assert session.step(b"") == Challenge(b"1")
    assert session.user is None
    assert session.step(b"") == Accepted(b"", "alice")
    assert session.step(b"") is None, "nothing comes after the last message"


def test_a_message_before_the_handshake_is_out_of_order_and_ends_it() -> None:
    session = SaslSession(OFFERED)
    assert session.step(b"") is None
    assert begun(session, Accepted(b"", "a")) is Refusal.OUT_OF_ORDER


def test_a_second_handshake_is_out_of_order() -> None:
    session = SaslSession(OFFERED)
    begun(session, Accepted(b"", "a"))
    assert begun(session, Accepted(b"", "a")) is Refusal.OUT_OF_ORDER
    assert session.step(b"") is None


@pytest.mark.parametrize("name", ["GSSAPI", "plain", "", "SCRAM-SHA-1", "SCRAM-SHA-512"])
def test_only_what_is_offered_can_be_chosen(name: str) -> None:
    session = SaslSession(OFFERED)
    assert begun(session, mechanism=name) is Refusal.UNSUPPORTED
    assert begun(session) is Refusal.OUT_OF_ORDER, "there is no second choice"


def test_nothing_follows_a_refusal() -> None:
    session = SaslSession(OFFERED)
    begun(session, Refused("x"), Accepted(b"", "a"))
    session.step(b"")
    assert session.step(b"") is None
    assert session.user is None


def test_one_authenticates_again_as_the_same_user_and_by_the_same_mechanism() -> None:
    session = authenticated()
    assert begun(session, Accepted(b"", "alice", since=9), now_ms=1_000) is None
    assert session.again
    assert session.step(b"") == Accepted(b"", "alice", since=9)
    assert session.since == 9
    other = authenticated()
    begun(other, Accepted(b"", "bob"), now_ms=1_000)
    refused = other.step(b"")
    assert isinstance(refused, Refused)
    assert refused.told == OTHER_USER
    assert other.user == "alice"
    assert begun(authenticated(), now_ms=1_000, mechanism=SCRAM_SHA_256) is Refusal.OTHER_MECHANISM


def test_one_authenticates_again_once_a_second_at_most() -> None:
    assert begun(authenticated(), now_ms=999) is Refusal.OUT_OF_ORDER


def test_passwords_are_not_shown() -> None:
    assert "canary" not in repr(OFFERED)


@pytest.mark.parametrize(
    ("reauth_ms", "expires_ms", "lasts_ms"),
    [
        (0, None, 0),
        (5_000, None, 5_000),
        (0, 12_000, 2_000),
        (5_000, 12_000, 2_000),
        (1_000, 12_000, 1_000),
        (0, 9_999, 1),
    ],
)
def test_a_session_lasts_as_long_as_listener_and_token_allow(
    reauth_ms: int, expires_ms: int | None, lasts_ms: int
) -> None:
    assert session_lifetime_ms(reauth_ms, expires_ms, 10_000) == lasts_ms
