"""An operator, a cluster and groups on the node, as tests see them: apply, wait, ask the truth.

The truth about a group is the coordinators' own admin API, never the status that is under test. All waits are bounded.
"""

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from e2e.node import paths
from e2e.node.client import Client, Refused
from e2e.node.session import Description

OPERATOR_NAMESPACE = "muster"
CLUSTER = "main"
READY_S = 180.0
SESSION_S = 20
"""Session timeout of a test's group: longer than a pod takes to come back on a busy machine."""
CONSUMER = Path(__file__).with_name("consumer.py")
ADMIN_TIMEOUT_S = 3.0


T = TypeVar("T")


def until(what: str, question: Callable[[], T], seconds: float, every: float = 0.25) -> T:
    """The first true answer. AssertionError with the last answer otherwise."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"no {what} within {seconds:.0f} s; last answer {answer!r}"
        time.sleep(every)


def throughout(until_s: float, check: Callable[[], None]) -> None:
    """Look every second until the monotonic clock says `until_s`; `check` asserts what must hold all the while."""
    while time.monotonic() < until_s:
        check()
        time.sleep(min(1.0, max(0.0, until_s - time.monotonic())))


def install_operator(node: Description, *words: str, wait: bool = True) -> Client:
    """The chart as a user installs it, with the image that is on the node; waits until it is Ready, if told to."""
    client = node.client(OPERATOR_NAMESPACE)
    repository, _, tag = node.muster_image.rpartition(":")
    values = {"image.repository": repository, "image.tag": tag}  # as in the README: neither install undoes the other
    sets = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    chart = str(paths.ROOT / "charts" / "muster")
    if not any("watchNamespaces" in word for word in words):
        words = ("--set=clusterWide=true", *words)
    waits = ("--wait", "--timeout=120s") if wait else ()
    client.helm("upgrade", "--install", "muster", chart, "--create-namespace", *sets, *words, *waits, timeout_s=140)
    return client


def condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition of an object, {} without."""
    found = obj.get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One CoordinatorCluster in the client's namespace."""

    client: Client
    name: str = CLUSTER
    replicas: int = 3
    tokens: list[str] = field(default_factory=list, compare=False, repr=False)
    """The admin token once it was read: reading it for every question would cost more than the question."""
    access: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """What clients of a secured cluster are set to, in librdkafka's words."""

    @classmethod
    def create(cls, client: Client, name: str = CLUSTER, **spec: Any) -> "Cluster":
        """Apply it; `ready` waits."""
        body = {"replicas": 3, "imagePullPolicy": "Never", "storage": {"size": "1Gi"}, **spec}
        client.apply(
            {
                "apiVersion": "muster.dev/v1alpha1",
                "kind": "CoordinatorCluster",
                "metadata": {"name": name},
                "spec": body,
            }
        )
        return cls(client=client, name=name, replicas=body["replicas"])

    def ready(self, seconds: float = READY_S) -> "Cluster":
        """Wait until the operator calls it Ready, for its newest generation."""

        def holds() -> bool:
            obj = self.read()
            seen = obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"]
            return seen and condition(obj, "Ready").get("status") == "True"

        until(f"Ready of {self.name}", holds, seconds)
        return self

    def read(self) -> dict[str, Any]:
        """The object as it is."""
        found: dict[str, Any] = self.client.read("coordinatorcluster", self.name)
        return found

    def pods(self) -> dict[str, dict[str, Any]]:
        """Pod name → pod."""
        found = self.client.read("pods", f"--selector={self.selector}")["items"]
        return {one["metadata"]["name"]: one for one in found}

    @property
    def selector(self) -> str:
        """Of its pods."""
        return f"app.kubernetes.io/component=coordinator,app.kubernetes.io/instance={self.name}"

    def host(self, ordinal: int) -> str:
        """The name under which a pod is advertised."""
        return f"{self.name}-{ordinal}.{self.name}-peers.{self.client.namespace}.svc"

    @property
    def bootstrap(self) -> str:
        """As the status tells it."""
        return f"{self.name}-bootstrap.{self.client.namespace}.svc:9092"

    def token(self) -> str:
        """The admin token, as an administrator may read it."""
        if not self.tokens:
            secret = self.client.read("secret", f"{self.name}-admin-token")
            self.tokens.append(base64.b64decode(secret["data"]["token"]).decode())
        return self.tokens[0]

    def admin(self, ordinal: int, path: str) -> tuple[int, dict[str, Any]]:
        """(status, body) of a GET on one pod's admin API; (0, {}) when it does not answer."""
        request = urllib.request.Request(f"http://{self.host(ordinal)}:8081{path}")
        request.add_header("Authorization", f"Bearer {self.token()}")
        try:
            with urllib.request.urlopen(request, timeout=ADMIN_TIMEOUT_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)
        except (OSError, ValueError):
            return 0, {}

    def group(self, group_id: str) -> dict[str, Any]:
        """What the group's coordinator says; {} when there is no such group. Waits for a coordinator."""
        _, status, body = self._ask_coordinator(group_id)
        return body if status == 200 else {}

    def coordinator(self, group_id: str) -> int:
        """The ordinal of the group's coordinator; waits for one."""
        return self._ask_coordinator(group_id)[0]

    def _ask_coordinator(self, group_id: str) -> tuple[int, int, dict[str, Any]]:
        """(ordinal, status, body): only the coordinator says 200 or 404."""

        def ask() -> tuple[int, int, dict[str, Any]] | None:
            for ordinal in range(self.replicas):
                status, body = self.admin(ordinal, f"/v1/groups/{group_id}")
                if status in (200, 404):
                    return ordinal, status, body
            return None

        return until(f"coordinator of {group_id}", ask, 30)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create it unless it is there, and wait until every partition has a leader."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **self.access})
        try:
            admin.create_topics([NewTopic(name, partitions, -1)], operation_timeout=20)[name].result(25)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

        def led() -> bool:
            topic = admin.list_topics(name, timeout=10).topics[name]
            return len(topic.partitions) == partitions and all(p.leader >= 0 for p in topic.partitions.values())

        until(f"leaders of {name}", led, 30)

    def produce(self, topic: str, values: list[str]) -> None:
        """Every record acknowledged, or an AssertionError."""
        failed: list[str] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for value in values:
            producer.produce(
                topic, value=value, key=value, on_delivery=lambda e, _: failed.append(str(e)) if e else None
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not failed, failed[:3]

    def records(self, topic: str) -> Iterator[tuple[str, str]]:
        """(key, value) of everything in a topic now."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "e2e-reader", "enable.auto.commit": False}
        )
        try:
            partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
            left = {}
            for index in partitions:
                low, high = _offsets(consumer, TopicPartition(topic, index))
                if high > low:
                    left[index] = high
            consumer.assign([TopicPartition(topic, index, 0) for index in left])
            deadline = time.monotonic() + 60
            while left:
                assert time.monotonic() < deadline, f"{topic} could not be read to its end"
                for message in consumer.consume(1_000, 0.5):
                    error = message.error()
                    assert error is None or error.code() == KafkaError._PARTITION_EOF, error
                    yield (message.key() or b"").decode(), message.value().decode()
                    if message.offset() + 1 >= left.get(message.partition(), 0):
                        left.pop(message.partition(), None)
        finally:
            consumer.close()


MOVED = (
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError._RESOLVE, KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
)  # fmt: skip
"""The last: of a question that librdkafka keeps for a connection to the one that has gone."""


def _offsets(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """First and end offset. The client does not ask again by itself when the leader has just moved, or has just gone
    with its name."""

    def ask() -> tuple[int, int] | None:
        try:
            return consumer.get_watermark_offsets(partition, timeout=5)
        except KafkaException as refusal:
            if refusal.args[0].code() not in MOVED:
                raise
            return None

    found = until(f"leader of {partition.topic}-{partition.partition}", ask, 60)
    assert found is not None
    return found


@dataclass(slots=True, kw_only=True)
class Group:
    """One ConsumerGroup of `e2e/consumer.py` pods, with a topic of its own."""

    cluster: Cluster
    image: str
    name: str
    partitions: int = 6
    session_s: int = SESSION_S
    static: bool = True
    spec: dict[str, Any] = field(default_factory=dict)
    produced: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return self.cluster.client

    def create(self, replicas: int = 3) -> "Group":
        """Topic, program and object."""
        self.cluster.create_topic("seen", 3)
        self.cluster.create_topic(self.name, self.partitions)
        program = {"consumer.py": CONSUMER.read_text()}
        self.client.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e2e-consumer"}, "data": program},
            self.manifest(replicas),
        )
        return self

    def manifest(self, replicas: int, **template: Any) -> dict[str, Any]:
        """The object; `template` on top of its pod template."""
        return {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": self.name},
            "spec": {
                "clusterRef": {"name": self.cluster.name},
                "groupId": self.name,
                "topics": [self.name],
                "replicas": replicas,
                "staticMembership": self.static,
                "session": {"timeoutSeconds": self.session_s, "heartbeatIntervalSeconds": 1},
                "template": {
                    "image": self.image,
                    "imagePullPolicy": "Never",
                    "command": ["python3", "/program/consumer.py"],
                    "terminationGracePeriodSeconds": 10,
                    "volumes": [{"name": "program", "configMap": {"name": "e2e-consumer"}}],
                    "volumeMounts": [{"name": "program", "mountPath": "/program", "readOnly": True}],
                    **template,
                },
                **self.spec,
            },
        }

    def read(self) -> dict[str, Any]:
        """The object as it is."""
        found: dict[str, Any] = self.client.read("consumergroup", self.name)
        return found

    def truth(self) -> dict[str, Any]:
        """The coordinator's own words."""
        return self.cluster.group(self.name)

    def generation(self) -> int:
        """Of a group that exists."""
        return int(self.truth()["generation"])

    def stable(self, members: int, seconds: float = 90.0) -> int:
        """Wait until the coordinator has a Stable group of so many members that own everything; its generation."""
        return self.stable_at(members, seconds)[0]

    def stable_at(self, members: int, seconds: float = 90.0) -> tuple[int, float]:
        """As `stable`, with the time (`time.monotonic`) at which it was seen."""

        def holds() -> dict[str, Any] | None:
            truth = self.truth()
            if truth.get("state") != "Stable" or len(truth["members"]) != members:
                return None
            owned = sum(len(one["partitions"]) for m in truth["members"] for one in m.get("assignment") or ())
            return truth if owned == self.partitions else None

        generation = int(until(f"Stable {self.name} of {members}", holds, seconds, every=0.1)["generation"])
        return generation, time.monotonic()

    def produce(self, count: int) -> None:
        """More records, with values that were never used before."""
        values = [f"{self.name}-{len(self.produced) + i}" for i in range(count)]
        self.cluster.produce(self.name, values)
        self.produced += values

    def all_seen(self, seconds: float = 60.0) -> None:
        """Wait until every record that was produced was consumed by somebody."""

        def missing() -> set[str]:
            seen = {json.loads(value)[4] for key, value in self.cluster.records("seen") if key == self.name}
            return set(self.produced) - seen

        until(f"consumption of every record of {self.name}", lambda: not missing(), seconds, every=1.0)

    def pods(self) -> dict[str, dict[str, Any]]:
        """Pod name → pod, terminating ones included."""
        found = self.client.read("pods", f"--selector={self.selector}")["items"]
        return {one["metadata"]["name"]: one for one in found}

    @property
    def selector(self) -> str:
        """Of its pods."""
        return f"app.kubernetes.io/component=consumer,app.kubernetes.io/instance={self.name}"

    def replaced(self, before: Mapping[str, Mapping[str, Any]], seconds: float = 120.0) -> None:
        """Wait until every pod is another one than in `before`, and Ready."""

        def holds() -> bool:
            now = self.pods()
            return now.keys() == before.keys() and all(
                pod["metadata"]["uid"] != before[name]["metadata"]["uid"] and is_ready(pod) for name, pod in now.items()
            )

        until(f"new pods of {self.name}", holds, seconds)

    def delete(self) -> None:
        """Object and pods; waits until the pods are gone, so that the next test has the machine."""
        try:
            self.client.kubectl("delete", "consumergroup", self.name, "--ignore-not-found")
        except Refused:
            return
        until(f"end of {self.name}'s pods", lambda: not self.pods(), 60)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is Ready and stays."""
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
