"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's side: credentials and one exchange.

Problem: a client proves that it knows a password of which the server keeps only what cannot be turned into it, or into
a client's proof. Mechanism: the server keeps salt, iterations, StoredKey and ServerKey; a proof costs it two hashes, so
nothing of this takes long on the loop, and the iterations are the client's work. A user that does not exist, or has no
credential of this mechanism, is sent a salt like any other's, as long as one and with as many iterations: made of a
secret that all replicas share, so that it is the same at every attempt and at every replica, and nobody learns who
exists. The message that the proof signs is built of what the server itself has sent and received: a nonce or a channel
binding that differs fails.

What this does not do: channel binding (no `-PLUS` mechanism is offered, so a client that says that it could bind, but
believes that the server cannot, goes on), acting for another user (the authorisation id must be the user), Kafka's
delegation tokens, drawing random numbers, or knowing whether this replica is behind: a refusal that a newer credential
might turn is `Refused.doubtful`.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from muster_coordinator.security.limits import (
    SCRAM_ITERATIONS_MAX,
    SCRAM_ITERATIONS_MIN,
    SCRAM_MESSAGE_BYTES_MAX,
    SCRAM_SALT_BYTES_MAX,
    SCRAM_SALTED_PASSWORD_BYTES_MAX,
    USER_NAME_BYTES_MAX,
)
from muster_coordinator.security.outcome import Accepted, Challenge, Outcome, Refused


class Shape(NamedTuple):
    """What a challenge shows of a credential, beside bytes that look random."""

    iterations: int
    salt_bytes: int


SHAPE_WITHOUT_USERS = Shape(SCRAM_ITERATIONS_MIN, 24)


class ScramMechanism(Enum):
    """Numbers of org.apache.kafka.clients.admin.ScramMechanism."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return f"SCRAM-SHA-{256 if self is ScramMechanism.SHA_256 else 512}"

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """What is kept of a user's password for one mechanism. Its text never shows the keys."""

    mechanism: ScramMechanism
    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    since: int = 0
    """Applied index of the controller's log before the entry that made it; a new password does not change it. Tells one
    that was deleted and made again from the one before."""


def credential_error(credential: ScramCredential) -> str | None:
    """Why this cannot be a credential, or None."""
    size = credential.mechanism.key_bytes
    if credential.iterations < SCRAM_ITERATIONS_MIN:
        return "Too few iterations"
    if credential.iterations > SCRAM_ITERATIONS_MAX:
        return "Too many iterations"
    if not 0 < len(credential.salt) <= SCRAM_SALT_BYTES_MAX:
        return f"A salt has 1 to {SCRAM_SALT_BYTES_MAX} bytes"
    if len(credential.stored_key) != size or len(credential.server_key) != size:
        return f"Keys of {credential.mechanism.sasl_name} have {size} bytes"
    return None


def user_name_error(name: str) -> str | None:
    """Why this cannot be the name of a user, or None."""
    if not name:
        return "Username must not be empty"
    if len(name.encode("utf-8", "replace")) > USER_NAME_BYTES_MAX:
        return f"Username is longer than {USER_NAME_BYTES_MAX} bytes"
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in name):
        return "Username has control characters"
    return None


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Takes some ms: of a client, a tool or a test, never of a replica that serves."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    return ScramCredential(
        mechanism=mechanism,
        salt=salt,
        iterations=iterations,
        stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
        server_key=_hmac(mechanism, salted, b"Server Key"),
    )


def salted_password_error(salted: bytes) -> str | None:
    """Why this cannot be a salted password, or None."""
    legal = 0 < len(salted) <= SCRAM_SALTED_PASSWORD_BYTES_MAX
    return None if legal else f"A salted password has 1 to {SCRAM_SALTED_PASSWORD_BYTES_MAX} bytes"


def dummy_credential(
    mechanism: ScramMechanism, user: str, secret: bytes, shapes: Collection[Shape] = ()
) -> ScramCredential:
    """What stands for a user that is not there, and no proof fits it. It has one of the shapes that users have; a new
    one changes as few of these as can be, as users that are there never change by themselves."""
    digest = hmac.digest(secret, f"{mechanism.sasl_name}\0{user}".encode("utf-8", "replace"), "sha512")
    shape = max(
        shapes, key=lambda one: hmac.digest(digest, b"%d %d" % one, mechanism.hash_name), default=SHAPE_WITHOUT_USERS
    )
    keys = hmac.digest(secret, b"keys" + digest, mechanism.hash_name)
    return ScramCredential(
        mechanism=mechanism,
        salt=hashlib.shake_256(digest).digest(shape.salt_bytes),
        iterations=shape.iterations,
        stored_key=keys,
        server_key=keys,
    )


Lookup = Callable[[str], ScramCredential | None]

_NAME = r"(?:[^,=\x00]|=2C|=3D)+"
_FIRST = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)"
    r"(?P<extensions>(?:,[A-Za-z]=[^,\x00]+)*))"
)
_FINAL = re.compile(
    r"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?:,[A-Za-z]=[^,\x00]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class First(NamedTuple):
    """The client's first message."""

    user: str
    gs2: str
    bare: str
    nonce: str


def read_first(message: bytes) -> First | Refused:
    """As Kafka reads it, but for delegation tokens, which are an extension."""
    text = _read(message)
    if isinstance(text, Refused):
        return text
    match = _FIRST.fullmatch(text)
    if match is None:
        return Refused("a malformed first message")
    user = _unescaped(match["user"])
    if match["authzid"] is not None and _unescaped(match["authzid"]) != user:
        return Refused("the authorization id is not the user", user)
    if match["extensions"]:
        return Refused("an extension that is not known", user)  # Kafka's delegation tokens among them
    if user_name_error(user) is not None:
        return Refused("a name that no user can have")
    return First(user, match["gs2"], match["bare"], match["nonce"])


def _read(message: bytes) -> str | Refused:
    if len(message) > SCRAM_MESSAGE_BYTES_MAX:
        return Refused(f"a message of {len(message)} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        return Refused("a message that is not UTF-8")


class _Expects(Enum):
    FIRST = "client-first-message"
    FINAL = "client-final-message"
    NOTHING = "nothing"


class ScramServer:
    """One exchange: `step` with the client's first message, then with its final one."""

    __slots__ = (
        "_bare", "_credential", "_expects", "_first", "_gs2", "_known", "_lookup", "_nonce", "_secret", "_shapes",
        "_user", "mechanism",
    )  # fmt: skip

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Lookup,
        server_nonce: str,
        secret: bytes,
        shapes: Collection[Shape] = (),
    ) -> None:
        """`shapes`: those of this mechanism's credentials."""
        self._shapes = shapes
        self.mechanism = mechanism
        self._lookup = lookup
        self._nonce = server_nonce
        self._secret = secret
        self._expects = _Expects.FIRST
        self._credential: ScramCredential | None = None
        self._known = False
        self._user = self._gs2 = self._bare = self._first = ""

    def step(self, message: bytes) -> Outcome:
        """The server's answer to the client's next message."""
        expects, self._expects = self._expects, _Expects.NOTHING
        if expects is _Expects.FIRST:
            return self._begin(message)
        if expects is _Expects.FINAL:
            text = _read(message)
            return text if isinstance(text, Refused) else self._prove(text)
        return Refused("a message after the last one")

    def _begin(self, message: bytes) -> Outcome:
        first = read_first(message)
        if isinstance(first, Refused):
            return first
        user = first.user
        found = self._lookup(user)
        self._known = found is not None
        self._credential = found or dummy_credential(self.mechanism, user, self._secret, self._shapes)
        self._user, self._gs2, self._bare = user, first.gs2, first.bare
        self._nonce = first.nonce + self._nonce
        salt = base64.b64encode(self._credential.salt).decode()
        self._first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._expects = _Expects.FINAL
        return Challenge(self._first.encode())

    def _prove(self, text: str) -> Outcome:
        credential = self._credential
        match = _FINAL.fullmatch(text)
        if match is None or credential is None:
            return Refused("a malformed final message", self._user)
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            return Refused("another nonce than was sent", self._user)
        proof, binding = _decoded(match["proof"]), _decoded(match["binding"])
        if binding != self._gs2.encode() or proof is None or len(proof) != self.mechanism.key_bytes:
            return Refused("another channel binding than was announced, or no proof", self._user)
        signed = f"{self._bare},{self._first},{match['unproven']}".encode()
        mask = _hmac(self.mechanism, credential.stored_key, signed)
        client_key = bytes(a ^ b for a, b in zip(proof, mask, strict=True))
        fits = hmac.compare_digest(hashlib.new(self.mechanism.hash_name, client_key).digest(), credential.stored_key)
        if not (fits and self._known):
            judged_by = credential if self._known else None
            # Both, always: who is not there takes as long as who gives a wrong password.
            return Refused("no such user, or a wrong password", self._user, doubtful=True, judged_by=judged_by)
        verifier = base64.b64encode(_hmac(self.mechanism, credential.server_key, signed)).decode()
        return Accepted(f"v={verifier}".encode(), self._user, since=credential.since)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)
