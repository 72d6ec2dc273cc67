"""200 ConsumerGroups of a real cluster that nobody uses, on an API server of their own, observed by a real operator.

The operator's account is a service account with the shipped role, hence the API server's audit log holds whatever it
asks. How long it is looked at: `idle_measure`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from e2e.audit import USER, Audit
from e2e.node import paths, session
from e2e.node.client import Client
from e2e.operator_process import OperatorProcess, install_crds, observing, operator_process
from tests.cluster import MusterCluster

GROUPS = 200
COMMITTED = 20
"""Groups that exist because somebody committed once; nobody ever used the others."""
TOPIC, PARTITIONS = "orders", 3
NAMESPACE = "muster"
ACCOUNT = "muster-operator"
RULES = paths.ROOT / "charts" / "muster" / "files" / "rules.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFleet:
    client: Client
    operator: OperatorProcess
    audit: Audit

    def converged_s(self) -> float | None:
        """When the last of the groups got its first status, since the epoch; None before."""
        first: dict[str, float] = {}
        for one in self.audit.asked():
            if one.resource == "consumergroups/status" and one.code < 300:
                first.setdefault(one.name, one.at_s)
        return max(first.values()) if len(first) == GROUPS else None

    def statuses(self) -> list[dict[str, Any]]:
        return [one.get("status", {}) for one in self.client.read("cg", timeout_s=60)["items"]]


@contextmanager
def idle_fleet(folder: Path) -> Iterator[IdleFleet]:
    """Everything started; the first passes are under way."""
    plane = session.api_only(folder / "api")
    try:
        with MusterCluster(folder / "muster", replicas=1, partitions=4) as cluster:
            prepare(cluster.bootstrap)
            admin = Client(tools=plane.tools, kubeconfig=plane.kubeconfig)
            install_crds(admin)
            client = admin.within(NAMESPACE)
            client.kubectl("create", "namespace", NAMESPACE)
            client.apply(*account())
            client.apply(*(observing(f"g{number}", cluster.bootstrap) for number in range(GROUPS)), timeout_s=120)
            audit = Audit(path=plane.audit_log, begin=0)
            acting = Client(tools=plane.tools, kubeconfig=kubeconfig(client, folder), namespace=NAMESPACE)
            with operator_process(acting, folder / "operator.log", f"--own-namespace={NAMESPACE}") as operator:
                yield IdleFleet(client=client, operator=operator, audit=audit)
    finally:
        plane.stop()


def prepare(bootstrap: str) -> None:
    """The topic, and commits of the groups that exist."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, -1)], operation_timeout=20)[TOPIC].result(25)
    for number in range(COMMITTED):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"g{number}", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)], asynchronous=False)
        consumer.close()


def account() -> list[dict[str, Any]]:
    """The operator's account with the shipped role, the Lease's right among it."""
    rbac = "rbac.authorization.k8s.io"
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
        {
            "apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT},
            "rules": [*yaml.safe_load(RULES.read_text()), lease],
        },
        {
            "apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        },
    ]  # fmt: skip


def kubeconfig(client: Client, folder: Path) -> Path:
    """Credentials of that account for the same server."""
    assert f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}" == USER
    token = client.kubectl("create", "token", ACCOUNT, "--duration=4h").strip()
    found = json.loads(client.kubectl("config", "view", "--raw", "--flatten", "--output=json"))
    for user in found["users"]:
        user["user"] = {"token": token}
    path = folder / "operator.kubeconfig"
    path.write_text(json.dumps(found))
    path.chmod(0o600)
    return path


def moment(at_s: float) -> str:
    """For messages."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")
