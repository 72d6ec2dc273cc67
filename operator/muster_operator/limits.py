"""Every bound of the operator, named, with its reason. Times in milliseconds unless the name says otherwise."""

from typing import Final

# Leader election: client-go's and controller-runtime's defaults.
LEASE_DURATION_MS: Final = 15_000
LEASE_RENEW_DEADLINE_MS: Final = 10_000
LEASE_RETRY_MS: Final = 2_000
LEASE_CALL_TIMEOUT_MS: Final = 4_000
"""One call of the election may take this long, so that two fit between the renew deadline and the Lease's end."""

# Claims on namespaces. Each namespace with objects of ours costs one read and one write a renewal.
CLAIM_DURATION_MS: Final = 180_000
CLAIM_TRUSTED_MS: Final = 150_000
"""A claim that was not renewed for so long is renewed before anything else is done there."""
CLAIM_RENEW_MS: Final = 60_000
CLAIM_LOOK_MS: Final = 15_000
"""Another's claim is looked at so often, however many objects are in its namespace."""
CLAIM_RETRY_MS: Final = 30_000
"""An object in a namespace that another operator serves is queued again after so long."""

# Queue.
WORKERS_DEFAULT: Final = 64
"""Passes at the same time. They mostly wait, and what they wait for has bounds of its own (threads, connections)."""
BACKOFF_FIRST_MS: Final = 1_000
BACKOFF_MAX_MS: Final = 300_000
NOT_GROWN_MAX: Final = 1_000
"""Volume claims whose refused growth is remembered for BACKOFF_MAX_MS; beyond it the oldest is asked for again."""
KEYS_MAX: Final = 20_000
"""Distinct keys in the queue: one for each CoordinatorCluster and ConsumerGroup. Beyond it a resync brings the key
back."""

# Looking again.
RESYNC_MS: Final = 600_000
RELIST_MS: Final = 300_000
"""Our own list of every watched kind: removes what a broken watch did not report as deleted."""
RELIST_MIN_MS: Final = 5_000
RELIST_RETRY_MAX_MS: Final = 30_000
"""A list that fails, or lacks a kind that is not defined yet, is made again after 5 s, doubling up to this."""
FIRST_LIST_MAX_MS: Final = 60_000
"""Nobody waits longer at the start for a namespace that neither lists nor refuses, once another was listed."""
NOTICE_MS: Final = 30_000
"""How often the leader looks for namespaces that are not served, to tell of them in an Event."""
WATCH_START_MAX_MS: Final = 30_000
"""A watch that does not have all its kinds by then is started anew."""
WATCH_STEADY_MS: Final = 60_000
"""A watch that ran so long was no failure: the next one is started without a back-off."""
WATCH_STOP_MAX_S: Final = 10.0
"""How long the end of a watch is waited for."""
JITTER: Final = 0.2
"""Share by which periods vary, up and down."""
POLL_UNSETTLED_MS: Final = 5_000
POLL_STABLE_MS: Final = 10_000
REQUEUE_MIN_MS: Final = 200
NAME_TAKEN_RETRY_MS: Final = 30_000
"""A name that somebody else has: nothing tells us when it is free, so one read asks now and then."""
FAREWELL_LOOK_MS: Final = 1_000
"""How often the pods of a deleted ConsumerGroup are looked for, to remove their members when they are gone."""
FAREWELLS_MAX: Final = 10_000
"""Deleted ConsumerGroups whose pods are waited for; of one too many the oldest is left to the session timeout."""
BLOCKED_RETRY_MS: Final = 5_000
"""After an eviction that a disruption budget forbade."""

# Kubernetes API.
KUBE_CONNECTIONS_MAX: Final = 16
"""Requests to the API server at the same time."""
KUBE_LOGIN_AGE_MAX_MS: Final = 60_000
"""Credentials are looked at again so often, as client-go does: a projected token is rotated with minutes to spare."""
KUBE_CONNECT_TIMEOUT_S: Final = 5.0
KUBE_READ_TIMEOUT_S: Final = 20.0
KUBE_LIST_PAGE: Final = 500
KUBE_LIST_OBJECTS_MAX: Final = 100_000
RETRY_AFTER_MAX_MS: Final = 60_000
MESSAGE_CHARS_MAX: Final = 1_024
"""What of another program's text goes into conditions and Events (events.k8s.io allows 1,024 for `note`)."""

REFERENCED_PODS_AGE_MAX_MS: Final = 60_000
"""Pods of a workload that somebody else made are listed at least so often, though nothing says that they changed."""

# Kafka.
KAFKA_CALLS_MAX: Final = 64
"""Calls to clusters at the same time, a thread each; any number of clusters waits for its turn."""
KAFKA_UNPROVEN_CALLS_MAX: Final = 48
"""Of them to clusters that are new or did not answer last time: the others are kept for those that do answer."""
KAFKA_CONNECTIONS_MAX: Final = 1_024
"""Open connections, counted as one for each known broker and one to begin with. A new client that would pass it closes
the clients that were unused longest; only calls under way may hold more."""
KAFKA_WAITING_MAX: Final = 2_000
"""Passes that wait for a cluster without counting as one of the workers."""
KAFKA_BOOTSTRAP_TIMEOUT_MS: Final = 4_000
KAFKA_REQUEST_TIMEOUT_MS: Final = 5_000
KAFKA_UNREACHABLE_FOR_MS: Final = 3_000
"""A cluster that did not answer is not asked again so long: its other groups get the same answer at once."""
KAFKA_BATCH_MAX: Final = 200
KAFKA_CALL_TIMEOUT_S: Final = 30.0
"""One batch with all its parts: a backstop behind the client's own time-outs."""
KAFKA_IDLE_MS: Final = 120_000
KAFKA_PARTITIONS_MAX: Final = 20_000
"""Partitions of one group whose offsets are asked for; beyond it lag is Unknown."""

# Admin API.
ADMIN_TIMEOUT_S: Final = 2.0
ADMIN_BODY_BYTES_MAX: Final = 8 * 1024 * 1024
ADMIN_REDIRECTS_MAX: Final = 3
ADMIN_CONNECTIONS_MAX: Final = 100

# Status and Events.
LAG_BAND_HELD_MS: Final = 60_000
"""Lag alone is written when it has been in another band (0, then powers of four) for so long."""
LAG_WRITE_INTERVAL_MS: Final = 250
"""All lag writes of an operator share one line: four a second."""
LAG_WRITES_BURST: Final = 8
"""Of them at once, when passes come later than they were told to."""
LAG_SERIES_MAX: Final = 5_000
"""ConsumerGroups whose lag is a metric; more have it in their status only."""
LAG_PARTITIONS_MAX: Final = 20_000
"""Partitions of all groups whose ends are remembered, for lag in seconds; groups beyond it have none."""
LAG_ENDS_MAX: Final = 8
"""Ends remembered for a partition. Even: of one too many the first and the newest stay when every second goes."""
EVENT_SERIES_MS: Final = 360_000
"""An Event series ends when its reason was not seen for so long (the API's own six minutes)."""
EVENT_REPEAT_MS: Final = 60_000
"""A series is patched at most this often."""
EVENTS_BURST: Final = 25
EVENTS_REFILL_MS: Final = 12_000
"""Bucket for one object: 25 Events at once, then one each 12 s."""
EVENT_SERIES_MAX: Final = 4_096

# Probes.
QUEUE_OLDEST_MAX_MS: Final = 120_000
"""/livez fails when a key that was due has waited so long for a worker."""
PASS_MAX_MS: Final = 600_000
"""/livez fails when one pass has run so long: every call in it has a time-out, so it hangs for another reason."""
TOKEN_AGE_MAX_MS: Final = 30_000
"""An admin token is read again after so long."""
LIST_AGE_MAX_MS: Final = 3 * RELIST_MS
START_GRACE_MS: Final = 120_000

assert LEASE_RETRY_MS * 2 < LEASE_RENEW_DEADLINE_MS < LEASE_DURATION_MS
assert LEASE_RENEW_DEADLINE_MS + LEASE_CALL_TIMEOUT_MS < LEASE_DURATION_MS
assert CLAIM_RENEW_MS * 2 < CLAIM_TRUSTED_MS < CLAIM_DURATION_MS
assert CLAIM_LOOK_MS < CLAIM_RETRY_MS < CLAIM_DURATION_MS
assert POLL_UNSETTLED_MS < POLL_STABLE_MS < LAG_BAND_HELD_MS < RESYNC_MS
assert POLL_STABLE_MS < REFERENCED_PODS_AGE_MAX_MS < RESYNC_MS
assert LAG_ENDS_MAX % 2 == 0
assert RELIST_MIN_MS < RELIST_RETRY_MAX_MS < RELIST_MS
assert BACKOFF_FIRST_MS < BACKOFF_MAX_MS < RESYNC_MS
assert KAFKA_UNPROVEN_CALLS_MAX < KAFKA_CALLS_MAX < KAFKA_CONNECTIONS_MAX
assert EVENT_REPEAT_MS < EVENT_SERIES_MS
