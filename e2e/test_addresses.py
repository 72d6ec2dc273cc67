"""Where clients are sent: inside the cluster to exactly the advertised names, outside through the NodePort listener."""

import json
import socket
import subprocess
import sys
from typing import Any

import pytest

from e2e.fleet import Cluster, until
from e2e.node import network, paths
from e2e.node.client import Client
from e2e.node.session import Description
from tests.integration.second_client import SecondClient

pytestmark = pytest.mark.timeout(400)

BASE, PORT = 31_190, 9_094
LISTENERS = [
    {"name": "internal", "type": "internal", "port": 9092},
    {"name": "external", "type": "nodePort", "port": PORT, "advertisedHost": "$(NODE_IP)", "nodePortBase": BASE},
]
GROUPS = [f"group-{number}" for number in range(12)]


def told(host: str, port: int) -> tuple[set[tuple[int, str, int]], dict[str, tuple[int, str, int]]]:
    """(every broker, coordinator by group), as one broker answers Metadata and FindCoordinator."""
    client = SecondClient(port, host)
    try:
        metadata = client.ask("Metadata", 9, topics=None)
        brokers = {(one.node_id, one.host, one.port) for one in metadata.brokers}

        def coordinators() -> Any:
            answer = client.ask("FindCoordinator", 4, key_type=0, coordinator_keys=GROUPS)
            return answer.coordinators if all(one.error_code == 0 for one in answer.coordinators) else None

        found = until("coordinators", coordinators, 30)
        return brokers, {one.key: (one.node_id, one.host, one.port) for one in found}
    finally:
        client.close()


def test_every_pod_tells_the_advertised_names(shared: Cluster) -> None:
    """Each name leads through cluster DNS to the pod that it names, and every pod tells the same of every group."""
    expected = {(ordinal, shared.host(ordinal), 9092) for ordinal in range(3)}
    addresses = {name: pod["status"]["podIP"] for name, pod in shared.pods().items()}
    answers = {}
    for ordinal, host, port in sorted(expected):
        assert socket.gethostbyname(host) == addresses[f"{shared.name}-{ordinal}"]
        brokers, answers[ordinal] = told(host, port)
        assert brokers == expected
    assert answers[0] == answers[1] == answers[2]
    assert set(answers[0].values()) <= expected
    assert len(set(answers[0].values())) > 1, "groups are spread over coordinators"


def test_a_client_outside_consumes_and_commits_through_node_ports(
    operator: Client, namespace: Client, node: Description
) -> None:
    """It sees neither pods nor Services; what it is told is the address of a pod's node with the pod's port."""
    cluster = Cluster.create(namespace, replicas=3, listeners=LISTENERS).ready()
    hosts = [cluster.pods()[f"{cluster.name}-{ordinal}"]["status"]["hostIP"] for ordinal in range(3)]
    assert set(hosts) == set(node.nodes.values()), "one node each, where there are three"
    external = [f"{host}:{BASE + ordinal}" for ordinal, host in enumerate(hosts)]
    addresses = cluster.read()["status"]["bootstrapServers"]
    assert addresses == {"internal": cluster.bootstrap, "external": ",".join(external)}
    told_by_name = {one["name"]: one["bootstrapServers"] for one in cluster.read()["status"]["listeners"]}
    assert told_by_name == {"internal": cluster.bootstrap, "external": ",".join(external)}
    expected = {(ordinal, host, BASE + ordinal) for ordinal, host in enumerate(hosts)}
    for ordinal in range(3):
        brokers, coordinators = told(hosts[ordinal], BASE + ordinal)
        assert brokers == expected, "a listener tells the addresses of its own kind"
        assert set(coordinators.values()) <= expected
        assert told(cluster.host(ordinal), 9092)[0] == {(n, cluster.host(n), 9092) for n in range(3)}
    cluster.create_topic("orders", 6)
    values = sorted(f"order-{number}" for number in range(400))
    cluster.produce("orders", values)
    argv = [sys.executable, "-m", "e2e.outsider", addresses["external"], "orders", "abroad", str(len(values))]
    done = subprocess.run(
        network.outside(argv), cwd=paths.ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["brokers"] == {str(number): address for number, address in enumerate(external)}
    assert said["values"] == values
    assert said["committed"] == len(values)
    offsets = cluster.group("abroad")
    assert offsets["state"] in ("Stable", "Empty"), "the coordinators inside know the group"
