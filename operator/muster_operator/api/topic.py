"""Topic (`mt`): a topic of a Kafka cluster, kept as specified from here; nothing is ever read back into the spec."""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from muster_operator.api.client_access import AUTHENTICATION_TEXT, TLS_TEXT, Access, Authentication, Tls
from muster_operator.api.fields import Record, spec_field
from muster_operator.api.group import ClusterRef
from muster_operator.api.kafka_object import BOOTSTRAP, CLUSTER_RULES, DELETE, POLICY, RETAIN, fixed
from muster_operator.api.kind import parse_spec
from muster_operator.api.schema import Integer, IntOrText, ListOf, MapOf, Rule, Text
from muster_operator.api.status import CONDITIONS, COUNT, LONG

Json = Mapping[str, Any]
NAME_LENGTH_MAX: Final = 249
CONFIGS_MAX: Final = 100
TOPIC_NAME: Final = Text(
    max_length=NAME_LENGTH_MAX,
    min_length=1,
    pattern=r"^[a-zA-Z0-9._-]+$",
    pattern_text="must be a topic name: letters, digits, dots, dashes and underscores",
)
KEPT_CONFIGS: Final = frozenset({"redis.sequence.bits", "redis.stream", "redis.value.field", "topic.store"})
"""What a topic of Muster has as it was made, for good: the coordinator refuses another value, and answers a removal as
done and keeps it."""
_VALUE: Final = IntOrText(
    max_length=4096, pattern=r"^[^\n\r]*$", pattern_text="must be one line of text or a whole number", name="text"
)

TOPIC_RULES: Final = (
    Rule(
        cel=f"has(self.spec.topicName) || size(self.metadata.name) <= {NAME_LENGTH_MAX}",
        message=f"`topicName` must be set if `metadata.name` has more than {NAME_LENGTH_MAX} characters",
        holds=None,
    ),
)
"""For the whole object. The broker says the same of a name that is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    RULES: ClassVar[tuple[Rule, ...]] = (
        *CLUSTER_RULES,
        fixed("topicName", "it would be another topic"),
        Rule(
            cel="!has(self.configs) || self.configs.all(key, key.matches('^[a-z][a-z0-9.]*$'))",
            message="keys of `configs` must be Kafka's names: lower-case letters, digits and dots",
            holds=lambda spec: all(
                key and key[0].isalpha() and key.isascii() and key.replace(".", "").isalnum() and key == key.lower()
                for key in spec.configs
            ),
        ),
    )

    cluster_ref: ClusterRef | None = spec_field(
        Record(ClusterRef), "The CoordinatorCluster that has the topic. Or set `bootstrapServers`."
    )
    bootstrap_servers: str | None = spec_field(
        BOOTSTRAP,
        "Addresses of a cluster without a CoordinatorCluster (Apache Kafka or Muster), as host:port,host:port. Or set"
        " `clusterRef`.",
    )
    tls: Tls | None = spec_field(Record(Tls), TLS_TEXT)
    login: Authentication | None = spec_field(
        Record(Authentication), f"{AUTHENTICATION_TEXT} It is the operator's login: it must be allowed to do this."
    )
    topic_name: str | None = spec_field(TOPIC_NAME, "The topic. Absent: `metadata.name`. It may not change.")
    partitions: int | None = spec_field(
        Integer(low=1, high=100_000),
        "Number of partitions. It may grow; fewer is refused, since Kafka cannot take partitions away. Absent: the"
        " broker's default for a new topic, and whatever there is for an existing one.",
    )
    replication_factor: int | None = spec_field(
        Integer(low=1, high=100),
        "Replicas of each partition of a new topic. Another number for an existing one is refused: its replicas are"
        " moved with Kafka's own tools. Absent: the broker's default.",
    )
    configs: Mapping[str, int | str] = spec_field(
        MapOf(values=_VALUE, max_properties=CONFIGS_MAX),
        "Settings of the topic under Kafka's names, true and false in quotes. Only these are changed; one that is taken"
        " away here goes back to its default, but `topic.store` and `redis.*`, which a topic keeps as it was made.",
        default={},
    )
    deletion_policy: str = spec_field(
        POLICY,
        "What becomes of the topic, and its records, when this object is deleted. With Delete the object stays until"
        " the cluster has deleted the topic.",
        default=RETAIN,
    )

    @property
    def access(self) -> Access:
        return Access(tls=self.tls, authentication=self.login)

    @property
    def texts(self) -> dict[str, str]:
        """`configs` as Kafka has them."""
        return {key: str(value) for key, value in self.configs.items()}

    @property
    def deletes(self) -> bool:
        return self.deletion_policy == DELETE


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    observed_generation: int | None = spec_field(LONG, "metadata.generation of the spec that this status refers to.")
    conditions: tuple[Any, ...] | None = spec_field(CONDITIONS, "Conditions (docs/operator-conditions.md).")
    topic_name: str | None = spec_field(TOPIC_NAME, "The topic.")
    topic_id: str | None = spec_field(
        Text(max_length=64), "Id of the topic that this object keeps. Another topic of the name is a foreign one."
    )
    partitions: int | None = spec_field(COUNT, "Partitions of the topic. Absent: unknown.")
    replication_factor: int | None = spec_field(COUNT, "Replicas of its first partition. Absent: unknown.")
    configs: tuple[str, ...] | None = spec_field(
        ListOf(items=Text(max_length=253), max_items=2 * CONFIGS_MAX),
        "Names of the settings that this object has set, recorded before they are set: only these are ever reset.",
    )


def parse_topic(obj: Json) -> TopicSpec:
    """The spec of a Topic as the API server returned it. Raises `InvalidObject`."""
    return parse_spec(obj, TopicSpec, name_length_max=None)
