"""For every CEL rule of both kinds an object that it refuses, and for every transition rule an update.

Two suites use it: the unit tests here hold the rules' Python twins against it, `e2e/test_crds.py` a real API server.
Both fail when a rule has no example.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster_operator.api.crd import root_schema
from muster_operator.api.kinds import CONSUMER_GROUP, COORDINATOR_CLUSTER, TOPIC, USER, Kind
from muster_operator.naming import API_VERSION

Spec = Mapping[str, Any]
GOOD: Mapping[str, Spec] = {
    "CoordinatorCluster": {},
    "ConsumerGroup": {"groupId": "billing", "topics": ["orders"], "clusterRef": {"name": "main"}},
    "Topic": {"clusterRef": {"name": "main"}},
    "User": {"clusterRef": {"name": "main"}},
}
TEMPLATE = {"image": "consumer:1"}
INTERNAL = {"name": "internal", "type": "internal", "port": 9092}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    kind: Kind
    says: str
    """How the rule's message begins; exactly one rule has it."""
    spec: Spec
    """Refused, over `GOOD`."""
    old: Spec | None = None
    """Stored before, over `GOOD`: the example is an update."""
    name: str = "example"
    parsed: bool = False
    """The parser takes it: objects that were stored before the rule are worked with as before."""

    def manifest(self, spec: Spec, *, name: str | None = None) -> dict[str, Any]:
        kind = self.kind.kind
        metadata = {"name": name or self.name}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": {**GOOD[kind], **spec}}

    @property
    def refused(self) -> dict[str, Any]:
        return self.manifest(self.spec)


def _cc(says: str, spec: Spec, *, old: Spec | None = None, name: str = "example") -> Example:
    return Example(kind=COORDINATOR_CLUSTER, says=says, spec=spec, old=old, name=name)


def _cg(says: str, spec: Spec, *, old: Spec | None = None, name: str = "example", parsed: bool = False) -> Example:
    return Example(kind=CONSUMER_GROUP, says=says, spec=spec, old=old, name=name, parsed=parsed)


def _mt(says: str, spec: Spec, *, old: Spec | None = None, name: str = "example", parsed: bool = False) -> Example:
    return Example(kind=TOPIC, says=says, spec=spec, old=old, name=name, parsed=parsed)


def _mu(says: str, spec: Spec, *, old: Spec | None = None) -> Example:
    return Example(kind=USER, says=says, spec=spec, old=old)


def _acl(**resource: Any) -> Spec:
    return {"acls": [{"resource": resource, "operations": ["Read"]}]}


SIDECAR = {"name": "logs", "image": "logs:1"}
CLAIM = {"name": "state", "size": "1Gi"}
WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "orders"}


SENTINELS = {"sentinels": {"addresses": "s-0:26379,s-1:26379"}}
KAFKA = {"bootstrapServers": "kafka-0:9092,kafka-1:9092"}
KAFKA_LOGIN = {"type": "scram-sha-512", "secret": {"name": "kafka-login"}}
ASKING = {**INTERNAL, "authentication": {"type": "scram-sha-512"}}
CERTIFIED = {"name": "certified", "tls": {}, "authentication": {"type": "tls"}}
BY_PASSWORD = {"authentication": {"type": "scram-sha-512"}}
TOKENS = {"name": "tokens", "port": 9095, "tls": {}, "authentication": {"type": "oauthbearer"}}
PROVIDER = {
    "validIssuerUri": "https://login.example.com/realms/shop",
    "jwksEndpointUri": "https://login.example.com/realms/shop/certs",
    "audiences": ["muster"],
}


def _beside(kafka: Spec | None = None, *, topics: Spec | None = None) -> Spec:
    return {"topics": {"mode": "kafka", "kafka": {**KAFKA, **(kafka or {})}, **(topics or {})}}


def _listeners(*others: Spec) -> Spec:
    return {"listeners": [INTERNAL, *others]}


def _template(**fields: Any) -> Spec:
    return {"template": {**TEMPLATE, **fields}}


def _external(**fields: Any) -> Spec:
    return {"name": "outside", "type": "nodePort", "port": 9094, "nodePortBase": 31090, **fields}


def _elsewhere(addresses: str) -> Spec:
    return {"clusterRef": None, "bootstrapServers": addresses, "template": TEMPLATE}


PROBLEM_VOLUME = {"name": "both", "emptyDir": {}, "secret": {"secretName": "s"}}

CEL_EXAMPLES: tuple[Example, ...] = (
    # Names.
    _cc("`metadata.name` may have at most 40", {}, name="c" * 41),
    _cc("`metadata.name` must be letters", {}, name="1st"),
    _cc("`metadata.name` must be letters", {}, name="a.b"),
    _cg("`metadata.name` may have at most 52", {}, name="g" * 53),
    _cg("`metadata.name` must be letters", {}, name="7up"),
    # CoordinatorCluster.
    _cc("`replicationFactor` must be 1, 3 or 5", {"replicas": 5, "replicationFactor": 4}),
    _cc("`replicationFactor` must be 1, 3 or 5", {"replicationFactor": 2}),
    _cc("`replicationFactor` may not be above `replicas`", {"replicas": 4, "replicationFactor": 5}),
    _cc("`replicationFactor` may not be above `replicas`", {"replicas": 2, "replicationFactor": 3}),
    _cc("`replicas` may not be above 10 with a `nodePort` listener", {"replicas": 11, **_listeners(_external())}),
    _cc("`version` may only be set", {"version": "0.1.0"}),
    _cc("`offsetsPartitions` may not change", {"offsetsPartitions": 51}, old={}),
    _cc("`offsetsPartitions` may not change", {}, old={"offsetsPartitions": 7}),
    _cc("`size` must be at least 1Gi", {"storage": {"size": "1000Mi"}}),
    _cc("`size` may only grow", {"storage": {"size": "9Gi"}}, old={}),
    _cc("`size` may only grow", {"storage": {"size": "10G"}}, old={"storage": {"size": "10Gi"}}),
    _cc(
        "`storageClassName` may not change",
        {"storage": {"storageClassName": "slow"}},
        old={"storage": {"storageClassName": "fast"}},
    ),
    _cc("`storageClassName` may not change", {"storage": {}}, old={"storage": {"storageClassName": "fast"}}),
    _cc("`storageClassName` may not change", {"storage": {"storageClassName": "fast"}}, old={"storage": {}}),
    _cc("`listeners` must hold one of type `internal`", {"listeners": [_external()]}),
    _cc("`authentication` of type `tls` must have", {"listeners": [{**INTERNAL, "authentication": {"type": "tls"}}]}),
    _cc(
        "`authentication` of type `oauthbearer` must have",
        {"listeners": [ASKING, {key: TOKENS[key] for key in TOKENS if key != "tls"}], "oauth": PROVIDER},
    ),
    _cc("`oauth` with `jwksEndpointUri` must be set", {"listeners": [ASKING, TOKENS]}),
    _cc("`oauth` with `jwksEndpointUri` must be set", {"listeners": [ASKING, TOKENS], "oauth": {}}),
    _cc("an internal listener with SCRAM must be", {"listeners": [TOKENS], "oauth": PROVIDER}),
    _cc(
        "an internal listener with SCRAM must be",
        {"listeners": [TOKENS, {**CERTIFIED, "port": 9096}, _external(**BY_PASSWORD)], "oauth": PROVIDER},
    ),
    *(
        _cc("`validIssuerUri`, `jwksEndpointUri` and `audiences` must", {"oauth": {key: PROVIDER[key]}})
        for key in ("validIssuerUri", "jwksEndpointUri", "audiences")
    ),
    *(
        _cc(
            "`validIssuerUri`, `jwksEndpointUri` and `audiences` must",
            {"oauth": {key: value for key, value in PROVIDER.items() if key != lacking}},
        )
        for lacking in ("validIssuerUri", "audiences", "jwksEndpointUri")
    ),
    _cc("`trustedSecretName` may only be set beside `jwks", {"oauth": {"trustedSecretName": "provider-ca"}}),
    *(
        _cc("settings with `sasl.oauthbearer.` may not", {"oauth": PROVIDER, "config": {key: "x"}})
        for key in ("sasl.oauthbearer.clock.skew.seconds", "muster.sasl.oauthbearer.jwks.ca.file")
    ),
    _cc(
        "`trustedSecretName` may only be set with",
        {"listeners": [{**INTERNAL, "tls": {"trustedSecretName": "ca"}, "authentication": {"type": "scram-sha-512"}}]},
    ),
    _cc("`trustedSecretName` may only be set with", {"listeners": [{**INTERNAL, "tls": {"trustedSecretName": "ca"}}]}),
    _cc(
        "`tls` may have a `secretName` or an `issuerRef`",
        {"listeners": [{**INTERNAL, "tls": {"secretName": "mine", "issuerRef": {"name": "ca"}}}]},
    ),
    _cc(
        "`alternativeNames` may not be set beside",
        {"listeners": [{**INTERNAL, "tls": {"secretName": "mine", "alternativeNames": ["k.example.com"]}}]},
    ),
    _cc("`authorization` must have a listener", {"authorization": {"type": "simple"}}),
    _cc(
        "`authorization` must have a listener",
        {"listeners": [{**INTERNAL, "authentication": {"type": "none"}}], "authorization": {"type": "simple"}},
    ),
    _cc("`port` must differ between listeners", _listeners(_external(port=9092))),
    _cc("`nodePortBase` must differ between listeners", _listeners(_external(), _external(name="more", port=9095))),
    _cc(
        "`nodePortBase` must be set for type `nodePort`",
        _listeners({"name": "outside", "type": "nodePort", "port": 9094}),
    ),
    _cc("`nodePortBase` and `advertisedHost` may only be set", {"listeners": [{**INTERNAL, "nodePortBase": 31000}]}),
    _cc(
        "`nodePortBase` and `advertisedHost` may only be set",
        {"listeners": [{**INTERNAL, "advertisedHost": "a.example"}]},
    ),
    _cc("`nodePortBase` must be divisible by 10", _listeners(_external(nodePortBase=31095))),
    _cc("`name` may not be `peer`", _listeners(_external(name="peer"))),
    _cc("`name` may not be `peer`", _listeners(_external(name="admin"))),
    _cc("`port` may not be 8080", _listeners(_external(port=8081))),
    _cc("`port` may not be 8080", _listeners(_external(port=9093))),
    _cc("`config` may not hold settings", {"config": {"node.id": 7}}),
    _cc("`config` may not hold settings", {"config": {"advertised.listeners": "PLAINTEXT://evil:9092"}}),
    _cc("keys of `config` must be lower-case", {"config": {"Log.Dirs": "/x"}}),
    _cc("keys of `config` must be lower-case", {"config": {"a=b\nnode.id": "1"}}),
    _cc("a client must be either an `ipBlock`", {"networkPolicy": {"clients": [{}]}}),
    _cc(
        "a client must be either an `ipBlock`",
        {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]}},
    ),
    _cc(
        "keys may not start with `app.kubernetes.io/` or", {"podTemplate": {"labels": {"app.kubernetes.io/name": "x"}}}
    ),
    _cc("keys may not start with `muster.dev/`", {"podTemplate": {"annotations": {"muster.dev/config-hash": "x"}}}),
    _cc("`mode` redis must have `redis`", {"topics": {"mode": "redis"}}),
    _cc("`redis` may not be set with `mode` none", {"topics": {"mode": "none", "redis": {"url": "redis://r:6379"}}}),
    _cc("`redis` may not be set with `mode` none", _beside(topics={"redis": {"url": "redis://r:6379"}})),
    _cc("`kafka` must be set with `mode` kafka", {"topics": {"mode": "kafka"}}),
    _cc("`kafka` must be set with `mode` kafka", {"topics": {"kafka": KAFKA}}),
    _cc("`kafka` must be set with `mode` kafka", {"topics": {"mode": "none", "kafka": KAFKA}}),
    _cc(
        "`tls` must be set with `authentication` of type plain",
        {**_beside({"authentication": {"type": "plain", "secret": {"name": "s"}}}), "listeners": [ASKING]},
    ),
    _cc("`authentication` must be set with `passLoginsOn`", {**_beside({"passLoginsOn": True}), "listeners": [ASKING]}),
    *(
        _cc(
            "`listeners` must all ask for SCRAM or a token with",
            {
                **_beside({"authentication": {**KAFKA_LOGIN, "type": login}, "passLoginsOn": True, "tls": {}}),
                **listeners,
            },
        )
        for login, listeners in (
            ("scram-sha-512", {"listeners": [ASKING, {**CERTIFIED, "port": 9095}]}),
            ("scram-sha-256", {"listeners": [ASKING]}),
            ("plain", {"listeners": [ASKING]}),
        )
    ),
    _cc(
        "`topics.kafka.tls` must be set with `passLoginsOn`",
        {**_beside({"authentication": KAFKA_LOGIN, "passLoginsOn": True}), "listeners": [ASKING, TOKENS]},
    ),
    _cc("`listeners` may only be of type `internal` beside", {**_beside(), **_listeners(_external())}),
    _cc("`listeners` must all have `authentication`", _beside({"authentication": KAFKA_LOGIN})),
    _cc(
        "`listeners` must all have `authentication`",
        {
            **_beside({"authentication": KAFKA_LOGIN}),
            "listeners": [ASKING, {"name": "open", "port": 9095, "authentication": {"type": "none"}}],
        },
    ),
    _cc("`listeners` must all have `authentication`", _beside({"tls": {"certificateSecretName": "client"}})),
    _cc("`tls` may only be set with a `url`", {"topics": {"redis": {"url": "redis://r:6379", "tls": {}}}}),
    *(
        _cc("`url` must be redis://NAME/DB beside `sentinels`", {"topics": {"redis": {"url": url, **SENTINELS}}})
        for url in ("redis://r:6379", "rediss://[fd00::1]/0", "rediss://[fd00::1]:6379")
    ),
    _cc("`url` must be redis://cluster", {"topics": {"redis": {"url": "redis://r:6379", "clusterNodes": "r:6379"}}}),
    _cc(
        "`clusterNodes` and `sentinels` may not",
        {"topics": {"redis": {"url": "redis://cluster", "clusterNodes": "r:6379", **SENTINELS}}},
    ),
    _cc(
        "`waitReplicas` may only be set",
        {"topics": {"mode": "redis", "redis": {"url": "redis://r:6379", "durability": "aof", "waitReplicas": 2}}},
    ),
    _cc(
        "`waitReplicas` may only be set",
        {"topics": {"mode": "redis", "redis": {"url": "redis://r", "waitReplicas": 2}}},
    ),
    _cc("`config` may not hold `topics.mode`", {"topics": {}, "config": {"topics.mode": "none"}}),
    _cc("`config` may not hold `topics.mode`", {"topics": {}, "config": {"upstream.node.ids": "0-8"}}),
    _cc("`config` may not hold `topics.mode`", {**_beside(), "config": {"upstream.ssl.key.password": "x"}}),
    _cc(
        "`config` may not hold `topics.mode`",
        {"topics": {"mode": "redis", "redis": {"url": "redis://r"}}, "config": {"redis.password": "x"}},
    ),
    # Topic and User.
    *(
        one
        for make in (_mt, _mu)
        for one in (
            make("exactly one of `clusterRef` and `bootstrapServers`", {"bootstrapServers": "kafka:9092"}),
            make("exactly one of `clusterRef` and `bootstrapServers`", {"clusterRef": None}),
            make("`clusterRef` may not change", {"clusterRef": {"name": "other"}}, old={}),
            make("`clusterRef` may not change", {"clusterRef": None, "bootstrapServers": "a:1"}, old={}),
            make(
                "`bootstrapServers` must keep one",
                {"clusterRef": None, "bootstrapServers": "b:1,c:1"},
                old={"clusterRef": None, "bootstrapServers": "a:1,a:2"},
            ),
            make("`tls` must be set with this `login`", {"login": {"type": "plain", "secret": {"name": "s"}}}),
            make("`tls` must be set with this `login`", {"login": {"type": "oauthbearer", "secret": {"name": "s"}}}),
        )
    ),
    _mt("`topicName` may not change", {"topicName": "b"}, old={"topicName": "a"}),
    _mt("`topicName` may not change", {"topicName": "b"}, old={}),
    _mt("`topicName` may not change", {}, old={"topicName": "a"}),
    _mt("`topicName` must be set if", {}, name="t" * 250, parsed=True),
    _mt("keys of `configs` must be Kafka's names", {"configs": {"Retention.ms": "1"}}),
    _mt("keys of `configs` must be Kafka's names", {"configs": {"a\nb": "1"}}),
    _mu("`userName` may not change", {"userName": "b"}, old={"userName": "a"}),
    _mu("`userName` may not change", {}, old={"userName": "a"}),
    *(
        _mu(
            "`passwordSecret` may only be set with SCRAM",
            {"authentication": {"type": type_, "passwordSecret": {"name": "s"}}},
        )
        for type_ in ("tls", "oauthbearer")
    ),
    _mu("`name` must be set for every `type`", _acl(type="topic")),
    _mu("`name` must be set for every `type`", _acl(type="cluster", name="kafka-cluster")),
    _mu("`patternType` may only be literal", _acl(type="cluster", patternType="prefixed")),
    # ConsumerGroup.
    _cg("exactly one of `clusterRef` and `bootstrapServers`", {"bootstrapServers": "kafka:9092"}),
    _cg("exactly one of `clusterRef` and `bootstrapServers`", {"clusterRef": None}),
    _cg("`groupId` may not change", {"groupId": "other"}, old={}),
    _cg(
        "`clusterRef` may not change",
        {"template": TEMPLATE, "clusterRef": {"name": "other"}},
        old={"template": TEMPLATE},
    ),
    _cg("`clusterRef` may not change", {"template": TEMPLATE, "clusterRef": {"name": "other"}}, old={}),
    _cg("`clusterRef` may not change", {"clusterRef": {"name": "other"}}, old={"template": TEMPLATE}),
    _cg("`bootstrapServers` must keep one", _elsewhere("b:1,c:1"), old=_elsewhere("a:1,a:2")),
    _cg("`bootstrapServers` must keep one", _elsewhere("a:10"), old=_elsewhere("a:1")),
    _cg("`bootstrapServers` must keep one", {**_elsewhere("b:1"), "template": None}, old=_elsewhere("a:1")),
    _cg("`bootstrapServers` must keep one", _elsewhere("b:1"), old={**_elsewhere("a:1"), "template": None}),
    _cg("at most one of `template` and `workloadRef`", {"template": TEMPLATE, "workloadRef": WORKLOAD}),
    _cg("`replicas` may only be set with", {"replicas": 2}, parsed=True),
    _cg("`replicas` may only be set with", {"replicas": 0}, parsed=True),
    _cg("`replicas` may not be set, nor stay", {"replicas": 2}, old={}),
    _cg("`replicas` may not be set, nor stay", {"replicas": 2}, old={"replicas": 2, "template": TEMPLATE}),
    _cg("`replicas` may not be set, nor stay", {"replicas": 2}, old={"replicas": 2, "workloadRef": WORKLOAD}),
    _cg("`replicas` may not be set, nor stay", {"replicas": 2}, old={"template": TEMPLATE}),
    _cg("`apiVersion` must be argoproj.io/v1alpha1", {"workloadRef": {**WORKLOAD, "kind": "Rollout"}}),
    _cg(
        "`apiVersion` must be argoproj.io/v1alpha1", {"workloadRef": {**WORKLOAD, "apiVersion": "argoproj.io/v1alpha1"}}
    ),
    _cg(
        "`workloadRef` may not change",
        {"workloadRef": {**WORKLOAD, "name": "other"}},
        old={"workloadRef": WORKLOAD},
    ),
    _cg(
        "`workloadRef` may not change",
        {"workloadRef": {**WORKLOAD, "kind": "StatefulSet"}},
        old={"workloadRef": WORKLOAD},
    ),
    _cg("`workloadRef` may not change", {"workloadRef": WORKLOAD}, old={"template": TEMPLATE}),
    _cg("`workloadRef` may not change", {"template": TEMPLATE}, old={"workloadRef": WORKLOAD}),
    _cg("`tls` must be set with this `authentication`", {"authentication": {"type": "plain", "secret": {"name": "s"}}}),
    _cg("`tls` must be set with this `authentication`", {"authentication": {"type": "tls", "secret": {"name": "s"}}}),
    _cg(
        "`volumes` may not have names that begin",
        {"tls": {}, **_template(volumes=[{"name": "muster-client-ca", "emptyDir": {}}])},
    ),
    _cg("`heartbeatIntervalSeconds` may be at most a third", {"session": {"heartbeatIntervalSeconds": 16}}),
    _cg("`heartbeatIntervalSeconds` may be at most a third", {"session": {"timeoutSeconds": 8}}),
    _cg("`maxPollIntervalSeconds` must be at least", {"session": {"maxPollIntervalSeconds": 44}}),
    _cg("`env` may not set the group's own variables", _template(env=[{"name": "KAFKA_GROUP_ID", "value": "x"}])),
    _cg(
        "`env` may not set the group's own variables",
        _template(env=[{"name": "SPRING_KAFKA_PROPERTIES_GROUP_INSTANCE_ID", "value": "x"}]),
    ),
    _cg(
        "each of `volumeMounts` must name one of `volumes`",
        _template(volumeMounts=[{"name": "data", "mountPath": "/d"}]),
    ),
    _cg(
        "each of `volumeMounts` must name one of `volumes`",
        _template(sidecars=[{**SIDECAR, "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]),
    ),
    _cg(
        "each of `volumeMounts` must name one of `volumes`",
        _template(initContainers=[{**SIDECAR, "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]),
    ),
    _cg(
        "`name` may not be that of one of `volumes` and",
        _template(volumes=[{"name": "state", "emptyDir": {}}], volumeClaimTemplates=[CLAIM]),
    ),
    _cg(
        "`name` may not be that of one of `initContainers` and", _template(initContainers=[SIDECAR], sidecars=[SIDECAR])
    ),
    _cg("`name` may not be `consumer`", _template(sidecars=[{**SIDECAR, "name": "consumer"}])),
    _cg("`name` may not be `consumer`", _template(initContainers=[{**SIDECAR, "name": "consumer"}])),
    _cg(
        "`lifecycle` and probes of one of `initContainers`",
        _template(initContainers=[{**SIDECAR, "readinessProbe": {"tcpSocket": {"port": 1}}}]),
    ),
    _cg("a hook of `lifecycle` must be exactly one", _template(lifecycle={"preStop": {}})),
    _cg(
        "a hook of `lifecycle` must be exactly one",
        _template(
            sidecars=[{**SIDECAR, "lifecycle": {"postStart": {"sleep": {"seconds": 1}, "exec": {"command": []}}}}]
        ),
    ),
    _cg(
        "each of `sources` must be exactly one",
        _template(volumes=[{"name": "a", "projected": {"sources": [{}]}}]),
    ),
    _cg(
        "`volumeClaimTemplates` may not change",
        _template(volumeClaimTemplates=[{**CLAIM, "size": "2Gi"}]),
        old=_template(volumeClaimTemplates=[CLAIM]),
    ),
    _cg(
        "`volumeClaimTemplates` may not change",
        _template(volumeClaimTemplates=[{**CLAIM, "storageClassName": "fast"}]),
        old=_template(volumeClaimTemplates=[CLAIM]),
    ),
    _cg("`volumeClaimTemplates` may not change", _template(volumeClaimTemplates=[CLAIM]), old=_template()),
    _cg("`volumeClaimTemplates` may not change", _template(), old=_template(volumeClaimTemplates=[CLAIM])),
    _cg("a volume must have exactly one source", _template(volumes=[PROBLEM_VOLUME])),
    _cg(
        "a volume must have exactly one source",
        _template(
            volumes=[{"name": "a", "csi": {"driver": "d"}, "projected": {"sources": [{"secret": {"name": "s"}}]}}]
        ),
    ),
    _cg("a volume must have exactly one source", _template(volumes=[{"name": "none"}])),
    _cg("`valueFrom` must name exactly one source", _template(env=[{"name": "A", "valueFrom": {}}])),
    _cg("a probe must be exactly one of", _template(readinessProbe={"periodSeconds": 5})),
    _cg("a probe must be exactly one of", _template(livenessProbe={"tcpSocket": {"port": 1}, "httpGet": {"port": 1}})),
    _cg("keys may not start with `app.kubernetes.io/` or", _template(labels={"muster.dev/x": "y"})),
    _cg("keys may not start with `muster.dev/`", _template(annotations={"muster.dev/restarted-at": "now"})),
)


def rules_of(kind: Kind) -> Iterator[tuple[str, str]]:
    """(rule, message) of every CEL rule in the kind's schema, found by walking the generated schema."""

    def walk(node: Any) -> Iterator[tuple[str, str]]:
        if isinstance(node, dict):
            for rule in node.get("x-kubernetes-validations", ()):
                yield rule["rule"], rule["message"]
            for item in node.values():
                yield from walk(item)
        elif isinstance(node, list):
            for item in node:
                yield from walk(item)

    yield from walk(root_schema(kind))
