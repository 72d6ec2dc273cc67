"""`spec.config` of a CoordinatorCluster: Kafka's setting names, except those that the operator itself writes.

Only the operator knows addresses, ids and folders, and a user's value for one of them could only break the cluster, so
CEL refuses these by name. Names that the coordinator does not know are *not* refused here, because its version may be
newer than this CRD: the coordinator exits with code 78 and names the key, and the roll-out halts at the first pod.
"""

from collections.abc import Mapping
from typing import Final

from muster_operator.api.schema import IntOrText, MapOf, Rule

Config = Mapping[str, int | str]

OPERATOR_KEYS: Final = (
    "node.id",
    "log.dirs",
    "broker.rack",
    "controller.quorum.voters",
    "muster.cluster.id",
    "muster.cluster.formed",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "muster.peer.listener",
    "muster.peer.advertised",
    "muster.peer.security",
    "muster.peer.security.accept",
    "muster.peer.secret.file",
    "authorizer.class.name",
    "super.users",
    "allow.everyone.if.no.acl.found",
    "muster.authorizer.report.only",
    "muster.probe.listener",
    "muster.admin.listener",
    "muster.admin.advertised",
    "muster.admin.token.file",
    "muster.admin.tls",
    "muster.probe.tls",
    "muster.pid.file",
    "shutdown.grace.ms",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
)
_LISTED: Final = ", ".join(f"'{key}'" for key in OPERATOR_KEYS)

CONFIG: Final = MapOf(
    values=IntOrText(
        max_length=1000,
        pattern=r"^[^\r\n]*$",
        pattern_text="must be one line of at most 1000 characters",
        name="integer or string",
    ),
    max_properties=100,
    rules=(
        Rule(
            cel=f"self.all(key, !(key in [{_LISTED}]))",
            message="`config` may not hold settings that the operator writes: addresses, ids,"
            " folders, `shutdown.grace.ms`, and what has a field of its own (`offsetsPartitions`, `replicationFactor`,"
            " `listeners`, `peers`, `authorization`)",
            holds=lambda config: not set(config) & set(OPERATOR_KEYS),
        ),
        Rule(
            cel="self.all(key, key.matches('^[a-z][a-z0-9.]*$'))",
            message="keys of `config` must be lower-case words with dots between them, as Kafka's are",
            holds=lambda config: all(
                key[:1].isalpha() and set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789.") for key in config
            ),
        ),
    ),
)
