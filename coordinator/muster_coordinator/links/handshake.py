"""The first frame of each side of a peer link: sender, intended target, protocol versions, authentication method.

The dialler sends first; the acceptor accepts by sending its own record. `hello` is the replica's part (cluster id,
replica uuid, incarnation; decision 14) and opaque here: the replica checks it. `decode_handshake` checks only what a
link needs: magic, a common protocol version, a known authentication method. Sender and target are checked by
`links.mesh`, because an address may lead to another broker after a pod was re-created.

`run` is a number drawn at process start. It tells a restarted peer from a second link of the same process
(`links.mesh`). It is not a secret and proves nothing: method NONE trusts the network. With method SECRET a nonce
follows, in the acceptor's record proofs too, and the dialler's proof is a record of its own (`links.peer_auth`).
"""

import struct
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.peer_auth import NONCE_BYTES, PROOF_BYTES, SECRETS_MAX, Method

MAGIC = 0x4D53_5452
VERSION_MIN = 1
VERSION_MAX = 1
"""Version of the peer protocol (decision 16): frame layout and message codecs. A link uses the highest version that
both sides know."""

_FIXED = struct.Struct(">IHHBQiiI")


class Handshake(NamedTuple):
    """One side's record."""

    sender: BrokerId
    target: BrokerId
    run: int
    """u64, drawn at process start."""
    hello: bytes
    version_min: int = VERSION_MIN
    version_max: int = VERSION_MAX
    auth: Method = Method.NONE
    nonce: bytes = b""
    """With method SECRET: 32 bytes that were never used before."""
    proofs: bytes = b""
    """Of the acceptor, with method SECRET; what they are over is this record without them."""


def encode_handshake(record: Handshake) -> bytes:
    """Body of the handshake frame."""
    fixed = _FIXED.pack(
        MAGIC,
        record.version_min,
        record.version_max,
        record.auth,
        record.run,
        record.sender,
        record.target,
        len(record.hello),
    )
    return fixed + record.hello + record.nonce + record.proofs


def decode_handshake(body: bytes) -> Handshake:
    """Parse a handshake body; bytes after the known part belong to a later version and are ignored.

    Raises `WireError` when it is no handshake, when there is no common version, or when the method is unknown.
    """
    if len(body) < _FIXED.size:
        raise WireError("peer handshake is cut short")
    magic, version_min, version_max, auth, run, sender, target, hello_bytes = _FIXED.unpack_from(body)
    if magic != MAGIC:
        raise WireError("the other side is not a Muster peer")
    if version_min > VERSION_MAX or version_max < VERSION_MIN:
        raise WireError(
            f"the peer speaks protocol {version_min}-{version_max}, this replica {VERSION_MIN}-{VERSION_MAX}"
        )
    if auth not in (Method.NONE, Method.SECRET):
        raise WireError(f"peer asks for authentication method {auth}")
    after = _FIXED.size + hello_bytes
    hello = body[_FIXED.size : after]
    if len(hello) != hello_bytes:
        raise WireError("peer handshake is cut short")
    found = Handshake(BrokerId(sender), BrokerId(target), run, hello, version_min, version_max, Method(auth))
    if auth == Method.NONE:
        return found
    nonce = body[after : after + NONCE_BYTES]
    if len(nonce) != NONCE_BYTES:
        raise WireError("peer handshake is cut short")
    return found._replace(nonce=nonce, proofs=body[after + NONCE_BYTES :][: SECRETS_MAX * PROOF_BYTES])
