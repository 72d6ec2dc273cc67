"""The first frame of each side of a peer link: who am I, whom do I mean, which protocol.

The dialler speaks first; the acceptor's own record is its acceptance. `hello` is the replica's part (cluster id,
replica uuid, incarnation; decision 14) and opaque here: the replica judges it. What this module checks is only what a
link needs to exist: magic, a common protocol version, an authentication method that both know, and that the dialler
reached the broker it meant (addresses lie after a re-created pod).

`run` is a number drawn at process start. It tells a restarted peer from a second link of the same process
(`links.mesh`). It is not a secret and proves nothing: method NONE trusts the network, which is why peers bind
loopback unless the config names an address (decision 28); mTLS or HMAC takes the next method number.
"""

import struct
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId

MAGIC = 0x4D53_5452
VERSION_MIN = 1
VERSION_MAX = 1
"""Of the peer protocol (decision 16): frame layout and message codecs. A link speaks the highest that both know."""

AUTH_NONE = 0

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
    auth: int = AUTH_NONE


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
    return fixed + record.hello


def decode_handshake(body: bytes) -> Handshake:
    """Parse a handshake body; bytes behind the known part are a later version's and ignored.

    Raises `WireError` when this is no handshake, no common version exists, or the method is unknown.
    """
    if len(body) < _FIXED.size:
        raise WireError("peer handshake is cut short")
    magic, version_min, version_max, auth, run, sender, target, hello_bytes = _FIXED.unpack_from(body)
    if magic != MAGIC:
        raise WireError("not a Muster peer")
    if version_min > VERSION_MAX or version_max < VERSION_MIN:
        raise WireError(f"peer speaks protocol {version_min}-{version_max}, this one {VERSION_MIN}-{VERSION_MAX}")
    if auth != AUTH_NONE:
        raise WireError(f"peer asks for authentication method {auth}")
    hello = body[_FIXED.size : _FIXED.size + hello_bytes]
    if len(hello) != hello_bytes:
        raise WireError("peer handshake is cut short")
    return Handshake(BrokerId(sender), BrokerId(target), run, hello, version_min, version_max, auth)
