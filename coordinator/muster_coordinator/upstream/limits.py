"""Limits of what goes through to an upstream Kafka."""

from muster_coordinator.limits import KIB, MIB

NODES_MAX = 200
"""Broker ids that can be given a port; each is a socket that listens, for each listener."""
BOOTSTRAP_MAX = 20
"""Addresses in `upstream.bootstrap.servers`."""
UPSTREAM_BROKERS_MAX = 10_000
"""Brokers of one answer. Kafka's largest clusters have some hundreds."""
ANSWER_BYTES_MAX = 128 * MIB
"""One answer of the upstream. Kafka's clients ask for 50 MiB in a Fetch (`fetch.max.bytes`)."""
ANSWERS_BYTES_MAX = 512 * MIB
"""All answers that are being received, of all connections. Who needs more is closed, and asks again."""
UNSENT_BYTES_MAX = 4 * MIB
"""Requests of one connection that the upstream has not taken; then its client is not read."""
CONNECT_MS_MAX = 10_000
"""For a connection to a broker of the upstream."""
CONNECT_ANY_MS_MAX = 2_000
"""For a connection to any of them, tried one after the other."""
ANSWER_ANY_MS_MAX = 5_000
"""An answer of any of them; then what was asked is told by what they said last (`upstream.remembered`)."""
LOOK_MS = 5_000
"""Between two looks at the upstream's brokers."""
TOPICS_LOOK_MS = 30_000
"""Between two looks at its topics, if they are many; else each look asks for them."""
FEW_TOPICS_BYTES_MAX = 256 * KIB
"""A list of topics that are not many: some 5,000 partitions."""
TOPICS_BYTES_MAX = 2 * MIB
"""A list of all topics that is kept: some 55,000 partitions. Reading it when it is needed holds the loop for 0.3 s."""
TOLD_BYTES_MAX = MIB
"""Answers about topics that clients got since."""
TOPICS_ASKED_MAX = 1_000
"""Topics of one commit that are asked for because they are in no list."""
TOPIC_QUESTIONS_MAX = 50
"""Commits whose topics are being asked for; those of another one are not known."""
TOPICS_ASKED_MS_MAX = 2_000
"""For all of that: the answers to a client's heartbeats wait behind its commit."""
TOPICS_ASKED_AGAIN_MS = 500
"""Before another broker is asked for a topic that one does not know: it may have been made just now."""
ACLS_CORRELATION = 4
"""Of the request for ACLs, on the connection of a look."""
LOOK_AGAIN_MS = 500
"""After a look that found nobody."""
LOOK_TIMEOUT_MS = 5_000
"""One broker's answers to a look; then the next one is asked."""
LOGIN_TOLD_CHARS_MAX = 200
"""Of what a broker says when it refuses a login."""
LOGIN_ANSWER_BYTES_MAX = 64 * KIB
"""One of its answers until then."""
TOPICS_TOLD_MAX = 20
"""Names of deleted topics in one line of the log."""
SUSPECTS_ASKED_MAX = 100
"""Topics that are asked for by id in one look, because the list of all does not have them any more."""
UNSEEN_LOOKS_MAX = 10
"""Brokers that a look asks for the first time, besides the one that it asks."""
LOOK_ANSWER_BYTES_MAX = 16 * MIB
"""An answer to a look. Topics that need more are not kept."""
