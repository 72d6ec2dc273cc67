"""Limits of sockets, of a turn of the loop, and of the log."""

from muster_coordinator.limits import KIB, MIB
from muster_coordinator.wire.limits import CONNECTION_TURN_MS_MAX

CLIENTS_TURN_MS_MAX = 3
"""Requests of all connections in one turn, and writing their answers; a group that storms waits for later turns."""
CONNECTION_UNSENT_MS_MAX = 30_000
JWKS_MS_MAX = 5_000
"""For one fetch of the keys of tokens, all of it."""
JWKS_PAUSE_MS = 10_000
"""Between two fetches that tokens ask for."""
AUTHENTICATION_MS_MAX = 10_000
"""From the beginning of a connection until its client has shown who it is."""
REVOKED_A_TURN_MAX = 1_000
"""Connections that are looked at in one turn, after a user was deleted."""
LISTEN_BACKLOG = 512
CLIENTS_BUFFERED_BYTES_MAX = 256 * MIB
"""Unfinished frames of all connections; the one that exceeds it is closed, so that slow senders cannot add up."""
CLIENTS_UNSENT_BYTES_MAX = 512 * MIB
"""Answers not taken, over all connections; the connection that exceeds it is closed."""
CLIENTS_CLOSE_MS = 2_000
"""A stopping listener closes its connections over this time (architecture "Drain")."""
HTTP_HEAD_MS = 5_000
"""Probe and admin ports: from the first byte, or the accept, to the end of a request's head."""
HTTP_REQUEST_MS = 30_000
"""A request's body and its answer; /v1/transfer waits for some seconds, a page of metrics takes tenths of one."""
HTTP_IDLE_MS = 75_000
"""Between two requests of a connection; Prometheus asks every 15 to 60 s."""
HTTP_LINGER_MS = 1_000
"""After an answer, what is left of the request's body is read and thrown away for so long."""
HTTP_CONNECTIONS_MAX = 64
"""Of one port: kubelet, Prometheus, operator and some people; beyond it the one that has waited longest is closed."""
EVENT_WINDOW_MS = 10_000
EVENTS_PER_WINDOW_MAX = 50
RARE_EVENTS_PER_WINDOW_MAX = 100 * EVENTS_PER_WINDOW_MAX
"""Lines of one kind of event in the log, in a window; then repeats are counted in one line at its end."""
EVENT_TEXT_CHARS_MAX = 256
"""Of one field, which a client may have chosen."""
NOTICE_WINDOW_MS = 60_000
NOTICES_PER_WINDOW_MAX = 10
"""Log lines of one kind of notice in one window; the rest are counted (`runtime.notices`)."""

# Links.
LINK_UNACKNOWLEDGED_MS = 2_000
"""A connection whose bytes the peer's kernel has not taken for so long ends, and is dialled anew: TCP waits twice as
long each time before it sends again, so after a partition of seconds the link would stand for as long once more."""

# Redis.
REDIS_CALLS_MAX = 10_000
"""Under way at once, most of them for a connection of the pool."""
REDIS_JUDGE_MS = 60_000
REDIS_RETRY_MS = 1_000
"""Between two tries to judge, or to listen to, a server that is away."""
REDIS_CANCEL_AGAIN_MS = 100
"""A task that goes on after it was cancelled is cancelled again after so long."""
REDIS_BLOCK_MS = 1_000
"""Of one XREAD: so late at most is news of a stream that was added when CLIENT UNBLOCK is not allowed."""
REDIS_UNBLOCK_MS = 2
REDIS_PROOFS_SHARE = 4
"""Each proof that nobody's append brings has a connection for up to half a call's time, while replicas of Redis are
away: all of them have a quarter of the connections."""
REDIS_PRIMARY_KEPT_MS = 250
"""What Sentinels said is told so long to others who connect: many do at once when a server is gone."""
REDIS_SENTINELS_LATE_MS = 50
"""After more than half of the Sentinels have answered, from one answer to the next of the others."""
REDIS_NODES_MAX = 200
"""Primaries of a Redis Cluster that are connected to; each has a pool of `redis.connections.max`."""
REDIS_REDIRECTS_MAX = 5
"""Nodes of a Redis Cluster that one call is sent to, each by the word of the one before."""
REDIS_SLOTS_NEWS_MAX = 64
"""Slots of a Redis Cluster with a connection for news; streams of others are read every `REDIS_RETRY_MS`."""
REDIS_NEWS_IDLE_MS = 60_000
"""A slot that nobody has listened to for so long gives its connection to another one."""

# Paced jobs.
PACED_PAUSE_MS = 0.5

IO_QUEUES = (
    "wal-offsets",
    "wal-topics",
    "flush",
    "checkpoint",
    "lookup",
    "transfer",
    "transfer-source",
    "folders",
    "scrub",
    "clean",
    "tls",
)
"""One worker thread each. The WALs' two queues carry one fdatasync per turn; nothing slow may share them."""

# TLS.
TLS_QUEUE = "tls"
"""Reads files of keys and certificates, which may lie on a volume that hangs."""
TLS_LOOK_MS = 2_000
"""How often they are read: a Secret's volume follows its Secret within a minute."""
TLS_HANDSHAKE_MS = 10_000
TLS_HANDSHAKES_MAX = 1_024
"""Open at once in a process; each holds some 40 KiB. At 2,000 accepts a second an honest client has half a second."""
TLS_HANDSHAKES_TURN_MS = 2
"""Of one turn of the loop: one handshake with a key of 2,048 bits takes about one."""
TLS_RECORD_BYTES = 16 * KIB
"""Plain bytes of the largest record; OpenSSL's buffers keep the size that they once had, so they are fed this much."""
TLS_IDLE_BYTES_MAX = 64 * KIB
"""Memory of a connection that was served and rests; a test measures it."""

# Memory that is freed (`runtime.heap`).
HEAP_MAPPED_BYTES_MIN = 2 * MIB
"""A buffer from here on is a mapping of its own, gone when it is freed; what a Fetch takes of one partition is less."""
HEAP_TOP_FREE_BYTES_MAX = 4 * MIB
"""Free at the top of one heap; two of the largest buffers that are no mappings, so that these cost no system call."""
HEAPS_MAX = 2
"""One for the loop, one for threads of I/O, which allocate little, and that with the interpreter's lock."""
HEAP_GROWTH_BYTES = 8 * MIB
"""Of the resident size since the last look for free pages among those in use."""

assert HEAP_MAPPED_BYTES_MIN * 2 <= HEAP_TOP_FREE_BYTES_MAX <= HEAP_GROWTH_BYTES
assert CONNECTION_TURN_MS_MAX <= CLIENTS_TURN_MS_MAX
assert TLS_QUEUE in IO_QUEUES
