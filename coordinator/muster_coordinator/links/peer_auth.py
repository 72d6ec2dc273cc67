"""How two replicas know each other before their link is up: not at all, by a secret that both have, or by TLS.

By a secret: the dialler's handshake has a nonce. The acceptor's has one too, and a proof for each of its secrets; the
dialler checks them and sends its own. A proof is an HMAC-SHA-256 over who proves and over both handshakes, so over both
broker ids, both nonces and both hellos with their cluster id: it is of no use in another link, in the other direction
or in another cluster. Two secrets may hold at once, so a new one comes in with one roll-out and the old one goes with
the next. By TLS the certificates are checked below (`runtime.peers`), and only who they may speak for here.

What it does not do: encrypt what follows (by a secret, who can change bytes on the way can change them later, too), or
read the secrets' file.
"""

import hashlib
import hmac
from enum import IntEnum
from typing import NamedTuple

from muster_coordinator.errors import WireError

NONCE_BYTES = 32
PROOF_BYTES = 32
SECRETS_MAX = 2
SECRET_BYTES_MIN = 32
"""Whoever dials gets a proof, and may guess at it for as long as it likes."""
SECRET_BYTES_MAX = 1_024
_LABEL = b"muster peer link"


class Method(IntEnum):
    """Number in the handshake. A link under TLS says NONE there, since the releases that know no other do."""

    NONE = 0
    SECRET = 1
    TLS = 2


class Role(IntEnum):
    """Who proves."""

    DIALLER = 1
    ACCEPTOR = 2


class PeerAuth(NamedTuple):
    """`speaks`: how this side dials; `accepts`: what it takes from a dialler. The first secret is the newest."""

    speaks: Method = Method.NONE
    accepts: frozenset[Method] = frozenset({Method.NONE})
    secrets: tuple[bytes, ...] = ()


def proofs(secrets: tuple[bytes, ...], role: Role, dialler: bytes, acceptor: bytes) -> bytes:
    """One for each secret; `dialler` and `acceptor` are the bodies of their handshakes, nonces included."""
    said = b"".join(
        (_LABEL, bytes([role]), len(dialler).to_bytes(4, "big"), dialler, len(acceptor).to_bytes(4, "big"), acceptor)
    )
    return b"".join(hmac.digest(secret, said, hashlib.sha256) for secret in secrets)


def proves(given: bytes, secrets: tuple[bytes, ...], role: Role, dialler: bytes, acceptor: bytes) -> bool:
    """Is one of the given proofs by one of our secrets? It takes the same time whatever differs."""
    if not 0 < len(given) <= SECRETS_MAX * PROOF_BYTES or len(given) % PROOF_BYTES:
        return False
    right = proofs(secrets, role, dialler, acceptor)
    found = False
    for one in range(0, len(given), PROOF_BYTES):
        for other in range(0, len(right), PROOF_BYTES):
            found |= hmac.compare_digest(given[one : one + PROOF_BYTES], right[other : other + PROOF_BYTES])
    return found


def parse_secrets(data: bytes) -> tuple[bytes, ...]:
    """The lines of a secrets' file. Raises `WireError` that says what is wrong, without a secret."""
    found = tuple(filter(None, (line.strip() for line in data.splitlines())))
    if not 1 <= len(found) <= SECRETS_MAX:
        raise WireError(f"it has {len(found)} secrets: one a line, at most {SECRETS_MAX}, the newest first")
    if any(not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX for secret in found):
        raise WireError(f"a secret in it is not {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes long")
    return found


def parse_methods(text: str) -> tuple[Method, ...]:
    """A list of names. Raises `ValueError`."""
    names = [part.strip().upper() for part in text.split(",")]
    if not names or any(name not in Method.__members__ for name in names):
        raise ValueError("not of none, secret, tls")
    return tuple(Method[name] for name in names)
