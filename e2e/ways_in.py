"""One closed cluster, and three ways into it: from a machine outside through NodePorts, by a password or by a
certificate, and inside by Service and pods' names. All over TLS, and clients verify chain and host name on each.

`WaysIn` is the cluster with its users, and what a client of any family is set to on a way. Group coordination is one
pod's at a time (`offsetsPartitions: 1`), so that each group fails over when `away` takes that pod away. Not here: the
clients (`tests.clients.families`), and what is asked of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.fleet import Cluster, is_ready, until
from e2e.node import network
from e2e.node.client import Client
from e2e.test_secured_coordinators import SECURED, object_of, secret, secured
from tests.clients.families import certified

PARTITIONS = 3
BY_PASSWORD, BY_CERTIFICATE = 31_810, 31_820
LISTENERS: list[dict[str, Any]] = [
    *SECURED["listeners"],
    {
        "name": "by-password", "type": "nodePort", "port": 9095, "nodePortBase": BY_PASSWORD, "tls": {},
        "authentication": {"type": "scram-sha-512"},
    },
    {
        "name": "by-certificate", "type": "nodePort", "port": 9096, "nodePortBase": BY_CERTIFICATE, "tls": {},
        "authentication": {"type": "tls"},
    },
]  # fmt: skip
USERS = {"password": "scram-sha-512", "certificate": "tls"}
"""Name to how it shows who it is."""
BACK_S = 240.0


@dataclass(frozen=True, slots=True)
class Way:
    """Who comes, and whether from outside, through the NodePorts from `base` on."""

    name: str
    user: str
    base: int | None = None

    def machine(self, argv: Sequence[str]) -> list[str]:
        """On which clients run."""
        return list(argv) if self.base is None else network.outside(argv)


WAYS = {
    "password": Way("password", "password", BY_PASSWORD),
    "certificate": Way("certificate", "certificate", BY_CERTIFICATE),
    "inside": Way("inside", "password"),
}
TOPICS = {way: f"orders-{way}" for way in WAYS}
RIGHTS = [
    {"resource": {"type": kind, "name": "orders-", "patternType": "prefixed"}, "operations": operations}
    for kind, operations in (("topic", ["Read", "Write", "Describe"]), ("group", ["Read", "Describe"]))
]


class WaysIn:
    """Ready, with a topic a way and both users, whose Secrets are in `folder` as their owners have them."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder
        spec = {**SECURED, "offsetsPartitions": 1, "listeners": LISTENERS}
        self.cluster: Cluster = secured(client, folder, spec)
        client.apply(
            *(object_of("Topic", topic, partitions=PARTITIONS) for topic in TOPICS.values()),
            *(object_of("User", name, authentication={"type": how}, acls=RIGHTS) for name, how in USERS.items()),
        )
        for words in (*(f"mt/{topic}" for topic in TOPICS.values()), *(f"mu/{name}" for name in USERS)):
            client.kubectl("wait", "--for=condition=Ready", words, "--timeout=120s", timeout_s=130)
        self.ca = str(folder / "ca.crt")
        self.own = folder / "tls.crt", folder / "tls.key"
        for path in self.own:
            path.write_text(secret(client, "certificate", path.name))
        self.password = secret(client, "password", "password")
        status = self.cluster.read()["status"]["bootstrapServers"]
        self.bootstrap = {
            "password": status["external"],
            "certificate": secret(client, "certificate", "bootstrap.servers"),
            "inside": status["internal"],
        }
        """By way, as its user is told it: the status has the first listener outside, Secrets have the user's own."""

    def settings(self, way: Way, family: str, *, ca: str = "") -> dict[str, Any]:
        """Of a client on this way; `ca`: whom it believes, if not the cluster's authority."""
        where = {"bootstrap": self.bootstrap[way.name], "machine": way.machine}
        trust = ca or self.ca
        if way.user == "certificate":
            return {**where, **certified(family, trust, *self.own)}
        who = {"mechanism": "SCRAM-SHA-512", "user": way.user, "password": self.password}
        return {**where, "ca": trust, "sasl": who}

    def address(self, way: Way, ordinal: int) -> tuple[str, int]:
        """Where clients on this way reach a pod that is there."""
        status = self.cluster.pods()[f"{self.cluster.name}-{ordinal}"]["status"]
        return (status["podIP"], 9092) if way.base is None else (status["hostIP"], way.base + ordinal)

    def generation(self, group: str) -> int | None:
        return self.cluster.group(group).get("generation")

    @contextmanager
    def away(self, ordinal: int, *words: str) -> Iterator[None]:
        """A pod is deleted, with these words of kubectl's, and finds no node until the block ends."""
        pod = f"{self.cluster.name}-{ordinal}"
        uid = self.cluster.pods()[pod]["metadata"]["uid"]
        nodes = [one["metadata"]["name"] for one in self.client.read("nodes")["items"]]
        self.client.kubectl("cordon", *nodes)
        try:
            self.client.kubectl("delete", "pod", pod, "--wait=false", *words)

            def nowhere() -> bool:
                found = self.cluster.pods().get(pod)
                return found is not None and found["metadata"]["uid"] != uid and "nodeName" not in found["spec"]

            until(f"another {pod} that finds no node", nowhere, 120)
            yield
        finally:
            self.client.kubectl("uncordon", *nodes)

        def back() -> bool:
            return is_ready(self.cluster.pods()[pod])

        until(f"another {pod}", back, BACK_S)
        self.cluster.ready()
