"""Bodies of snapshot install: ask, offer, refusal, chunk (docs/format.md, "Snapshot install").

Names of files are base names, as the leader has them. The receiver accepts only names of checkpoints and segments, so
that a peer cannot choose which file is written.
"""

import re
import struct
from enum import IntEnum
from typing import NamedTuple

from muster_coordinator.errors import Corruption, WireError
from muster_coordinator.raft.members import decode_config, encode_config
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.payloads import HEAD_BYTES, HEADS, Kind
from muster_coordinator.storage.contract import RecoveryPoint

_ASK = struct.Struct(">QIQ")
_OFFER = struct.Struct(">QIQQB4qI")
_FILE = struct.Struct(">BHQ")
_REFUSAL = struct.Struct(">Q")
_CHUNK_ASK = struct.Struct(">QIQI")
_CHECK = struct.Struct(">QIQII")
_CHUNK = struct.Struct(">QIQI")
SEGMENT_ASKED = 1 << 63
"""Bit in the index of an ask: the other bits are the base offset of a segment."""
_CHECKS = 1
_MORE = 2
_CONFIG = 4
_CLEANED = 8
"""Bits of an offer's flags: the leader answers CHECK_ASK; another frame of the same offer follows; the configuration
follows, and ends the offer; segments were cleaned (no topic is compacted below feature level 3). A release before takes
no notice of a configuration, and would refuse the checkpoint file, which has it too; but it leads and follows no group
with a CONF entry, since none exists below feature level 3."""
_NAMES = re.compile(r"[0-9]{20}(-[0-9]{10}\.ckpt|\.log)")


class FileKind(IntEnum):
    CHECKPOINT = 0
    SEGMENT = 1


class OfferedFile(NamedTuple):
    """The first `size` bytes of a file; they never change."""

    kind: int
    name: str
    size: int


class Offer(NamedTuple):
    """A checkpoint and the segments up to it."""

    install: int
    group: int
    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls
    term: int
    recovery_point: RecoveryPoint | None
    """End of the segments at `index`; None for a group without segments."""
    files: tuple[OfferedFile, ...]
    checks: bool = False
    """Does the leader answer CHECK_ASK? Offers of releases that do not, end after the files."""
    more: bool = False
    """Does another frame of this offer follow? (`parts`)"""
    config: Config | None = None
    """As `CheckpointMeta.config`."""
    cleaned: bool = False
    """Were segments cleaned? Then these are not those of any other replica, and none of that may be mixed with them but
    what is equal byte by byte."""


class Check(NamedTuple):
    """Checksum of a range of one file of an offer."""

    install: int
    file: int
    offset: int
    length: int
    checksum: int
    """CRC32C of the range."""


class Chunk(NamedTuple):
    """Bytes of one file of an offer."""

    install: int
    file: int
    offset: int
    checksum: int
    """CRC32C of `data` as the sender has read it from its disk."""
    data: bytes


def encode_ask(install: int, group: int, index: int) -> bytes:
    """Ask for a checkpoint of at least `index`."""
    return HEADS[Kind.INSTALL_ASK] + _ASK.pack(install, group, index)


def decode_ask(payload: bytes) -> tuple[int, int, int]:
    if len(payload) != HEAD_BYTES + _ASK.size:
        raise WireError("malformed install ask")
    install, group, index = _ASK.unpack_from(payload, HEAD_BYTES)
    return install, group, index


def encode_segment_ask(install: int, group: int, base: int) -> bytes:
    """Ask any voter for one sealed segment. The answer is a CHECK of the whole file, as file 0, after which its chunks
    may be asked for; or a refusal. An older release takes the ask for one of an index that it has not applied, and
    refuses it."""
    return encode_ask(install, group, base | SEGMENT_ASKED)


def encode_offer(offer: Offer) -> bytes:
    recovery_point = offer.recovery_point if offer.recovery_point is not None else RecoveryPoint(0, 0, 0, 0)
    fixed = _OFFER.pack(
        offer.install,
        offer.group,
        offer.index,
        offer.term,
        offer.recovery_point is not None,
        *recovery_point,
        len(offer.files),
    )
    parts = [HEADS[Kind.INSTALL_OFFER], fixed]
    for file in offer.files:
        name = file.name.encode()
        parts += (_FILE.pack(file.kind, len(name), file.size), name)
    config = b"" if offer.config is None else encode_config(offer.config)
    flags = _CHECKS * offer.checks | _MORE * offer.more | _CONFIG * bool(config) | _CLEANED * offer.cleaned
    parts += (bytes([flags]), config)
    return b"".join(parts)


def parts(offer: Offer) -> list[Offer]:
    """Split an offer into parts that fit a frame each. All parts name the checkpoint, and only the last has a recovery
    point: an older release, which does not know parts, takes the others for offers of a group without segments, and
    drops them."""
    checkpoint = tuple(file for file in offer.files if file.kind == FileKind.CHECKPOINT)
    segments = [file for file in offer.files if file.kind == FileKind.SEGMENT]
    room = limits.INSTALL_OFFER_FILES_MAX - len(checkpoint)
    cut = [(*checkpoint, *segments[at : at + room]) for at in range(0, max(1, len(segments)), room)]
    return [
        *(offer._replace(recovery_point=None, files=files, more=True) for files in cut[:-1]),
        offer._replace(files=cut[-1]),
    ]


def joined(first: Offer, then: Offer) -> Offer:
    """Two parts of an offer as one. Raises `WireError` if they belong to different offers, or name too many files."""
    same = first._replace(recovery_point=None, files=(), more=False) == then._replace(
        recovery_point=None, files=(), more=False
    )
    checkpoint = [file for file in first.files if file.kind == FileKind.CHECKPOINT]
    if not same or checkpoint != [file for file in then.files if file.kind == FileKind.CHECKPOINT]:
        raise WireError("parts of different install offers")
    files = first.files + tuple(file for file in then.files if file.kind == FileKind.SEGMENT)
    if len(files) > limits.INSTALL_FILES_MAX:
        raise WireError(f"an install of {len(files)} files")
    return then._replace(files=files)


def decode_offer(payload: bytes, position: int = HEAD_BYTES, files_max: int = limits.INSTALL_OFFER_FILES_MAX) -> Offer:
    """Decode a frame, or a stored offer. Raises `WireError`, also if it names more than `files_max` files."""
    try:
        install, group, index, term, has_recovery_point, *recovery_point, count = _OFFER.unpack_from(payload, position)
        position += _OFFER.size
        if count > files_max:
            raise WireError(f"an install of {count} files")
        files = []
        for _ in range(count):
            kind, name_bytes, size = _FILE.unpack_from(payload, position)
            position += _FILE.size
            name = payload[position : position + name_bytes].decode("ascii")
            position += name_bytes
            if not _NAMES.fullmatch(name) or kind != (
                FileKind.CHECKPOINT if name.endswith(".ckpt") else FileKind.SEGMENT
            ):
                raise WireError(f"an install of a file named {name!r}")
            files.append(OfferedFile(kind, name, size))
        flags = payload[position] if position < len(payload) else 0
        config = decode_config(payload[position + 1 :]) if flags & _CONFIG else None
    except (struct.error, UnicodeDecodeError, Corruption) as error:
        raise WireError("malformed install offer") from error
    if sum(file.kind == FileKind.CHECKPOINT for file in files) != 1:
        raise WireError("an install has one checkpoint")
    where = RecoveryPoint(*recovery_point) if has_recovery_point else None
    return Offer(
        install,
        group,
        index,
        term,
        where,
        tuple(files),
        bool(flags & _CHECKS),
        bool(flags & _MORE),
        config,
        bool(flags & _CLEANED),
    )


def encode_refusal(install: int, why: str) -> bytes:
    return HEADS[Kind.INSTALL_REFUSAL] + _REFUSAL.pack(install) + why.encode()[:200]


def decode_refusal(payload: bytes) -> tuple[int, str]:
    if len(payload) < HEAD_BYTES + _REFUSAL.size:
        raise WireError("malformed install refusal")
    (install,) = _REFUSAL.unpack_from(payload, HEAD_BYTES)
    return install, payload[HEAD_BYTES + _REFUSAL.size :].decode(errors="replace")


def encode_chunk_ask(install: int, file: int, offset: int, length: int) -> bytes:
    return HEADS[Kind.CHUNK_ASK] + _CHUNK_ASK.pack(install, file, offset, length)


def decode_chunk_ask(payload: bytes) -> tuple[int, int, int, int]:
    if len(payload) != HEAD_BYTES + _CHUNK_ASK.size:
        raise WireError("malformed chunk ask")
    install, file, offset, length = _CHUNK_ASK.unpack_from(payload, HEAD_BYTES)
    if not 0 < length <= limits.INSTALL_CHUNK_BYTES:
        raise WireError(f"a chunk of {length} bytes is asked for")
    return install, file, offset, length


def encode_check_ask(install: int, file: int, offset: int, length: int) -> bytes:
    return HEADS[Kind.CHECK_ASK] + _CHUNK_ASK.pack(install, file, offset, length)


def decode_check_ask(payload: bytes) -> tuple[int, int, int, int]:
    if len(payload) != HEAD_BYTES + _CHUNK_ASK.size:
        raise WireError("malformed check ask")
    install, file, offset, length = _CHUNK_ASK.unpack_from(payload, HEAD_BYTES)
    if not 0 < length <= limits.INSTALL_CHECK_BYTES:
        raise WireError(f"a check of {length} bytes is asked for")
    return install, file, offset, length


def encode_check(check: Check) -> bytes:
    return HEADS[Kind.CHECK] + _CHECK.pack(*check)


def decode_check(payload: bytes) -> Check:
    if len(payload) != HEAD_BYTES + _CHECK.size:
        raise WireError("malformed check")
    return Check(*_CHECK.unpack_from(payload, HEAD_BYTES))


def encode_chunk(chunk: Chunk) -> bytes:
    return b"".join(
        [
            HEADS[Kind.CHUNK],
            _CHUNK.pack(chunk.install, chunk.file, chunk.offset, chunk.checksum),
            chunk.data,
        ]
    )


def decode_chunk(payload: bytes) -> Chunk:
    if len(payload) < HEAD_BYTES + _CHUNK.size:
        raise WireError("malformed chunk")
    install, file, offset, checksum = _CHUNK.unpack_from(payload, HEAD_BYTES)
    return Chunk(install, file, offset, checksum, payload[HEAD_BYTES + _CHUNK.size :])
