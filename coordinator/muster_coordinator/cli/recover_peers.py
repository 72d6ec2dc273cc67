"""Asks the other replicas of a stopped one's cluster whether they are there, before a recovery gives them up.

Problem: a cluster that has a majority must never be split, and an empty folder that waits for its seat at the address
of a lost one is no reason to stop. Mechanism: each address is dialled as by a peer, which introduces itself in its
first frame: the uuid of its data folder, and its cluster. Whoever accepts a connection and does not say who it is
(frozen, or no replica at all) counts as there, since nobody knows. No answer proves nothing: a replica that is cut off
from this machine lives on, which is why the runbook has the volumes removed first. What this does not do: authenticate
anybody.
"""

import random
import socket
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import LINK_HELLO_BYTES_MAX
from muster_coordinator.links.channels import HANDSHAKE
from muster_coordinator.links.frames import FrameSplitter, frame_header
from muster_coordinator.links.handshake import Handshake, decode_handshake, encode_handshake
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Identity
from muster_coordinator.replica.multiraft.payloads import Hello, decode_hello, encode_hello

TIMEOUT_S = 2.0
"""For a connection, and for each part of the answer."""
TRIES = 3
"""A peer refuses a connection that crosses one of its own to this replica's address."""


class Presence(Enum):
    """What is known of the replica at an address."""

    SILENT = "no answer"
    ANOTHER = "an empty folder, or one of another cluster"
    THERE = "it is there"
    UNKNOWN = "something accepts connections there and does not say who it is"


class Answer(NamedTuple):
    """What one address says."""

    broker: BrokerId
    address: str
    presence: Presence
    folder: str = ""
    """uuid of the data folder that introduced itself, in hex; "": none did."""


def ask_all(identity: Identity, record: ClusterRecord, peers: Mapping[BrokerId, tuple[str, int]]) -> list[Answer]:
    """Ask each other replica of the record. Blocking, up to some seconds each."""
    own = Hello(
        identity.broker,
        identity.replica_uuid,
        identity.incarnation,
        record.cluster_id,
        record.epoch,
        record.epoch_id,
    )
    return [_ask(own, peer, address, record) for peer, address in sorted(peers.items()) if peer != identity.broker]


def _ask(own: Hello, peer: BrokerId, address: tuple[str, int], record: ClusterRecord) -> Answer:
    spelled = f"{address[0]}:{address[1]}"
    for _ in range(TRIES):
        try:
            connection = socket.create_connection(address, TIMEOUT_S)
        except OSError:
            return Answer(peer, spelled, Presence.SILENT)
        with connection:
            greeted = _greeting(connection, own, peer)
        if greeted is None:
            continue
        presence = Presence.THERE if _belongs(greeted, peer, record) else Presence.ANOTHER
        return Answer(peer, spelled, presence, greeted.replica_uuid.hex())
    return Answer(peer, spelled, Presence.UNKNOWN)


def _belongs(greeted: Hello, peer: BrokerId, record: ClusterRecord) -> bool:
    """Is it a folder of this cluster, by its own words or by our record?"""
    return greeted.cluster_id == record.cluster_id or greeted.replica_uuid == record.uuid_of(peer)


def _greeting(connection: socket.socket, own: Hello, peer: BrokerId) -> Hello | None:
    """How the other side introduces itself; None: it does not."""
    body = encode_handshake(Handshake(own.broker, peer, random.SystemRandom().getrandbits(64), encode_hello(own)))
    splitter = FrameSplitter()
    connection.settimeout(TIMEOUT_S)
    try:
        connection.sendall(frame_header(HANDSHAKE, body) + body)
        while data := connection.recv(LINK_HELLO_BYTES_MAX):
            for channel, frame in splitter.feed(data):
                if channel != HANDSHAKE:
                    return None
                handshake = decode_handshake(frame)
                return decode_hello(handshake.hello) if handshake.sender == peer else None
    except (OSError, WireError):
        return None
    return None
