"""Where the records of topics are: `spec.topics` of a CoordinatorCluster, for logs in a Redis that is somebody else's.

A Kafka that is somebody else's is `upstream_kafka`.

The password and certificates come from Secrets of the cluster's namespace, which only the kubelet reads: the operator
needs no right for them. What it does not do: run a Redis, or look whether there is one; a coordinator says that of
itself (docs/clients.md, "Topics in Redis").
"""

# ruff: noqa: RUF009  # a field is a call with its shape and text

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from muster_operator.api.fields import Record, spec_field
from muster_operator.api.pod import NAME
from muster_operator.api.schema import Integer, Rule, Text, choice
from muster_operator.api.upstream_kafka import PREFIX, KafkaStore, addresses

EMBEDDED: Final = "embedded"
REDIS: Final = "redis"
KAFKA: Final = "kafka"
NO_TOPICS: Final = "none"
TLS_SCHEME: Final = "rediss://"
SENTINELS_MAX: Final = 20
"""Addresses of Sentinels, as many as the coordinator takes."""
NODES_TOLD_MAX: Final = 20
"""Addresses of a Redis Cluster's nodes; the coordinator finds the others, and takes more."""
CLUSTER_URLS: Final = ("redis://cluster", "rediss://cluster")
KEYS: Final = (
    "topics.mode",
    "redis.url",
    "redis.sentinels",
    "redis.sentinel.username",
    "redis.sentinel.password",
    "redis.cluster.nodes",
    "redis.username",
    "redis.password",
    "redis.prefix",
    "redis.durability",
    "redis.wait.replicas",
    "redis.ssl.ca.location",
    "redis.ssl.certificate.location",
    "redis.ssl.key.location",
)
"""Settings that these fields write, beside those of an existing Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisLogin:
    username: str | None = spec_field(
        Text(
            max_length=255,
            min_length=1,
            pattern=r"^[^\s]+$",
            pattern_text="must be a user's name, without spaces",
        ),
        "User of Redis. Absent: its default user.",
    )
    password_secret_name: str = spec_field(
        NAME,
        "Secret with `password`. The coordinators read it when they start: after a change of it, restart them"
        " (`kubectl muster restart`).",
        required=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSentinels:
    addresses: str = spec_field(
        addresses(SENTINELS_MAX),
        "The Sentinels, as host:port,host:port.",
        required=True,
    )
    authentication: RedisLogin | None = spec_field(
        Record(RedisLogin), "How the coordinators show them who they are. Absent: they do not."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisTls:
    trusted_secret_name: str | None = spec_field(
        NAME, "Secret with `ca.crt`: CAs of Redis' certificate. Absent: those of the image's system."
    )
    secret_name: str | None = spec_field(
        NAME, "Secret with `tls.crt` and `tls.key`: the certificate that the coordinators show. Absent: none."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisStore:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.tls) || self.url.startsWith('rediss://')",
            message="`tls` may only be set with a `url` that begins with rediss://",
            holds=lambda redis: redis.tls is None or redis.url.startswith(TLS_SCHEME),
        ),
        Rule(
            cel="!has(self.sentinels) || !self.url.matches('//[^/]*:')",
            message="`url` must be redis://NAME/DB beside `sentinels`, with their name for the primary and no port",
            holds=lambda redis: redis.sentinels is None or not re.search("//[^/]*:", redis.url),
        ),
        Rule(
            cel="!has(self.clusterNodes) || self.url in ['redis://cluster', 'rediss://cluster']",
            message="`url` must be redis://cluster or rediss://cluster beside `clusterNodes`",
            holds=lambda redis: redis.cluster_nodes is None or redis.url in CLUSTER_URLS,
        ),
        Rule(
            cel="!has(self.clusterNodes) || !has(self.sentinels)",
            message="`clusterNodes` and `sentinels` may not be set together",
            holds=lambda redis: redis.cluster_nodes is None or redis.sentinels is None,
        ),
        Rule(
            cel="!has(self.waitReplicas) || (has(self.durability) && self.durability == 'wait')",
            message="`waitReplicas` may only be set with `durability` wait",
            holds=lambda redis: redis.wait_replicas is None or redis.durability == "wait",
        ),
    )

    url: str = spec_field(
        Text(
            max_length=300,
            min_length=9,
            pattern=r"^rediss?://([-a-zA-Z0-9.]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[0-9]{1,5})?$",
            pattern_text="must be redis://HOST:PORT/DB, or rediss:// with TLS; user and password have fields of"
            " their own",
        ),
        "Address of Redis 7.0 or newer, one for all coordinators: redis://HOST:PORT/DB, or rediss:// with TLS. With"
        " `sentinels` their name for the primary stands in place of HOST:PORT.",
        required=True,
    )
    sentinels: RedisSentinels | None = spec_field(
        Record(RedisSentinels),
        "Redis Sentinels that are asked where the primary is; from release 0.3.0 on. With rediss:// by TLS too.",
    )
    cluster_nodes: str | None = spec_field(
        addresses(NODES_TOLD_MAX),
        "Some nodes of a Redis Cluster, as host:port,host:port; the others are found through them, and `url` is"
        " redis://cluster, or rediss://cluster with TLS. From release 0.3.0 on. Absent: it is no Cluster.",
    )
    prefix: str | None = spec_field(
        Text(
            max_length=100,
            min_length=1,
            pattern=r"^[A-Za-z0-9._:-]+$",
            pattern_text="must be letters, digits, dots, colons, dashes or underscores",
        ),
        "Partition P of topic T is the stream PREFIX:{T:P}. Absent: muster. It must not change while there are such"
        " topics.",
    )
    durability: str | None = spec_field(
        choice("memory", "wait", "aof"),
        "When a batch is acknowledged: memory: when Redis has it in memory; wait: when `waitReplicas` of its replicas"
        " have it, too; aof: when it is in its file on disk. Absent: as memory, but nothing is taken by a Redis that"
        " keeps nothing.",
    )
    wait_replicas: int | None = spec_field(
        Integer(low=1, high=100), "For `durability` wait: replicas of Redis that must have a batch. Absent: 1."
    )
    authentication: RedisLogin | None = spec_field(
        Record(RedisLogin), "How the coordinators show who they are. Absent: they do not."
    )
    tls: RedisTls | None = spec_field(
        Record(RedisTls), "Trust and certificate of connections by rediss://. Absent: the system's CAs, none shown."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStore:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.mode != 'redis' || has(self.redis)",
            message="`mode` redis must have `redis`: the address is there",
            holds=lambda topics: topics.mode != REDIS or topics.redis is not None,
        ),
        Rule(
            cel="!(self.mode in ['none', 'kafka']) || !has(self.redis)",
            message="`redis` may not be set with `mode` none or kafka: the coordinators have no topics then",
            holds=lambda topics: topics.mode not in (NO_TOPICS, KAFKA) or topics.redis is None,
        ),
        Rule(
            cel="(self.mode == 'kafka') == has(self.kafka)",
            message="`kafka` must be set with `mode` kafka, and only then",
            holds=lambda topics: (topics.mode == KAFKA) == (topics.kafka is not None),
        ),
    )

    mode: str = spec_field(
        choice(EMBEDDED, REDIS, KAFKA, NO_TOPICS),
        "What a topic becomes that does not say it by its config `topic.store`: a replicated log of the coordinators"
        " (embedded), or a set of Redis Streams. kafka: topics are those of an existing Kafka, and groups and offsets"
        " the coordinators'; from release 0.3.0 on. none: coordination alone, and no topics.",
        default=EMBEDDED,
    )
    redis: RedisStore | None = spec_field(
        Record(RedisStore), "The Redis of topics in Redis. With `mode` embedded only topics that say so are there."
    )
    kafka: KafkaStore | None = spec_field(Record(KafkaStore), "The Kafka whose topics are used.")


def is_written(key: str) -> bool:
    """Whether this setting is the operator's where `spec.topics` is set."""
    return key in KEYS or key.startswith(PREFIX)
