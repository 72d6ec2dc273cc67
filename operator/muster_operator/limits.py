"""Every bound of the operator, named, with its reason. Times in milliseconds unless the name says otherwise."""

from typing import Final

# Leader election: client-go's and controller-runtime's defaults.
LEASE_DURATION_MS: Final = 15_000
LEASE_RENEW_DEADLINE_MS: Final = 10_000
LEASE_RETRY_MS: Final = 2_000
LEASE_CALL_TIMEOUT_MS: Final = 4_000
"""Time-out of one call of leader election: two calls fit between the renew deadline and the end of the Lease."""

# Claims on namespaces. Each namespace with objects of our kinds costs one read and one write per renewal.
CLAIM_DURATION_MS: Final = 180_000
CLAIM_TRUSTED_MS: Final = 150_000
"""A claim whose last renewal is older is renewed before the next write in its namespace."""
CLAIM_RENEW_MS: Final = 60_000
CLAIM_LOOK_MS: Final = 15_000
"""Interval at which another operator's claim is read, however many objects are in its namespace."""
CLAIM_RETRY_MS: Final = 30_000
"""An object in a namespace that another operator serves is queued again after this time."""

# Queue.
WORKERS_DEFAULT: Final = 64
"""Concurrent passes. They mostly wait, and what they wait for has its own bounds (threads, connections)."""
BACKOFF_FIRST_MS: Final = 1_000
BACKOFF_MAX_MS: Final = 300_000
REFUSED_REPLACEMENTS_MAX: Final = 1_000
"""Lost replicas whose refused replacement is remembered for its back-off; beyond it the oldest is asked for again."""
NOT_GROWN_MAX: Final = 1_000
"""Volume claims whose refused growth is remembered for BACKOFF_MAX_MS; beyond it the oldest is requested again."""
KEYS_MAX: Final = 20_000
"""Distinct keys in the queue: one per object of our kinds. A key that finds no room comes back with a
resync."""

# Resync, lists and watches.
RESYNC_MS: Final = 600_000
RELIST_MS: Final = 300_000
"""Interval of our own list of every watched kind: it removes objects whose deletion a broken watch did not report."""
RELIST_MIN_MS: Final = 5_000
RELIST_RETRY_MAX_MS: Final = 30_000
"""A list that fails, or lacks a kind that is not defined yet, is repeated after 5 s, doubling up to this."""
FIRST_LIST_MAX_MS: Final = 60_000
"""The start waits no longer for a namespace that is neither listed nor refused, once another one is listed."""
NOTICE_MS: Final = 30_000
"""Interval at which the leader checks for namespaces that are not served, to record an Event about each."""
WATCH_START_MAX_MS: Final = 30_000
"""A watch that does not cover all its kinds after this time is restarted."""
WATCH_STEADY_MS: Final = 60_000
"""A watch that ran longer is not counted as a failure: the next one is started without back-off."""
WATCH_STOP_MAX_S: Final = 10.0
"""Longest wait for a watch to end."""
JITTER: Final = 0.2
"""Periods vary by this fraction in both directions."""
POLL_UNSETTLED_MS: Final = 5_000
POLL_STABLE_MS: Final = 10_000
REQUEUE_MIN_MS: Final = 200
NAME_TAKEN_RETRY_MS: Final = 30_000
"""An object that needs a name or a node port of another owner's object is retried after this time: no event reports
that it is free."""
FORBIDDEN_QUIET_MS: Final = 10_000
"""A 403 is a Warning event only when the object has been refused for so long: an API server sees a new role within
seconds, and a `helm install` creates role and operator at once."""
FAREWELL_LOOK_MS: Final = 1_000
"""Interval at which the pods of a deleted ConsumerGroup are checked, to remove their members when they are gone."""
FAREWELLS_MAX: Final = 10_000
"""Deleted ConsumerGroups whose pods are waited for; beyond it the oldest one's members are left to their session
timeout."""
BLOCKED_RETRY_MS: Final = 5_000
"""Wait after an eviction that a disruption budget forbade."""

# Kubernetes API.
KUBE_CONNECTIONS_MAX: Final = 16
"""Concurrent requests to the API server."""
KUBE_LOGIN_AGE_MAX_MS: Final = 60_000
"""Credentials are read again after this time, as in client-go: a projected token is rotated minutes before it expires.
"""
KUBE_CONNECT_TIMEOUT_S: Final = 5.0
KUBE_READ_TIMEOUT_S: Final = 20.0
KUBE_LIST_PAGE: Final = 500
KUBE_LIST_OBJECTS_MAX: Final = 100_000
RETRY_AFTER_MAX_MS: Final = 60_000
MESSAGE_CHARS_MAX: Final = 1_024
"""Longest part of another program's message in conditions and Events (events.k8s.io allows 1,024 characters in `note`).
"""

REFERENCED_PODS_AGE_MAX_MS: Final = 60_000
"""Pods of a workload in `workloadRef` are listed at least this often, even if nothing indicates a change."""

# Kafka.
KAFKA_CALLS_MAX: Final = 64
"""Concurrent calls to clusters, one thread each; further clusters wait for their turn."""
KAFKA_UNPROVEN_CALLS_MAX: Final = 48
"""How many of these may go to clusters that are new or did not answer the last time: the rest is for clusters that
answer."""
KAFKA_CONNECTIONS_MAX: Final = 1_024
"""Open connections, counted as one per known broker and one for the bootstrap. A new client beyond it closes the least
recently used ones; only calls in progress may exceed it."""
KAFKA_WAITING_MAX: Final = 2_000
"""Passes that wait for a cluster and do not count as workers."""
KAFKA_BOOTSTRAP_TIMEOUT_MS: Final = 4_000
KAFKA_REQUEST_TIMEOUT_MS: Final = 5_000
KAFKA_UNREACHABLE_FOR_MS: Final = 3_000
"""A cluster that did not answer is not contacted for this time: requests about its other groups get the same answer at
once."""
KAFKA_BATCH_MAX: Final = 200
KAFKA_CALL_TIMEOUT_S: Final = 30.0
"""Time-out of one batch with all its parts: a backstop behind the client's own time-outs."""
KAFKA_DIAGNOSIS_TIMEOUT_MS: Final = 4_000
"""Time to find out why a secured cluster lets the operator not in."""
KAFKA_SASL_MESSAGES_MAX: Final = 5
KAFKA_SASL_BYTES_MAX: Final = 64 * 1024
"""Messages of one authentication, and the longest answer to one, as far as `diagnosis` goes."""
LOGIN_AGE_MAX_MS: Final = 60_000
"""A Secret with a login is read again after this time, and at once after a cluster did not take the login."""
LOGIN_SECRETS_MAX: Final = 10_000
"""Secrets with logins whose content is remembered."""
OWN_CLUSTERS_MAX: Final = 1_000
"""CoordinatorClusters whose parsed spec is remembered for those that name them."""
KAFKA_IDLE_MS: Final = 120_000
KAFKA_PARTITIONS_MAX: Final = 20_000
"""Partitions of one group whose offsets are requested; beyond it lag is Unknown."""

# Admin API.
ADMIN_TIMEOUT_S: Final = 2.0
ADMIN_REPLACE_TIMEOUT_S: Final = 15.0
"""Longer than a coordinator waits for the outcome of the proposal behind `replace`."""
ADMIN_BODY_BYTES_MAX: Final = 8 * 1024 * 1024
ADMIN_REDIRECTS_MAX: Final = 3
ADMIN_CONNECTIONS_MAX: Final = 100
ADMIN_TRUSTS_MAX: Final = 1_000
"""Sets of authorities of admin APIs that are kept ready for use: one a cluster, two while its CA changes."""

# Certificates.
CERTIFICATE_BACKDATE_MS: Final = 300_000
"""A certificate of ours is valid from this time before it was made: clocks differ."""
CERTIFICATE_BYTES_MAX: Final = 256 * 1024
"""Longest value of a Secret that is read as certificates or a key."""
CERTIFICATES_MAX: Final = 100
"""Certificates of one PEM text that are read."""
CERTIFICATE_EXPIRES_DAYS: Final = 14
"""A certificate that others have to renew is warned about from this many days on."""
CERTIFICATE_ISSUED_MS: Final = 60_000
"""How long cert-manager may take for a certificate before the condition says that somebody has to look. By a CA that it
has at hand it takes about a second; who asks an authority outside is told meanwhile what is going on."""

# Status and Events.
LAG_BAND_HELD_MS: Final = 60_000
"""A change of lag alone is written once lag has been in another band (0, then powers of four) for this time."""
LAG_WRITE_INTERVAL_MS: Final = 250
"""Interval between lag-only status writes, over all groups: four per second."""
LAG_WRITES_BURST: Final = 8
"""Lag-only writes allowed at once, when passes come later than scheduled."""
LAG_SERIES_MAX: Final = 5_000
"""ConsumerGroups with lag as a metric; further ones have it in their status only."""
LAG_PARTITIONS_MAX: Final = 20_000
"""Partitions, over all groups, whose log end offsets are remembered for lag in seconds; further groups have none."""
LAG_ENDS_MAX: Final = 8
"""Log end offsets remembered per partition. Even, so that dropping every second one keeps the first and the newest."""
EVENT_SERIES_MS: Final = 360_000
"""An Event series ends when its reason did not occur for this time (six minutes, as in the API)."""
EVENT_REPEAT_MS: Final = 60_000
"""Shortest interval between two patches of a series."""
EVENTS_BURST: Final = 25
EVENTS_REFILL_MS: Final = 12_000
"""Token bucket per object: 25 Events at once, then one every 12 s."""
EVENT_SERIES_MAX: Final = 4_096

# Probes.
QUEUE_OLDEST_MAX_MS: Final = 120_000
"""/livez fails when a due key has waited for a worker this long."""
PASS_MAX_MS: Final = 600_000
"""/livez fails when one pass has run this long: every call in it has a time-out, so something else hangs."""
TOKEN_AGE_MAX_MS: Final = 30_000
"""An admin token is read again after this time."""
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
