"""OAUTHBEARER (RFC 7628, KIP-255, KIP-768), the server's side: a token that somebody else has signed says who a client
is.

Problem: a token is text of the client's until its signature fits, and a library that takes any algorithm takes "none",
or an HMAC made with the public key. Mechanism: the algorithm must be one of a fixed list of asymmetric ones, and of the
kind of the key; the signature is checked by PyJWT's `PyJWS` alone, and each claim here, by a clock that is handed in:
issuer, audience, expiry, not before, issued at. A refusal is told in two steps, as the RFC has it. A token whose key is
not known yet is `KeyMissing`: its message is given again once the keys were fetched anew. What this does not do: fetch
keys (`runtime.jwks`).

PyJWT is imported by the first set of keys: with what it imports it is a tenth of a replica's start, and most clusters
take no tokens.
"""

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

from muster_coordinator.security.limits import (
    CLOCK_SKEW_SECONDS_MAX,
    JWKS_BYTES_MAX,
    JWKS_KEYS_MAX,
    TOKEN_BYTES_MAX,
    TOKEN_MESSAGE_BYTES_MAX,
)
from muster_coordinator.security.outcome import Accepted, Challenge, KeyMissing, Outcome, Refused
from muster_coordinator.security.scram import user_name_error

if TYPE_CHECKING:
    import jwt
    from jwt.api_jws import PyJWS

ALGORITHMS = MappingProxyType(
    {
        "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
        "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
    }
)  # fmt: skip
"""What a token may be signed by -> the kind of key. Never `none`, never an HMAC."""
RSA_BITS_MIN = 2_048
INVALID_TOKEN = b'{"status":"invalid_token"}'
_FIRST = re.compile(
    rb"n,(?:a=(?P<authzid>(?:[^,=\x00-\x1f]|=2C|=3D)*))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)+)\x01"
)
_BEARER = re.compile(rb"Bearer +(?P<token>[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*) *", re.IGNORECASE)

_NO_TOKEN = Refused("no bearer token, or one that is too long")


class Bearer(NamedTuple):
    """A client's first message. Nothing of it has been verified."""

    token: str
    """Three parts of base64url; the last, the signature, may be empty."""
    authorization_id: str
    """"": it names none."""


def read_bearer(message: bytes) -> Bearer | Refused:
    """Of the client's first message. Its extensions (KIP-342) are read over."""
    match = _FIRST.fullmatch(message) if len(message) <= TOKEN_MESSAGE_BYTES_MAX else None
    if match is None:
        return Refused("a malformed first message")
    pairs = [pair.split(b"=", 1) for pair in match["pairs"].split(b"\x01") if pair]
    shown = [value for key, value in pairs if key == b"auth"]
    bearer = _BEARER.fullmatch(shown[0]) if len(shown) == 1 else None
    if bearer is None or len(bearer["token"]) > TOKEN_BYTES_MAX:
        return _NO_TOKEN
    named = (match["authzid"] or b"").decode("utf-8", "replace").replace("=2C", ",").replace("=3D", "=")
    return Bearer(bearer["token"].decode(), named)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token must say."""

    issuer: str
    audiences: tuple[str, ...]
    """It must name one of them."""
    skew_seconds: int
    subject_claim: str

    def __post_init__(self) -> None:
        assert 0 <= self.skew_seconds <= CLOCK_SKEW_SECONDS_MAX


Keys = Mapping[str, "jwt.PyJWK"]
"""By key id. A key without one has the id ""."""


def parse_jwks(text: bytes) -> Keys:
    """The keys of a JWK set that can check signatures; others are left out. Raises ValueError."""
    if len(text) > JWKS_BYTES_MAX:
        raise ValueError(f"a JWK set of more than {JWKS_BYTES_MAX} bytes")
    try:
        document = json.loads(text)
        listed = document["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("not a JWK set") from error
    if not isinstance(listed, list) or len(listed) > JWKS_KEYS_MAX:
        raise ValueError(f"a JWK set has a list of at most {JWKS_KEYS_MAX} keys")
    found: dict[str, jwt.PyJWK] = {}
    for item in listed:
        key = _key(item)
        if key is not None:
            found[key.key_id or ""] = key
    if not found:
        raise ValueError("a JWK set without a key that can check signatures")
    return MappingProxyType(found)


@functools.cache
def _jws() -> "PyJWS":
    from jwt.api_jws import PyJWS

    return PyJWS(algorithms=list(ALGORITHMS))


def _key(item: object) -> "jwt.PyJWK | None":
    import jwt

    if not isinstance(item, dict) or item.get("kty") not in ALGORITHMS.values() or item.get("use", "sig") != "sig":
        return None
    if item.get("alg") is not None and item["alg"] not in ALGORITHMS:
        return None
    if not isinstance(item.get("kid", ""), str):
        return None
    try:
        key = jwt.PyJWK(item)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    bits = getattr(key.key, "key_size", RSA_BITS_MIN)
    return None if item["kty"] == "RSA" and bits < RSA_BITS_MIN else key


class KeySource(Protocol):
    """Who knows the keys of the issuer."""

    def keys(self) -> Keys:
        """As last fetched; none if they never were."""
        ...

    def refresh(self, done: Callable[[bool], None]) -> None:
        """Fetch them anew, unless that was just done. False: they are not to be had now."""
        ...


@dataclass(frozen=True, slots=True)
class TokenJudge:
    """What tokens must say, and who has the keys."""

    rules: TokenRules
    source: KeySource


class OAuthServer:
    """One exchange: the client's token, and its answer to a refusal."""

    __slots__ = ("_failed", "_keys", "_rules", "_wall_ms")

    def __init__(self, keys: Callable[[], Keys], rules: TokenRules, wall_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._wall_ms = wall_ms
        self._failed: Refused | None = None

    def step(self, message: bytes) -> Outcome:
        """The server's answer to the client's next message."""
        if self._failed is not None:
            return self._failed
        outcome = self._judge(message)
        if not isinstance(outcome, Refused):
            return outcome
        self._failed = Refused(outcome.why, outcome.user, told=INVALID_TOKEN.decode())
        return Challenge(INVALID_TOKEN)

    def _judge(self, message: bytes) -> Outcome:
        read = read_bearer(message)
        if isinstance(read, Refused):
            return read
        if read.token.endswith("."):  # without a signature
            return _NO_TOKEN
        outcome = self._verified(read.token)
        if isinstance(outcome, Accepted) and read.authorization_id not in ("", outcome.user):
            return Refused("the authorization id is not the user", outcome.user)
        return outcome

    def _verified(self, token: str) -> Outcome:
        found = verified_token(token, self._keys(), self._rules, self._wall_ms())
        return Accepted(b"", found.user, expires_ms=found.expires_ms) if isinstance(found, VerifiedToken) else found


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """What the issuer has said of whoever has the token."""

    user: str
    expires_ms: int
    claims: Mapping[str, Any]


def verified_token(token: str, keys: Keys, rules: TokenRules, now_ms: int) -> VerifiedToken | KeyMissing | Refused:
    """What a token says that is signed by one of the keys and follows the rules at this wall time."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        return Refused("a token with a malformed header")
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        return Refused("a token that is signed by no algorithm of those that are taken")
    if "crit" in header or not isinstance(key_id, str):
        return Refused("a token with a header that is not understood")
    key = next(iter(keys.values())) if not key_id and len(keys) == 1 else keys.get(key_id)
    if key is None:
        return KeyMissing(key_id)
    if key.key_type != ALGORITHMS[algorithm]:
        return Refused("a token that is signed by another algorithm than its key is for")
    try:
        payload = _jws().decode(token, key=key.key, algorithms=[algorithm])
        claims = json.loads(payload)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return Refused("a token with a signature that does not fit")
    return _claimed(claims, rules, now_ms) if isinstance(claims, dict) else Refused("a token without claims")


def _claimed(claims: dict[str, Any], rules: TokenRules, now_ms: int) -> VerifiedToken | Refused:
    now, skew = now_ms / 1_000, rules.skew_seconds
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    expires, user = claims.get("exp"), claims.get(rules.subject_claim)
    if claims.get("iss") != rules.issuer:
        return Refused("a token of another issuer")
    if not any(isinstance(one, str) and one in rules.audiences for one in audiences):
        return Refused("a token for another audience")
    if not _is_time(expires) or expires <= now - skew:
        return Refused("a token that has expired, or never does")
    if any(name in claims and not (_is_time(claims[name]) and claims[name] <= now + skew) for name in ("nbf", "iat")):
        return Refused("a token that is not valid yet")
    if not isinstance(user, str) or user_name_error(user) is not None:
        return Refused("a token without a subject that can be a user")
    return VerifiedToken(user, int(expires * 1_000), claims)


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**40
