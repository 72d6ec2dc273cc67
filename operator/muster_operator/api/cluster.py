"""CoordinatorCluster (`cc`): a cluster of coordinators for consumer groups, as users specify it.

The dataclasses are the only source: the CRD's schema, the parser and docs/crds.md are made from their fields.
"""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from muster_operator.api.config_keys import CONFIG, Config
from muster_operator.api.fields import Record, spec_field
from muster_operator.api.kind import CLUSTER_NAME_LENGTH_MAX, parse_spec
from muster_operator.api.network import NetworkPolicySpec
from muster_operator.api.oauth import SPEC_RULES as OAUTH_RULES
from muster_operator.api.oauth import Oauth
from muster_operator.api.pod import (
    AFFINITY,
    ANNOTATIONS,
    IMAGE,
    LABELS,
    NAME,
    NODE_SELECTOR,
    POD_SECURITY,
    PULL_POLICY,
    PULL_SECRETS,
    RESOURCES,
    TOLERATIONS,
    TOPOLOGY_SPREAD,
)
from muster_operator.api.quantity import QUANTITY_TEXT, bytes_of
from muster_operator.api.releases import VERSION_TEXT
from muster_operator.api.schema import Boolean, Integer, ListOf, Rule, Text, choice, immutable
from muster_operator.api.security import (
    LISTENER_RULES,
    NONE,
    SASL,
    SCRAM,
    SPEC_RULES,
    TLS,
    Authorization,
    Certificates,
    ListenerAuthentication,
    ListenerTls,
    OwnPort,
    Peers,
)
from muster_operator.api.topic_store import KEYS as TOPIC_STORE_KEYS
from muster_operator.api.topic_store import TopicStore, is_written
from muster_operator.api.upstream_kafka import CLUSTER_RULES, PREFIX, KafkaStore
from muster_operator.naming import ADMIN_PORT, PEER_PORT, PROBE_PORT

Json = Mapping[str, Any]

REPLICATION_FACTORS: Final = (1, 3, 5)
REPLICAS_MAX: Final = 50
"""As many brokers as a cluster may have."""
STORAGE_BYTES_MIN: Final = 1024**3
"""With default settings a smaller volume fills up before the write-ahead logs and segments are recycled."""
NODE_PORT_STRIDE: Final = 10
"""Node ports of one listener: base + ordinal. With a base divisible by 10 they never overlap another listener's, and
the port is the base's digits with the ordinal as the last one: one settings file serves every pod."""
OWN_PORTS: Final = (PEER_PORT, PROBE_PORT, ADMIN_PORT)
OWN_PORT_NAMES: Final = ("peer", "probe", "admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.storageClassName) == has(oldSelf.storageClassName)"
            " && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            message="`storageClassName` may not change, be set later or be unset: volumes keep the class they were"
            " made with",
            holds=None,
        ),
    )

    size: str = spec_field(
        Text(
            max_length=20,
            pattern=QUANTITY_TEXT,
            pattern_text="must be a quantity such as 10Gi",
            rules=(
                Rule(
                    cel="quantity(self).compareTo(quantity('1Gi')) >= 0",
                    message="`size` must be at least 1Gi",
                    holds=lambda size: bytes_of(size) >= STORAGE_BYTES_MIN,
                ),
                Rule(
                    cel="quantity(self).compareTo(quantity(oldSelf)) >= 0",
                    message="`size` may only grow: a volume cannot be made smaller",
                    holds=None,
                ),
            ),
        ),
        "Size of each replica's volume. It may grow later if the storage class can expand volumes.",
        default="10Gi",
    )
    storage_class_name: str | None = spec_field(
        NAME, "Storage class of the volumes. Absent: the default class of the cluster. It may not change."
    )
    reclaim_policy: str = spec_field(
        choice("Retain", "Delete"),
        "What happens to the volumes when this object is deleted. Retain keeps the data.",
        default="Retain",
    )
    when_scaled: str = spec_field(
        choice("Retain", "Delete"),
        "What happens to the volume of a coordinator that has left because `replicas` was lowered: whatever was on it"
        " was moved to others before. Retain keeps the claim, which has to be deleted before its number is wanted"
        " again: what left the cluster never takes part again.",
        default="Delete",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.type != 'nodePort' || has(self.nodePortBase)",
            message="`nodePortBase` must be set for type `nodePort`: clients are told the port before a Service exists",
            holds=lambda listener: listener.type != "nodePort" or listener.node_port_base is not None,
        ),
        Rule(
            cel="self.type == 'nodePort' || (!has(self.nodePortBase) && !has(self.advertisedHost))",
            message="`nodePortBase` and `advertisedHost` may only be set for type `nodePort`",
            holds=lambda listener: (
                listener.type == "nodePort" or (listener.node_port_base is None and listener.advertised_host is None)
            ),
        ),
        *LISTENER_RULES,
    )

    name: str = spec_field(
        Text(
            max_length=15,
            min_length=1,
            pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
            pattern_text="must be lower-case letters, digits and dashes, beginning with a letter",
            rules=(
                Rule(
                    cel="!(self in ['peer', 'probe', 'admin'])",
                    message="`name` may not be `peer`, `probe` or `admin`: those ports are the coordinator's own",
                    holds=lambda name: name not in OWN_PORT_NAMES,
                ),
            ),
        ),
        "Name of the listener; also of its port.",
        required=True,
    )
    type: str = spec_field(
        choice("internal", "nodePort"),
        "internal: reached by the pods' DNS names inside the cluster. nodePort: reached from outside, one NodePort"
        " Service a pod.",
        default="internal",
    )
    port: int = spec_field(
        Integer(
            low=1024,
            high=65_535,
            rules=(
                Rule(
                    cel="!(self in [8080, 8081, 9093])",
                    message="`port` may not be 8080, 8081 or 9093: those are the coordinator's own",
                    holds=lambda port: port not in OWN_PORTS,
                ),
            ),
        ),
        "Port in the pod. Each listener has its own.",
        required=True,
    )
    advertised_host: str | None = spec_field(
        Text(
            max_length=253,
            min_length=1,
            pattern=r"^([-a-zA-Z0-9.:\[\]]|\$\((NODE_IP|POD_NAME|ORDINAL)\))+$",
            pattern_text="must be a host name or address; $(NODE_IP), $(POD_NAME) and $(ORDINAL) are replaced",
        ),
        "Host that is advertised to external clients, for type nodePort. $(NODE_IP) is the address of the pod's node,"
        " $(POD_NAME) the pod's name, $(ORDINAL) its number. Absent: $(NODE_IP).",
    )
    node_port_base: int | None = spec_field(
        Integer(
            low=1000,
            high=65_520,
            rules=(
                Rule(
                    cel="self % 10 == 0",
                    message="`nodePortBase` must be divisible by 10: pod N is reached at this port plus N",
                    holds=lambda base: base % NODE_PORT_STRIDE == 0,
                ),
            ),
        ),
        "For type nodePort: pod N is reached at this port plus N on every node. Divisible by 10 and within the"
        " cluster's node port range (usually 30000-32767).",
    )

    tls: ListenerTls | None = spec_field(
        Record(ListenerTls),
        "Encrypts the listener. {}: by a certificate of the CA that the operator keeps for the cluster (Secret"
        " NAME-cluster-ca-cert has `ca.crt` for clients). Absent: it is not encrypted.",
    )
    authentication: ListenerAuthentication | None = spec_field(
        Record(ListenerAuthentication), "How clients show who they are. Absent: nobody is asked."
    )

    @property
    def authenticates_by(self) -> str:
        return self.authentication.type if self.authentication is not None else NONE

    @property
    def mechanism(self) -> str | None:
        """Kafka's name of its SASL mechanism."""
        return SASL.get(self.authenticates_by)

    @property
    def scram(self) -> str | None:
        """Kafka's name of that mechanism if it is one of passwords, whose users are kept in the cluster."""
        return SCRAM.get(self.authenticates_by)

    @property
    def own_certificate(self) -> bool:
        """Its certificate is of the operator's CA."""
        return self.tls is not None and self.tls.secret_name is None and self.tls.issuer_ref is None

    @property
    def protocol(self) -> str:
        """Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return transport if self.mechanism is None else f"SASL_{transport}"

    @property
    def node_port(self) -> int:
        """Of type nodePort: the port of pod 0."""
        assert self.node_port_base is not None, "CEL and parser require it"
        return self.node_port_base


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    labels: Json = spec_field(LABELS, "Further labels of the pods.", default={})
    annotations: Json = spec_field(ANNOTATIONS, "Further annotations of the pods.", default={})
    node_selector: Json | None = spec_field(NODE_SELECTOR, "Labels that a node must have.")
    affinity: Json | None = spec_field(AFFINITY, "Node and pod affinity: where the pods must or should run.")
    tolerations: tuple[Json, ...] | None = spec_field(TOLERATIONS, "Taints that the pods tolerate.")
    topology_spread_constraints: tuple[Json, ...] | None = spec_field(
        TOPOLOGY_SPREAD,
        "How the pods spread. Absent: evenly over nodes (required) and over zones (preferred). Without a labelSelector"
        " the pods of this object count.",
    )
    priority_class_name: str | None = spec_field(NAME, "Priority class of the pods.")
    service_account_name: str | None = spec_field(
        NAME, "Name of an existing service account. Absent: the operator creates one without rights."
    )
    security_context: Json | None = spec_field(
        POD_SECURITY,
        "Security settings of the pods, merged over the operator's: non-root, user and group 10001 (unless the"
        " platform sets them: OpenShift), RuntimeDefault seccomp.",
    )


LISTENERS_MAX: Final = 8
_LISTENERS: Final = ListOf(
    items=Record(Listener),
    min_items=1,
    max_items=LISTENERS_MAX,
    keys=("name",),
    rules=(
        Rule(
            cel="self.exists(listener, listener.type == 'internal')",
            message="`listeners` must hold one of type `internal`: consumer groups in the cluster use the first",
            holds=lambda listeners: any(item.type == "internal" for item in listeners),
        ),
        Rule(
            cel="self.all(a, self.exists_one(b, a.port == b.port))",
            message="`port` must differ between listeners",
            holds=lambda listeners: len({item.port for item in listeners}) == len(listeners),
        ),
        Rule(
            cel="self.all(a, !has(a.nodePortBase)"
            " || self.exists_one(b, has(b.nodePortBase) && a.nodePortBase == b.nodePortBase))",
            message="`nodePortBase` must differ between listeners",
            holds=lambda listeners: (
                len(bases := [x.node_port_base for x in listeners if x.node_port_base is not None]) == len(set(bases))
            ),
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.replicationFactor) || self.replicationFactor <= self.replicas",
            message="`replicationFactor` may not be above `replicas`: no coordinator has two replicas of a partition",
            holds=lambda spec: spec.replication_factor is None or spec.replication_factor <= spec.replicas,
        ),
        Rule(
            cel="self.replicas <= 10 || !has(self.listeners) || self.listeners.all(one, one.type != 'nodePort')",
            message="`replicas` may not be above 10 with a `nodePort` listener: pod N is reached at its base plus N",
            holds=lambda spec: spec.replicas <= NODE_PORT_STRIDE or not spec.external_listeners,
        ),
        Rule(
            cel="!has(self.version) || has(self.image)",
            message="`version` may only be set beside `image`: it says which release that holds",
            holds=lambda spec: spec.version is None or spec.image is not None,
        ),
        Rule(
            cel="!has(self.topics) || !has(self.config)"
            f" || self.config.all(key, !(key in [{', '.join(repr(key) for key in TOPIC_STORE_KEYS)}])"
            f" && !key.startsWith('{PREFIX}'))",
            message="`config` may not hold `topics.mode`, a setting of Redis that `topics` writes, or one of"
            f" `{PREFIX}*` beside `topics`",
            holds=lambda spec: spec.topics is None or not any(map(is_written, spec.config)),
        ),
        *SPEC_RULES,
        *OAUTH_RULES,
        *CLUSTER_RULES,
    )

    replicas: int = spec_field(
        Integer(low=1, high=REPLICAS_MAX),
        "Number of coordinators, also by `kubectl scale`. New ones get some of the Raft groups; when it is lowered,"
        " those with the highest numbers hand over what they hold and leave. There are never fewer than the replication"
        " factor: condition ScalingRefused.",
        default=3,
    )
    replication_factor: int | None = spec_field(
        Integer(
            low=1,
            high=5,
            rules=(
                Rule(
                    cel="self in [1, 3, 5]",
                    message="`replicationFactor` must be 1, 3 or 5",
                    holds=lambda factor: factor in REPLICATION_FACTORS,
                ),
            ),
        ),
        "Replicas of each Raft group, and at first coordinators that form the cluster: 1 (survives no failure), 3 (one"
        " failure) or 5 (two). Absent: 5, 3 or 1, the first that is not above `replicas` when the cluster is made."
        " Raised later, every group gets more replicas, the controller's too; to lower it has no effect, and condition"
        " ScalingRefused says so.",
    )
    offsets_partitions: int = spec_field(
        Integer(low=1, high=1000, rules=(immutable("offsetsPartitions"),)),
        "Partitions of __consumer_offsets, the number of Raft groups for consumer groups. It may not change.",
        default=50,
    )
    image: str | None = spec_field(IMAGE, "Image of the coordinators. Absent: the operator's own.")
    version: str | None = spec_field(
        Text(
            max_length=60,
            min_length=5,
            pattern=VERSION_TEXT,
            pattern_text="must be a version such as 0.1.0",
        ),
        "Release of Muster in `image`. Absent: the image's tag, if that is a version (0.1.0).",
    )
    image_pull_policy: str | None = spec_field(PULL_POLICY, "When the image is pulled. Absent: as Kubernetes decides.")
    image_pull_secrets: tuple[Json, ...] | None = spec_field(PULL_SECRETS, "Secrets for pulling the image.")
    storage: Storage = spec_field(Record(Storage), "Volume of each replica.", default={})
    listeners: tuple[Listener, ...] = spec_field(
        _LISTENERS,
        "Where clients connect. Absent: one internal listener on port 9092.",
        default=[{"name": "internal", "type": "internal", "port": 9092}],
    )
    resources: Json = spec_field(
        RESOURCES,
        "Processor and memory of each coordinator.",
        default={"requests": {"cpu": "250m", "memory": "512Mi"}},
    )
    pod_template: PodTemplate = spec_field(Record(PodTemplate), "Settings of the pods.", default={})
    config: Config = spec_field(
        CONFIG,
        "Settings of the coordinators under Kafka's names (docs/configuration.md). Write true and false in quotes.",
        default={},
    )
    topics: TopicStore | None = spec_field(
        Record(TopicStore),
        "Where the records of topics are. Absent: replicated logs of the coordinators, unless `config` says it.",
    )
    network_policy: NetworkPolicySpec = spec_field(
        Record(NetworkPolicySpec), "Who may connect to the coordinators.", default={}
    )
    replace_lost_replicas: bool = spec_field(
        Boolean(),
        "Whether the operator gives the place of a coordinator whose volume is gone to a new, empty one. false:"
        " condition VolumeLost says it, and nothing is done.",
        default=True,
    )
    peers: Peers = spec_field(Record(Peers), "How coordinators know each other.", default={})
    authorization: Authorization | None = spec_field(Record(Authorization), "What clients may do. Absent: everything.")
    oauth: Oauth | None = spec_field(
        Record(Oauth),
        "The identity provider whose tokens are taken by listeners of type oauthbearer. Absent: there is none.",
    )
    certificates: Certificates = spec_field(
        Record(Certificates), "The CAs that the operator keeps for the cluster.", default={}
    )
    admin: OwnPort = spec_field(
        Record(OwnPort), "The admin API, port 8081. Its callers need a token or a right of their own.", default={}
    )
    probes: OwnPort = spec_field(
        Record(OwnPort),
        "Probes and metrics, port 8080: everybody may read them. A monitor of theirs needs `scheme: https` too.",
        default={},
    )
    cluster_domain: str | None = spec_field(
        NAME,
        "DNS domain appended to addresses (cluster.local), for clients whose DNS search path lacks it.",
    )

    @property
    def founders(self) -> int:
        """Coordinators that form a cluster of this spec, and replicas of each of its Raft groups."""
        return self.replication_factor or max(one for one in REPLICATION_FACTORS if one <= self.replicas)

    @property
    def internal_listener(self) -> Listener:
        return next(item for item in self.listeners if item.type == "internal")

    @property
    def internal_listeners(self) -> tuple[Listener, ...]:
        return tuple(item for item in self.listeners if item.type == "internal")

    @property
    def has_cluster_ca(self) -> bool:
        """Some certificate is of the operator's CA of the cluster."""
        own_ports = self.admin.tls or self.probes.tls
        return own_ports or self.peers.security == TLS or any(item.own_certificate for item in self.listeners)

    @property
    def has_clients_ca(self) -> bool:
        """Some listener trusts certificates of the operator's CA of clients."""
        return any(
            item.authenticates_by == TLS and item.tls is not None and item.tls.trusted_secret_name is None
            for item in self.listeners
        )

    @property
    def passes_logins_on(self) -> KafkaStore | None:
        """The existing Kafka at which clients log in themselves."""
        kafka = None if self.topics is None else self.topics.kafka
        return kafka if kafka is not None and kafka.pass_logins_on else None

    @property
    def has_operator_user(self) -> bool:
        """The operator has a SCRAM user of its own in the cluster."""
        return self.passes_logins_on is None and any(item.scram is not None for item in self.listeners)

    @property
    def external_listeners(self) -> tuple[Listener, ...]:
        return tuple(item for item in self.listeners if item.type == "nodePort")


def parse_cluster(obj: Json) -> ClusterSpec:
    """The spec of a CoordinatorCluster as the API server returned it. Raises `InvalidObject`."""
    return parse_spec(obj, ClusterSpec, name_length_max=CLUSTER_NAME_LENGTH_MAX)
