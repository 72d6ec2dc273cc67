"""Limits of the links between replicas: frames, dials, what a peer has not taken."""

from muster_coordinator.limits import (
    BROKERS_MAX,
    LINK_REDIAL_GRACE_MS,
    MIB,
    OFFSETS_BATCH_BYTES_MAX,
    PEER_FRAME_BYTES_MAX,
)

LINK_PEERS_MAX = BROKERS_MAX - 1

LINK_DIAL_TIMEOUT_MS = 100

PEER_FRAME_BYTES_HARD_MAX = PEER_FRAME_BYTES_MAX + OFFSETS_BATCH_BYTES_MAX
"""One entry larger than a frame travels in a frame of its own."""
PEER_UNSENT_BYTES_MAX = 16 * MIB
LINK_CONTROL_UNSENT_BYTES_MAX = MIB
"""Votes, heartbeats and gossip that a peer has not taken: seconds of them, so the peer is stuck."""
LINK_BULK_UNSENT_BYTES_MAX = MIB
LINK_BULK_SHARE_BYTES = MIB
"""An unsent bulk frame goes after this many bytes of other channels."""
LINK_HANDSHAKE_TIMEOUT_MS = 1_000
LINK_HANDSHAKES_MAX = 64
"""Accepted peer connections that have not said who they are."""
LINK_SECOND_DIAL_MS = 40
"""The higher broker id dials this much later, so that two dials seldom cross."""
LINK_BACKOFF_MIN_MS = 20
LINK_BACKOFF_MAX_MS = 1_000
LINK_SETTLED_MS = 1_000
"""A link that breaks sooner counts like a dial that failed: what broke it may break the next one too."""
LINK_DIAL_TIMEOUT_SLOW_MS = 1_000
"""Of dials after the grace of decision 17 has passed: a slow host must still be reachable."""
LINK_CROSSING_MS = 2_000
"""A younger link of the same two processes is a dial that crossed; an older one is dead at the dialler's side."""

assert OFFSETS_BATCH_BYTES_MAX <= PEER_FRAME_BYTES_HARD_MAX <= PEER_UNSENT_BYTES_MAX
assert LINK_DIAL_TIMEOUT_MS < LINK_REDIAL_GRACE_MS
assert LINK_SECOND_DIAL_MS < LINK_REDIAL_GRACE_MS
assert LINK_DIAL_TIMEOUT_MS < LINK_DIAL_TIMEOUT_SLOW_MS < LINK_CROSSING_MS
