"""`spec.topics` on a node: topics of a CoordinatorCluster in a Redis beside it, which ends under consumers.

Redis asks for a password and has its file on a volume that outlives its container. What is consumed, committed and told
as lag is Redis' own count.
"""

import json

import pytest

from e2e.fleet import Cluster, Group, condition, until
from e2e.node.client import Client
from e2e.node.session import Description

pytestmark = pytest.mark.timeout(600)
PASSWORD = "canary-of-redis"
REDIS = "redis"
PARTITIONS = 3


@pytest.fixture
def redis(namespace: Client, node: Description) -> Client:
    """The namespace, with a Redis in it."""
    labels = {"app": REDIS}
    namespace.apply(
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "redis-password"},
            "stringData": {"password": PASSWORD},
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": REDIS},
            "spec": {"selector": labels, "ports": [{"port": 6379}]},
        },
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": REDIS, "labels": labels},
            "spec": {
                "securityContext": {"fsGroup": 10001},
                "volumes": [{"name": "data", "emptyDir": {}}],
                "containers": [
                    {
                        "name": REDIS, "image": node.redis_image, "imagePullPolicy": "Never",
                        "args": [
                            "--dir", "/data", "--appendonly", "yes", "--appendfsync", "always", "--bind", "0.0.0.0",
                            "--requirepass", "$(PASSWORD)",
                        ],
                        "env": [
                            {
                                "name": "PASSWORD",
                                "valueFrom": {"secretKeyRef": {"name": "redis-password", "key": "password"}},
                            }
                        ],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
                    }
                ],
            },
        },
    )  # fmt: skip
    namespace.kubectl("wait", "--for=condition=Ready", "--timeout=60s", f"pod/{REDIS}")
    return namespace


def asked(client: Client, *command: str) -> str:
    """What Redis says."""
    return client.kubectl("exec", REDIS, "--", "redis-cli", "--no-auth-warning", "-a", PASSWORD, *command).strip()


def entries(client: Client, topic: str) -> int:
    return sum(int(asked(client, "XLEN", f"muster:{{{topic}:{number}}}")) for number in range(PARTITIONS))


def restarts(client: Client) -> int:
    return int(client.read("pod", REDIS)["status"]["containerStatuses"][0]["restartCount"])


def test_topics_of_a_cluster_are_in_redis_and_live_through_its_end(
    operator: Client, redis: Client, node: Description
) -> None:
    store = {
        "url": f"redis://{REDIS}:6379/0",
        "durability": "aof",
        "authentication": {"passwordSecretName": "redis-password"},
    }
    cluster = Cluster.create(redis, topics={"mode": "redis", "redis": store}).ready()
    group = Group(cluster=cluster, image=node.demo_image, name="in-redis", partitions=PARTITIONS, session_s=45)
    group.create(2)
    generation = group.stable(2)
    group.produce(300)
    group.all_seen()
    assert entries(redis, "in-redis") == 300

    before = restarts(redis)
    asked(redis, "SHUTDOWN", "NOSAVE", "NOW")
    until("another Redis", lambda: restarts(redis) > before, 60)
    redis.kubectl("wait", "--for=condition=Ready", "--timeout=60s", f"pod/{REDIS}")
    group.produce(200)
    group.all_seen()
    assert entries(redis, "in-redis") == 500
    assert group.generation() == generation, "members stay while Redis is away"

    until("no lag", lambda: lag(group) == (0, "0", "exact"), 120, every=1.0)
    redis.kubectl("patch", "consumergroup", group.name, "--type=merge", '--patch={"spec":{"replicas":0}}')
    until("nobody consumes", lambda: not group.pods(), 120)
    group.produce(7)
    until("a lag of seven records", lambda: lag(group) == (7, "7", "exact"), 180, every=1.0)
    said = json.loads(redis.plugin("lag", f"cg/{group.name}", "-o", "json"))
    assert {row["records_quality"] for row in said} == {"exact"}
    assert sum(row["records"] for row in said) == 7
    assert condition(cluster.read(), "Ready")["status"] == "True"


def lag(group: Group) -> tuple[int | None, str | None, str | None]:
    status = group.read().get("status", {})
    return status.get("lag"), status.get("lagText"), status.get("lagQuality")
