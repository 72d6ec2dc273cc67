"""The kinds of `muster.dev/v1alpha1`: names, columns of `kubectl get`, subresources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_operator.api.cluster import ClusterSpec
from muster_operator.api.cluster_status import ClusterStatus
from muster_operator.api.conditions import Reason
from muster_operator.api.group import GROUP_RULES, GroupSpec
from muster_operator.api.group_status import GroupStatus
from muster_operator.api.kind import CLUSTER_NAME_LENGTH_MAX, GROUP_NAME_LENGTH_MAX
from muster_operator.api.schema import Rule
from muster_operator.api.status import NEVER
from muster_operator.api.topic import TOPIC_RULES, TopicSpec, TopicStatus
from muster_operator.api.user import UserSpec, UserStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of `kubectl get`; `wide`: only with `-o wide`."""

    name: str
    path: str
    text: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    kind: str
    plural: str
    short: str
    text: str
    spec: type
    spec_text: str
    status: type
    unseen: Mapping[str, Any]
    """Default of `.status`, for an object that no operator has reconciled yet."""
    name_length_max: int | None
    """None: any name that Kubernetes takes; no child's name is longer."""
    columns: tuple[Column, ...]
    scale: bool
    rules: tuple[Rule, ...] = ()
    """Rules for the whole object, besides those for its name."""


def _condition(type_: str, field: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field}'


def _unseen(*conditions: str, **columns: str) -> dict[str, Any]:
    """Conditions with status Unknown instead of none. The time is the one that other APIs (Gateway API) use for
    "never"."""
    told = [
        {
            "type": type_,
            "status": "Unknown",
            "reason": str(Reason.NOT_OBSERVED),
            "message": "no operator has looked at it yet",
            "lastTransitionTime": NEVER,
        }
        for type_ in conditions
    ]
    return {**columns, "conditions": told}


_AGE: Final = Column(name="Age", path=".metadata.creationTimestamp", type="date", text="Time since its creation.")

COORDINATOR_CLUSTER: Final = Kind(
    kind="CoordinatorCluster",
    plural="coordinatorclusters",
    short="cc",
    text="CoordinatorCluster is a replicated coordinator of Kafka consumer groups.",
    spec=ClusterSpec,
    spec_text="The wanted state of the coordinators.",
    status=ClusterStatus,
    unseen=_unseen("Ready", "QuorumAvailable", readyText="Unknown"),
    name_length_max=CLUSTER_NAME_LENGTH_MAX,
    columns=(
        Column(name="Ready", path=".status.readyText", text="Ready coordinators / all coordinators."),
        Column(name="Quorum", path=_condition("QuorumAvailable"), text="Whether every Raft group can commit."),
        Column(
            name="Under-Replicated",
            path=".status.underReplicated",
            type="integer",
            text="Raft groups with a replica that does not answer or is not caught up.",
        ),
        Column(name="Version", path=".status.version", text="Release that the coordinators report."),
        Column(name="Reason", path=_condition("Ready", "reason"), text="AllReady, or why it is not Ready."),
        Column(
            name="Bootstrap",
            path=".status.bootstrapServers.internal",
            text="Bootstrap address inside the Kubernetes cluster.",
            wide=True,
        ),
        Column(
            name="External", path=".status.bootstrapServers.external", text="Bootstrap addresses outside.", wide=True
        ),
        Column(name="Revision", path=".status.updateRevision", text="Revision of the pods.", wide=True),
        Column(
            name="To-Move",
            path=".status.scaling.groupsToMove",
            type="integer",
            text="Replicas of Raft groups on coordinators that are to leave.",
            wide=True,
        ),
        _AGE,
    ),
    scale=True,
)
CONSUMER_GROUP: Final = Kind(
    kind="ConsumerGroup",
    plural="consumergroups",
    short="cg",
    text="ConsumerGroup is a Kafka consumer group: its state and lag, and the pods that consume.",
    spec=GroupSpec,
    spec_text="The wanted state of the group.",
    status=GroupStatus,
    unseen=_unseen("Ready", "StaticMembership", readyText="Unknown", state="Unknown", lagText="Unknown"),
    name_length_max=GROUP_NAME_LENGTH_MAX,
    columns=(
        Column(name="State", path=".status.state", text="State of the group."),
        Column(name="Ready", path=".status.readyText", text="Ready consumer pods / wanted ones."),
        Column(name="Members", path=".status.memberCount", type="integer", text="Members of the group."),
        Column(name="Lag", path=".status.lagText", text="Lag in records, over all partitions."),
        Column(name="Static", path=_condition("StaticMembership"), text="Whether restarts cost no rebalance."),
        Column(name="Group", path=".spec.groupId", text="Kafka's group id.", wide=True),
        Column(name="Generation", path=".status.generation", type="integer", text="Generation.", wide=True),
        Column(name="Coordinator", path=".status.coordinator", text="Broker that coordinates it.", wide=True),
        Column(name="Reason", path=_condition("Ready", "reason"), text="Why it is Ready or not.", wide=True),
        _AGE,
    ),
    scale=True,
    rules=GROUP_RULES,
)
TOPIC: Final = Kind(
    kind="Topic",
    plural="topics",
    short="mt",
    text="Topic is a topic of a Kafka cluster, kept as specified.",
    spec=TopicSpec,
    spec_text="The wanted state of the topic.",
    status=TopicStatus,
    unseen=_unseen("Ready"),
    name_length_max=None,
    columns=(
        Column(name="Applied", path=_condition("Ready"), text="Whether the topic is as specified."),
        Column(name="Partitions", path=".status.partitions", type="integer", text="Partitions of the topic."),
        Column(name="Replication", path=".status.replicationFactor", type="integer", text="Replicas of each."),
        Column(name="Reason", path=_condition("Ready", "reason"), text="Applied, or why it is not."),
        Column(name="Topic", path=".status.topicName", text="Name of the topic in Kafka.", wide=True),
        Column(name="Policy", path=".spec.deletionPolicy", text="What becomes of it in the end.", wide=True),
        _AGE,
    ),
    scale=False,
    rules=TOPIC_RULES,
)
USER: Final = Kind(
    kind="User",
    plural="users",
    short="mu",
    text="User is a user of a Kafka cluster: its credentials, its rights and its quotas, kept as specified.",
    spec=UserSpec,
    spec_text="The wanted state of the user.",
    status=UserStatus,
    unseen=_unseen("Ready", "CredentialsReady"),
    name_length_max=None,
    columns=(
        Column(name="Applied", path=_condition("Ready"), text="Whether the user is as specified."),
        Column(name="Credentials", path=_condition("CredentialsReady", "reason"), text="Where they are from."),
        Column(name="Reason", path=_condition("Ready", "reason"), text="Applied, or why it is not."),
        Column(name="Principal", path=".status.principal", text="The user as ACLs name it.", wide=True),
        Column(name="Secret", path=".status.secret", text="Secret with its client settings.", wide=True),
        Column(name="Policy", path=".spec.deletionPolicy", text="What becomes of it in the end.", wide=True),
        _AGE,
    ),
    scale=False,
)
KINDS: Final = (COORDINATOR_CLUSTER, CONSUMER_GROUP, TOPIC, USER)
