"""SCRAM's client: the example of RFC 7677, our own server over its whole course, servers that are not who they say."""

import base64
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import WireError
from muster_coordinator.security.limits import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_MESSAGE_BYTES_MAX
from muster_coordinator.security.outcome import Accepted, Challenge, Refused
from muster_coordinator.security.scram import (
    ScramCredential,
    ScramMechanism,
    ScramServer,
    credential_of,
    salted_password,
)
from muster_coordinator.security.scram_client import ScramClient

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client() -> ScramClient:
    return ScramClient(ScramMechanism.SHA_256, "user", "pencil", NONCE)


def test_the_example_of_rfc_7677() -> None:
    one = client()
    assert one.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert one.answer(FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    one.check(FINAL)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "malformed"),
        (b"r=other,s=W22Z,i=4096", "malformed, or has not our nonce"),
        (f"r={NONCE},s=W22Z,i=4096".encode(), "malformed, or has not our nonce"),
        (FIRST.replace(b"i=4096", b"i=4095"), "wants 4095 iterations"),
        (FIRST.replace(b"i=4096", b"i=%d" % (SCRAM_ITERATIONS_MAX + 1)), "iterations"),
        (FIRST.replace(b"i=4096", b"i=99999999999999999999"), "malformed"),
        (FIRST.replace(b"i=4096", b"i=-1"), "malformed"),
        (FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b"W22Za"), "base64"),
        (FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", base64.b64encode(bytes(129))), "129 bytes of salt"),
        (b"m=ext," + FIRST, "malformed"),
        (b"\xff" + FIRST, "not UTF-8"),
        (FIRST + b",x=" + bytes(SCRAM_MESSAGE_BYTES_MAX), "bytes"),
    ],
)
def test_a_first_message_that_is_none_or_weak_gets_no_proof(message: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        client().answer(message)


@pytest.mark.parametrize("message", [b"", b"v=", b"e=invalid-proof", b"v=AAAA", FINAL[:-2], FINAL + b"!", b"v=!!!!"])
def test_a_server_that_does_not_know_the_password_is_not_believed(message: bytes) -> None:
    one = client()
    one.answer(FIRST)
    with pytest.raises(WireError):
        one.check(message)


def test_nobody_is_believed_before_the_proof() -> None:
    with pytest.raises(WireError):
        client().check(FINAL)


def kept(mechanism: ScramMechanism, password: str, iterations: int) -> ScramCredential:
    salt = hashlib.sha256(password.encode()).digest()
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Cs", "Cc")), min_size=1, max_size=20
)


@given(st.sampled_from(ScramMechanism), NAMES, st.text(min_size=1, max_size=20), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_whole_course_with_our_server(mechanism: ScramMechanism, user: str, password: str, right: bool) -> None:
    credential = kept(mechanism, password, SCRAM_ITERATIONS_MIN)
    server = ScramServer(mechanism, lambda name: credential if name == user else None, "server", bytes(32))
    one = ScramClient(mechanism, user, password if right else password + "x", "client")
    challenge = server.step(one.first())
    assert isinstance(challenge, Challenge)
    outcome = server.step(one.answer(challenge.message))
    if right:
        assert isinstance(outcome, Accepted)
        assert outcome.user == user
        one.check(outcome.message)
    else:
        assert isinstance(outcome, Refused)
