"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the client's side: a replica that logs in to another server.

Problem: the server must be shown the password without being told it, and must show that it knows it as well; and the
work that the iterations are meant to be would stop the loop for milliseconds at each connection. Mechanism: one
exchange is three messages of ours around two of the server's; what the iterations give is kept by salt and number, and
a server's salt for one user does not change. What this does not do: channel binding, drawing the nonce.
"""

import base64
import binascii
import hashlib
import hmac
import re
from functools import lru_cache

from muster_coordinator.errors import WireError
from muster_coordinator.security.limits import (
    SCRAM_ITERATIONS_MAX,
    SCRAM_ITERATIONS_MIN,
    SCRAM_MESSAGE_BYTES_MAX,
    SCRAM_SALT_BYTES_MAX,
)
from muster_coordinator.security.scram import ScramMechanism, salted_password

_HEADER = "n,,"
_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[1-9][0-9]{0,6})(,.*)?"
)
_FINAL = re.compile(r"v=(?P<verifier>[A-Za-z0-9+/=]+)(,.*)?")


class ScramClient:
    """One exchange. `first`, then `answer` to the server's first message, then `check` of its last."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}"
        self._verifier = b""

    def first(self) -> bytes:
        """The first message."""
        return (_HEADER + self._bare).encode()

    def answer(self, message: bytes) -> bytes:
        """The proof that we know the password. Raises `WireError` if the message is none, or weaker than is safe."""
        text = _text(message)
        match = _FIRST.fullmatch(text)
        if match is None or not match["nonce"].startswith(self._nonce) or len(match["nonce"]) == len(self._nonce):
            raise WireError("the server's first message of SCRAM is malformed, or has not our nonce")
        iterations, salt = int(match["iterations"]), _decoded(match["salt"])
        if not SCRAM_ITERATIONS_MIN <= iterations <= SCRAM_ITERATIONS_MAX or len(salt) > SCRAM_SALT_BYTES_MAX:
            raise WireError(f"the server wants {iterations} iterations over {len(salt)} bytes of salt")
        unproven = f"c={base64.b64encode(_HEADER.encode()).decode()},r={match['nonce']}"
        signed = f"{self._bare},{text},{unproven}".encode()
        client_key, server_key = _keys(self._mechanism, self._password, salt, iterations)
        stored_key = hashlib.new(self._mechanism.hash_name, client_key).digest()
        mask = hmac.digest(stored_key, signed, self._mechanism.hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, mask, strict=True))
        self._verifier = hmac.digest(server_key, signed, self._mechanism.hash_name)
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def check(self, message: bytes) -> None:
        """Raises `WireError` unless the server has shown that it knows the password, too."""
        match = _FINAL.fullmatch(_text(message))
        if match is None or not self._verifier or not hmac.compare_digest(_decoded(match["verifier"]), self._verifier):
            raise WireError("the server has not shown that it knows the password")


@lru_cache(maxsize=8)
def _keys(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """ClientKey and ServerKey: milliseconds of work."""
    salted = salted_password(mechanism, password, salt, iterations)
    name = mechanism.hash_name
    return hmac.digest(salted, b"Client Key", name), hmac.digest(salted, b"Server Key", name)


def _text(message: bytes) -> str:
    if len(message) > SCRAM_MESSAGE_BYTES_MAX:
        raise WireError(f"a message of SCRAM of {len(message)} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise WireError("a message of SCRAM that is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WireError("a message of SCRAM with malformed base64") from None
