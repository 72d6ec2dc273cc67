"""OAUTHBEARER: tokens that somebody else has signed, and all that is no such token."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from muster_coordinator.security.limits import JWKS_BYTES_MAX, JWKS_KEYS_MAX, TOKEN_BYTES_MAX
from muster_coordinator.security.oauth import INVALID_TOKEN, OAuthServer, TokenRules, parse_jwks
from muster_coordinator.security.outcome import Accepted, Challenge, KeyMissing, Refused

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
NOW = 1_700_000_000
RULES = TokenRules(issuer="https://issuer", audiences=("muster", "other"), skew_seconds=30, subject_claim="sub")


def jwk(key: Any, kid: str = "", **more: Any) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), **({"kid": kid} if kid else {}), **more}


KEYS = parse_jwks(json.dumps({"keys": [jwk(RSA_KEY, "rsa"), jwk(EC_KEY, "ec")]}).encode())
CLAIMS = {"iss": "https://issuer", "aud": "muster", "sub": "alice", "exp": NOW + 600, "iat": NOW, "nbf": NOW}


def token(key: Any = RSA_KEY, alg: str = "RS256", kid: str | None = "rsa", **claims: Any) -> str:
    said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode(said, key, algorithm=alg, headers={} if kid is None else {"kid": kid})


def message(text: str, authzid: str = "", more: str = "") -> bytes:
    return f"n,{authzid},\x01{more}auth=Bearer {text}\x01\x01".encode()


def server() -> OAuthServer:
    return OAuthServer(lambda: KEYS, RULES, lambda: NOW * 1_000)


def refused(first: bytes) -> str:
    exchange = server()
    assert exchange.step(first) == Challenge(INVALID_TOKEN)
    outcome = exchange.step(b"\x01")
    assert isinstance(outcome, Refused)
    assert outcome.told == INVALID_TOKEN.decode()
    return outcome.why


@pytest.mark.parametrize(
    "made",
    [
        token(), token(EC_KEY, "ES256", "ec"), token(alg="PS512"), token(aud=["x", "other"]), token(iat=None, nbf=None),
        token(exp=NOW - 29), token(nbf=NOW + 30), token(iat=NOW + 30),
    ],
)  # fmt: skip
def test_a_token_of_the_issuer_says_who_one_is_and_how_long(made: str) -> None:
    outcome = server().step(message(made))
    assert isinstance(outcome, Accepted)
    assert outcome.user == "alice"
    assert outcome.expires_ms == jwt.decode(made, options={"verify_signature": False})["exp"] * 1_000
    assert server().step(message(made, "a=alice", "traceId=1\x01")) == outcome


def hs_with_public_key() -> str:
    """The public key as the secret of an HMAC: what CVE-2015-9235 was about."""
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "rsa"}).encode()).rstrip(b"=")
    body = base64.urlsafe_b64encode(json.dumps(CLAIMS).encode()).rstrip(b"=")
    mac = hmac.digest(pem, head + b"." + body, hashlib.sha256)
    return (head + b"." + body + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (token(OTHER_KEY), "signature"), (token(EC_KEY, "ES256", "rsa"), "another algorithm"),
        (token(kid="ec"), "another algorithm"), (token(iss="https://evil"), "issuer"), (token(iss=None), "issuer"),
        (token(aud="x"), "audience"), (token(aud=None), "audience"), (token(aud=[1, None]), "audience"),
        (token(exp=NOW - 30), "expired"), (token(exp=None), "expired"), (token(nbf=NOW + 31), "not valid yet"),
        (token(iat=NOW + 31), "not valid yet"), (token(sub=None), "subject"), (token(sub="a\n"), "subject"),
        (token(sub=""), "subject"), (hs_with_public_key(), "no algorithm"),
        (token(RSA_KEY).rsplit(".", 1)[0] + ".", "no bearer token"),
        ("eyJhbGciOiJub25lIn0." + token().split(".")[1] + ".AA", "no algorithm"),
        ("e30." + token().split(".")[1] + ".AA", "no algorithm"), ("A.A.A", "malformed header"),
        ("a" * TOKEN_BYTES_MAX + ".a.a", "no bearer token"), ("", "no bearer token"),
    ],
)  # fmt: skip
def test_what_is_no_token_of_the_issuer_is_refused(made: str, why: str) -> None:
    assert why in refused(message(made))


@pytest.mark.parametrize(
    "first",
    [
        b"", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", message(token()).replace(b"n,", b"y,", 1),
        message(token(), "a=bob"), message(token())[:-1], message(token()) + b"x", b"n,,\x01auth=" + b"x" * 10_000_000,
    ],
)  # fmt: skip
def test_a_message_that_is_not_of_the_rfc_is_refused(first: bytes) -> None:
    refused(first)


def test_one_flipped_character_of_a_token_is_refused() -> None:
    made = token()
    for place in range(0, len(made) - 1, 17):
        if made[place] != ".":
            other = made[:place] + ("A" if made[place] != "A" else "B") + made[place + 1 :]
            outcome = server().step(message(other))
            assert isinstance(outcome, Challenge | KeyMissing), place


def test_a_key_that_is_not_known_yet_is_asked_for_and_the_message_judged_again() -> None:
    keys: dict[str, jwt.PyJWK] = {}
    exchange = OAuthServer(lambda: keys, RULES, lambda: NOW * 1_000)
    assert exchange.step(message(token())) == KeyMissing("rsa")
    keys.update(KEYS)
    assert isinstance(exchange.step(message(token())), Accepted)


def test_a_token_without_key_id_is_of_the_only_key() -> None:
    alone = parse_jwks(json.dumps({"keys": [jwk(RSA_KEY)]}).encode())
    exchange = OAuthServer(lambda: alone, RULES, lambda: NOW * 1_000)
    assert isinstance(exchange.step(message(token(kid=None))), Accepted)
    assert server().step(message(token(kid=None))) == KeyMissing("")


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for first in (data, b"n,,\x01auth=Bearer " + data + b"\x01\x01"):
        assert isinstance(server().step(first), Challenge | KeyMissing)


def test_a_set_of_keys_is_bounded_and_only_what_can_check_signatures_is_taken() -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    secret = {"kty": "oct", "k": "AAAA", "kid": "s"}
    mixed = [
        jwk(RSA_KEY, "a"),
        jwk(weak, "b"),
        secret,
        jwk(EC_KEY, "c", use="enc"),
        {"kty": "RSA"},
        7,
        jwk(EC_KEY, "d", alg="HS256"),
    ]
    assert set(parse_jwks(json.dumps({"keys": mixed}).encode())) == {"a"}
    for bad in (
        b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', b"[" * 100_000, b" " * (JWKS_BYTES_MAX + 1),
        json.dumps({"keys": [jwk(RSA_KEY, str(n)) for n in range(JWKS_KEYS_MAX + 1)]}).encode(),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            parse_jwks(bad)
