"""ConsumerGroup (`cg`): a consumer group as users specify it: the group, its cluster, and the pods that consume.

With `template` the operator creates the pods; with `workloadRef` they belong to an existing workload; without either
the object only observes the group. The dataclasses are the only source: the CRD's schema, the parser and docs/crds.md
are made from their fields.
"""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from muster_operator.api.client_access import AUTHENTICATION_TEXT, TLS_TEXT, Access, Authentication, Tls, access_rule
from muster_operator.api.consumer_template import ConsumerTemplate
from muster_operator.api.fields import Record, spec_field
from muster_operator.api.kind import GROUP_NAME_LENGTH_MAX, parse_spec
from muster_operator.api.pod import NAME
from muster_operator.api.schema import Boolean, Integer, ListOf, Rule, Text, choice, immutable
from muster_operator.api.workload import WorkloadRef

Json = Mapping[str, Any]

ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
COMPARED_ADDRESSES_MAX: Final = 16
"""Number of parts of `bootstrapServers` that a rule compares, the last one holding the rest: it bounds the rule's
cost."""
CLIENT_VOLUME: Final = "muster-client"
"""How the names of the volumes with a client's Secrets begin."""
FORMER_DEFAULT: Final = 1
"""Former default of `replicas`, also without anything to scale: objects stored with it stay valid."""
ASSIGNOR_ALIASES: Final = {"round_robin": "roundrobin", "cooperative_sticky": "cooperative-sticky"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRef:
    name: str = spec_field(NAME, "Name of a CoordinatorCluster in this namespace.", required=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.heartbeatIntervalSeconds * 3 <= self.timeoutSeconds",
            message="`heartbeatIntervalSeconds` may be at most a third of `timeoutSeconds`",
            holds=lambda session: session.heartbeat_interval_seconds * 3 <= session.timeout_seconds,
        ),
        Rule(
            cel="self.maxPollIntervalSeconds >= self.timeoutSeconds",
            message="`maxPollIntervalSeconds` must be at least `timeoutSeconds`: clients refuse to start otherwise",
            holds=lambda session: session.max_poll_interval_seconds >= session.timeout_seconds,
        ),
    )

    timeout_seconds: int = spec_field(
        Integer(low=6, high=1800),
        "A member without a heartbeat for this time is expelled. A pod that restarts within it causes no rebalance.",
        default=45,
    )
    heartbeat_interval_seconds: int = spec_field(Integer(low=1, high=600), "Time between heartbeats.", default=3)
    max_poll_interval_seconds: int = spec_field(
        Integer(low=6, high=86_400), "A consumer that does not poll for this time leaves the group.", default=300
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    max_unavailable: int = spec_field(
        Integer(low=1, high=1000),
        "Consumers that may be unavailable at once: during node drains, and in a roll-out where Kubernetes supports it"
        " for StatefulSets (else 1).",
        default=1,
    )
    min_ready_seconds: int = spec_field(
        Integer(low=0, high=3600), "Time that a new pod must be Ready before the next one is replaced.", default=0
    )


_TOPIC: Final = Text(
    max_length=249,
    min_length=1,
    pattern=r"^[a-zA-Z0-9._-]+$",
    pattern_text="must be a topic name: letters, digits, dots, dashes and underscores",
)


GROUP_RULES: Final = (
    Rule(
        cel="(has(self.status) && has(self.status.observedGeneration)) || !has(self.spec.replicas)"
        " || self.spec.replicas == 1 || has(self.spec.template) || has(self.spec.workloadRef)",
        message="`replicas` may only be set with a `template` or a `workloadRef`: there is nothing to scale",
        holds=None,
    ),
)
"""Rules for the whole object. An object with an observed status may have been stored before this rule existed: it stays
editable, and its `replicas` has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.clusterRef) != has(self.bootstrapServers)",
            message="exactly one of `clusterRef` and `bootstrapServers` must be set",
            holds=lambda spec: (spec.cluster_ref is None) != (spec.bootstrap_servers is None),
        ),
        Rule(
            cel="(!has(self.template) && !has(oldSelf.template))"
            " || (has(self.clusterRef) == has(oldSelf.clusterRef)"
            " && (!has(self.clusterRef) || self.clusterRef.name == oldSelf.clusterRef.name))",
            message="`clusterRef` may not change while there is a `template`: consumers would move without"
            " their offsets",
            holds=None,
        ),
        Rule(
            cel="(!has(self.template) && !has(oldSelf.template))"
            " || !has(self.bootstrapServers) || !has(oldSelf.bootstrapServers)"
            f" || self.bootstrapServers.split(',', {COMPARED_ADDRESSES_MAX}).exists(address,"
            f" address in oldSelf.bootstrapServers.split(',', {COMPARED_ADDRESSES_MAX}))",
            message="`bootstrapServers` must keep one of its addresses while there is a `template`: consumers might"
            " move without their offsets",
            holds=None,
        ),
        Rule(
            cel="!has(self.template) || !has(self.workloadRef)",
            message="at most one of `template` and `workloadRef` may be set",
            holds=lambda spec: spec.template is None or spec.workload_ref is None,
        ),
        Rule(
            cel="!has(self.replicas) || self.replicas == 1 || has(self.template) || has(self.workloadRef)"
            " || (has(oldSelf.replicas) && oldSelf.replicas == self.replicas"
            " && !has(oldSelf.template) && !has(oldSelf.workloadRef))",
            message="`replicas` may not be set, nor stay when the last of `template` and `workloadRef` is taken away:"
            " there is nothing to scale",
            holds=None,
        ),
        Rule(
            cel="(!has(self.workloadRef) || (!has(oldSelf.template) && (!has(oldSelf.workloadRef)"
            " || (self.workloadRef.name == oldSelf.workloadRef.name"
            " && self.workloadRef.kind == oldSelf.workloadRef.kind))))"
            " && (!has(self.template) || !has(oldSelf.workloadRef))",
            message="`workloadRef` may not change, nor take turns with `template`, in one step: take away the one, then"
            " set the other",
            holds=None,
        ),
        access_rule("authentication", lambda spec: spec.authentication),
        Rule(
            cel="(!has(self.tls) && !has(self.authentication)) || !has(self.template) || !has(self.template.volumes)"
            f" || self.template.volumes.all(one, !one.name.startsWith('{CLIENT_VOLUME}'))",
            message=f"`volumes` may not have names that begin with `{CLIENT_VOLUME}` beside `tls` or `authentication`",
            holds=lambda spec: (
                (spec.tls is None and spec.authentication is None)
                or spec.template is None
                or not any(str(one["name"]).startswith(CLIENT_VOLUME) for one in spec.template.volumes or ())
            ),
        ),
    )

    cluster_ref: ClusterRef | None = spec_field(
        Record(ClusterRef),
        "The CoordinatorCluster that coordinates the group. Or set `bootstrapServers`."
        " It may not change while there is a `template`, because committed offsets do not move.",
    )
    bootstrap_servers: str | None = spec_field(
        Text(
            max_length=2000,
            min_length=3,
            pattern=r"^[^\s,:]+:[0-9]{1,5}(,[^\s,:]+:[0-9]{1,5})*$",
            pattern_text="must be host:port, several with commas between them",
        ),
        "Addresses of a cluster without a CoordinatorCluster (Apache Kafka or Muster), as host:port,host:port. Or set"
        " `clusterRef`. A change must keep one of them while there is a `template`: committed offsets do not move.",
    )
    group_id: str = spec_field(
        Text(max_length=249, min_length=1, rules=(immutable("groupId"),)),
        "Kafka's group.id. It may not change: offsets belong to it.",
        required=True,
    )
    topics: tuple[str, ...] = spec_field(
        ListOf(items=_TOPIC, min_items=1, max_items=100, unique=True),
        "Topics that the group consumes: passed to the pods in their environment, and used for lag.",
        required=True,
    )
    template: ConsumerTemplate | None = spec_field(
        Record(ConsumerTemplate),
        "The pods that consume, created by the operator. Or set `workloadRef`, or neither to only observe the group.",
    )
    workload_ref: WorkloadRef | None = spec_field(
        Record(WorkloadRef),
        "An existing workload in this namespace whose pods consume: observed, scaled and restarted, and otherwise not"
        " changed.",
    )
    replicas: int | None = spec_field(
        Integer(low=0, high=1000),
        "Number of consumer pods; also by kubectl scale. Leaving members are removed from the group at once. Absent: 1"
        " with a `template`; with a `workloadRef` its own number, which is not changed.",
    )
    static_membership: bool = spec_field(
        Boolean(),
        "Give each pod its name as group.instance.id, so that a restart within the session timeout costs no rebalance."
        " With a `workloadRef`: a StatefulSet's pods are expected to do so.",
        default=True,
    )
    session: Session = spec_field(
        Record(Session), "Session and poll settings, in the environment of the pods of a `template`.", default={}
    )
    assignor: str | None = spec_field(
        choice("range", "roundrobin", "sticky", "cooperative-sticky", "round_robin", "cooperative_sticky"),
        "Partition assignor, passed to the pods in their environment under Kafka's name. Absent: the client's default.",
    )
    rollout: Rollout = spec_field(Record(Rollout), "How pods are replaced.", default={})
    paused: bool = spec_field(
        Boolean(), "Only report: neither the pods nor the group's members are changed.", default=False
    )
    tls: Tls | None = spec_field(
        Record(Tls), f"{TLS_TEXT} Used by the operator's own look at the group, and given to the pods of a `template`."
    )
    authentication: Authentication | None = spec_field(
        Record(Authentication),
        f"{AUTHENTICATION_TEXT} Used by the operator's own look at the group, and given to the pods of a `template`.",
    )

    @property
    def access(self) -> Access:
        return Access(tls=self.tls, authentication=self.authentication)

    @property
    def made_replicas(self) -> int:
        """Number of pods of a `template`."""
        return FORMER_DEFAULT if self.replicas is None else self.replicas

    @property
    def runs_consumers(self) -> bool:
        """The object has pods, created by the operator or not."""
        return self.template is not None or self.workload_ref is not None

    @property
    def kafka_assignor(self) -> str | None:
        """`assignor` under Kafka's name; None: the client's default."""
        return None if self.assignor is None else ASSIGNOR_ALIASES.get(self.assignor, self.assignor)


def parse_group(obj: Json) -> GroupSpec:
    """The spec of a ConsumerGroup as the API server returned it. Raises `InvalidObject`."""
    return parse_spec(obj, GroupSpec, name_length_max=GROUP_NAME_LENGTH_MAX)
