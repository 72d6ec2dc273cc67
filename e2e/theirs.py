"""Workloads that somebody else made, of `e2e/consumer.py` pods: what a ConsumerGroup's `workloadRef` may name."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.fleet import CONSUMER, Cluster, until
from e2e.node.client import Client
from e2e.node.session import Description

SESSION_S = 45


@dataclass(slots=True, kw_only=True)
class Theirs:
    """A Deployment, StatefulSet or Rollout and the ConsumerGroup that refers to it, of one name."""

    cluster: Cluster
    client: Client
    image: str
    name: str
    kind: str = "Deployment"
    partitions: int = 6
    first_ordinal: int = 0
    strategy: Mapping[str, Any] = field(default_factory=dict)
    """Of a Rollout."""
    borrows: bool = False
    """A Rollout whose template is that of the Deployment of its name, which Argo scales to 0."""
    produced: list[str] = field(default_factory=list)

    def topics(self) -> "Theirs":
        self.cluster.create_topic("seen", 3)
        self.cluster.create_topic(self.name, self.partitions)
        return self

    def create(self, replicas: int) -> "Theirs":
        """Program and workload, as their owner applies them."""
        program = {"consumer.py": CONSUMER.read_text()}
        self.client.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e2e-consumer"}, "data": program},
            self.workload(replicas),
        )
        return self

    def workload(self, replicas: int) -> dict[str, Any]:
        labels = {"app": self.name}
        spec: dict[str, Any] = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": self._pod()},
        }
        if self.kind == "StatefulSet":
            spec |= {"serviceName": self.name, "podManagementPolicy": "Parallel"}
            spec |= {"ordinals": {"start": self.first_ordinal}} if self.first_ordinal else {}
        if self.kind == "Rollout":
            spec["strategy"] = self.strategy
        if self.borrows:
            lender = {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name, "scaleDown": "onsuccess"}
            spec = {"replicas": replicas, "strategy": self.strategy, "workloadRef": lender}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": self.name}, "spec": spec}

    @property
    def api_version(self) -> str:
        return "argoproj.io/v1alpha1" if self.kind == "Rollout" else "apps/v1"

    def _pod(self) -> dict[str, Any]:
        facts = {
            "KAFKA_GROUP_ID": self.name,
            "KAFKA_BOOTSTRAP_SERVERS": self.cluster.bootstrap,
            "KAFKA_TOPICS": self.name,
            "KAFKA_SESSION_TIMEOUT_MS": str(SESSION_S * 1_000),
            "KAFKA_HEARTBEAT_INTERVAL_MS": "1000",
        }
        env: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in facts.items()]
        if self.kind == "StatefulSet":
            env.append({"name": "INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
        return {
            "terminationGracePeriodSeconds": 10,
            "volumes": [{"name": "program", "configMap": {"name": "e2e-consumer"}}],
            "containers": [
                {
                    "name": "main",
                    "image": self.image,
                    "imagePullPolicy": "Never",
                    "command": ["python3", "/program/consumer.py"],
                    "env": env,
                    "volumeMounts": [{"name": "program", "mountPath": "/program", "readOnly": True}],
                }
            ],
        }

    def refer(self, **spec: Any) -> None:
        """The ConsumerGroup."""
        self.client.apply(
            {
                "apiVersion": "muster.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"name": self.name},
                "spec": {
                    "clusterRef": {"name": self.cluster.name},
                    "groupId": self.name,
                    "topics": [self.name],
                    "workloadRef": {"apiVersion": self.api_version, "kind": self.kind, "name": self.name},
                    **spec,
                },
            }
        )

    def read(self) -> dict[str, Any]:
        """The ConsumerGroup."""
        found: dict[str, Any] = self.client.read("consumergroup", self.name)
        return found

    def live(self) -> dict[str, Any]:
        """The workload, with what each manager owns."""
        found: dict[str, Any] = self.client.read(self.kind.lower(), self.name, "--show-managed-fields")
        return found

    def pods(self) -> dict[str, Mapping[str, Any]]:
        """Pod name → pod, terminating ones included."""
        found = self.client.read("pods", f"--selector=app={self.name}")["items"]
        return {one["metadata"]["name"]: one for one in found}

    def stable(self, members: int, seconds: float = 120.0) -> dict[str, Any]:
        """Wait until the coordinator has a Stable group of so many members; its words."""

        def holds() -> dict[str, Any] | None:
            truth = self.cluster.group(self.name)
            fine = truth.get("state") == "Stable" and len(truth["members"]) == members
            return truth if fine else None

        return until(f"Stable {self.name} of {members}", holds, seconds) or {}

    def ready_text(self, text: str, seconds: float = 60.0) -> None:
        until(f"READY {text}", lambda: self.read().get("status", {}).get("readyText") == text, seconds)

    def delete(self) -> None:
        """Object, workload, pods."""
        for what in (f"consumergroup/{self.name}", f"{self.kind.lower()}/{self.name}"):
            self.client.kubectl("delete", what, "--ignore-not-found")
        until(f"end of {self.name}'s pods", lambda: not self.pods(), 60)


def owned_leaves(live: Mapping[str, Any], manager: str) -> set[str]:
    """What a manager owns of an object, as paths of names."""

    def leaves(fields: Mapping[str, Any], path: str) -> set[str]:
        inner = {key.removeprefix("f:"): value for key, value in fields.items() if key != "."}
        if not inner:
            return {path}
        return {leaf for key, value in inner.items() for leaf in leaves(value, f"{path}.{key}".strip("."))}

    entries = [one for one in live["metadata"].get("managedFields", ()) if one["manager"] == manager]
    return {leaf for one in entries for leaf in leaves(one["fieldsV1"], "")}


@contextmanager
def workloads(cluster: Cluster, node: Description) -> Iterator[Callable[..., Theirs]]:
    """Makes some on one cluster: `(kind, name, *, client=None, ...)`; at the end they are deleted, last first."""
    made: list[Theirs] = []

    def make(kind: str, name: str, *, client: Client | None = None, **more: Any) -> Theirs:
        one = Theirs(
            cluster=cluster, client=client or cluster.client, image=node.demo_image, name=name, kind=kind, **more
        )
        made.append(one.topics())
        return one

    yield make
    for one in reversed(made):
        one.delete()
