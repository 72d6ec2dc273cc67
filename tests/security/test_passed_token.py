"""Whose token another server judges: our own server of OAUTHBEARER stands for it, which verifies the same bytes.

Who a client is here must be who it is there, whatever it sends.
"""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.security.limits import TOKEN_BYTES_MAX, TOKEN_MESSAGE_BYTES_MAX, USER_NAME_BYTES_MAX
from muster_coordinator.security.oauth import INVALID_TOKEN, OAuthServer
from muster_coordinator.security.outcome import Accepted, Challenge, Elsewhere, Judged, KeyMissing, Refused
from muster_coordinator.security.passed_on import PassedOn
from muster_coordinator.security.passed_token import token_user

from tests.security.test_oauth import KEYS, NOW, OTHER_KEY, RULES, message, token

OAUTHBEARER = "OAUTHBEARER"


def passed_on() -> PassedOn:
    return PassedOn(OAUTHBEARER, "sub")


def there() -> OAuthServer:
    return OAuthServer(lambda: KEYS, RULES, lambda: NOW * 1_000)


def unsigned(claims: str) -> str:
    parts = (base64.urlsafe_b64encode(one.encode()).rstrip(b"=").decode() for one in ('{"alg":"none"}', claims))
    return ".".join((*parts, ""))


@pytest.mark.parametrize("user", ["alice", "a,b=c", "ünsal", "x" * USER_NAME_BYTES_MAX])
def test_who_is_accepted_there_is_the_same_here(user: str) -> None:
    named = user.replace("=", "=3D").replace(",", "=2C")
    for first in (message(token(sub=user)), message(token(sub=user), f"a={named}", "org=x\x01")):
        here = passed_on()
        sent = here.step(first)
        assert sent == Elsewhere(first, begins=True), "with its extensions, as it was"
        judged = there().step(sent.message)
        assert isinstance(judged, Accepted)
        told = here.judged(Judged(judged.message, lifetime_ms=5_000), NOW)
        assert told == Accepted(b"", user, NOW + 5_000)
        assert judged.user == user


def test_the_claim_is_the_one_that_is_the_user_there() -> None:
    first = message(token(sub="of-the-issuer", client_id="alice"))
    here = PassedOn(OAUTHBEARER, "client_id")
    here.step(first)
    assert here.judged(Judged(b""), NOW) == Accepted(b"", "alice")
    assert isinstance(PassedOn(OAUTHBEARER, "preferred_username").step(first), Refused)


def test_a_token_that_is_not_taken_there_is_told_in_two_steps_and_its_client_is_nobody() -> None:
    server, here = there(), passed_on()
    sent = here.step(message(token(OTHER_KEY)))
    assert isinstance(sent, Elsewhere)
    assert server.step(sent.message) == Challenge(INVALID_TOKEN)
    assert here.judged(Judged(INVALID_TOKEN), NOW) == Challenge(INVALID_TOKEN)
    last = here.step(b"\x01")
    assert last == Elsewhere(b"\x01", begins=False)
    assert isinstance(server.step(last.message), Refused)
    refused = here.judged(Judged(b"", refused="no"), NOW)
    assert refused == Refused("the upstream refuses it: no", "alice", told="no")


def test_nothing_that_follows_such_a_challenge_is_a_yes() -> None:
    for said in (b"", INVALID_TOKEN):
        here = passed_on()
        here.step(message(token()))
        here.judged(Judged(INVALID_TOKEN), NOW)
        here.step(b"\x01")
        assert isinstance(here.judged(Judged(said), NOW), Refused)


NOBODY = (
    '{"sub":"alice","sub":"bob"}', '{"sub":"bob","\\u0073ub":"alice"}', '{"sub":" alice"}', '{"sub":"alice\\n"}',
    '{"sub":""}', '{"sub":7}', '{"sub":null}', '{"sub":["alice"]}', "{}", "[]", '"sub"', "", "{", "[" * 5_000,
    json.dumps({"sub": "x" * (USER_NAME_BYTES_MAX + 1)}), '{"sub":"a\\u0000b"}', '{"a":{"sub":"alice"}}',
)  # fmt: skip


def test_a_token_that_names_nobody_or_two_goes_nowhere() -> None:
    for claims in NOBODY:
        assert isinstance(passed_on().step(message(unsigned(claims))), Refused), claims[:100]


@pytest.mark.parametrize(
    "first",
    [
        message(unsigned('{"sub":"alice"}'), "a=bob"),
        message(unsigned('{"sub":"alice"}'), more="auth=Bearer " + unsigned('{"sub":"bob"}') + "\x01"),
        message("opaque"), message("opaque.token"), message("a.b.c.d"), message("a.é."),
        message("a" * TOKEN_BYTES_MAX + ".a.a"), b"n,,\x01auth=Bearer " + b"a" * TOKEN_MESSAGE_BYTES_MAX, b"\x01", b"",
    ],
)  # fmt: skip
def test_a_first_message_that_is_not_plain_goes_nowhere(first: bytes) -> None:
    assert isinstance(passed_on().step(first), Refused)


def test_a_token_of_the_greatest_size_goes_on() -> None:
    made = unsigned(json.dumps({"sub": "alice", "more": "x" * (TOKEN_BYTES_MAX // 4 * 3 - 100)}))
    assert TOKEN_BYTES_MAX - 200 < len(made) <= TOKEN_BYTES_MAX
    assert isinstance(passed_on().step(message(made)), Elsewhere), "whether it is signed, that server judges"


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    part = base64.urlsafe_b64encode(data).rstrip(b"=")
    for first in (data, b"n,,\x01auth=Bearer " + data + b"\x01\x01", b"n,,\x01auth=Bearer a." + part + b".\x01\x01"):
        found = token_user(first, "sub")
        judged = there().step(first)
        assert isinstance(found, str | Refused)
        assert isinstance(judged, Challenge | KeyMissing)


def test_no_token_is_in_a_repr() -> None:
    made = token()
    assert made not in repr(passed_on().step(message(made)))
