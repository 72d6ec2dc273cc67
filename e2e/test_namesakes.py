"""Members with the names of a ConsumerGroup's pods that it never ran: nobody of ours makes them leave.

`-3` to `-5` run on a machine outside of the cluster, `-6` to `-9` in a StatefulSet of the same name in another
namespace. Both are in the group of an object with a `template`, and in that of one with a `workloadRef`, while those
are scaled 3→1→3 and deleted. The truth is the coordinators' own log.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.fleet import Cluster, Group, throughout
from e2e.node import network, paths
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.theirs import Theirs

pytestmark = pytest.mark.timeout(700)

BASE, PORT = 31_290, 9_094
LISTENERS = [
    {"name": "internal", "type": "internal", "port": 9092},
    {"name": "external", "type": "nodePort", "port": PORT, "advertisedHost": "$(NODE_IP)", "nodePortBase": BASE},
]
OUTSIDE = range(3, 6)
ELSEWHERE = range(6, 10)
STRANGERS = len(OUTSIDE) + len(ELSEWHERE)
PARTITIONS = 12
CALM_S = 120.0
QUIET_S = 20.0
END_S = 30.0
GONE = ("member left", "member expelled")


@contextmanager
def outside(addresses: str, name: str) -> Iterator[None]:
    """Members of group `name` on the machine outside; none of them may be fenced until the end of the block."""
    words = [sys.executable, "-m", "e2e.outside_members", addresses, name, name]
    argv = network.outside([*words, *(f"{name}-{ordinal}" for ordinal in OUTSIDE)])
    with subprocess.Popen(
        argv, cwd=paths.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said == "joined\n", process.communicate(timeout=END_S)
            yield
            assert process.poll() is None, process.communicate(timeout=END_S)
            process.communicate(timeout=END_S)
            assert process.returncode == 0
        finally:
            process.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beset:
    """A group of ours with strangers in it."""

    ours: Group | Theirs
    strangers: dict[str, str]
    """Instance id → member id."""

    @classmethod
    def now(cls, ours: Group | Theirs) -> "Beset":
        wanted = {f"{ours.name}-{ordinal}" for ordinal in (*OUTSIDE, *ELSEWHERE)}
        found = {name: member for name, member in members(ours).items() if name in wanted}
        assert set(found) == wanted
        return cls(ours=ours, strangers=found)

    def check(self) -> None:
        found = members(self.ours)
        assert {name: found.get(name) for name in self.strangers} == self.strangers, "one had to join anew, or is gone"

    def generation(self) -> int:
        return int(self.ours.cluster.group(self.ours.name)["generation"])


def members(ours: Group | Theirs) -> dict[str, str]:
    """Instance id → member id, as the coordinator has them."""
    found = ours.cluster.group(ours.name).get("members", ())
    return {str(one["instance"]): str(one["member"]) for one in found}


def undisturbed(groups: list[Beset], seconds: float) -> None:
    """Nobody joins, leaves or is expelled for so long."""
    generations = {one.ours.name: one.generation() for one in groups}

    def check() -> None:
        for one in groups:
            one.check()
        assert {one.ours.name: one.generation() for one in groups} == generations

    throughout(time.monotonic() + seconds, check)


def gone(cluster: Cluster, group: str) -> dict[str, list[dict[str, Any]]]:
    """Instance id → what the coordinators logged of its leaves and expulsions."""
    found: dict[str, list[dict[str, Any]]] = {}
    for pod in cluster.pods():
        for line in cluster.client.kubectl("logs", pod).splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            message = str(event.get("message", ""))
            if message.startswith(GONE) and event.get("consumer_group") == group:
                assert "more of these" not in message, "events were summed up: this log does not tell all"
                found.setdefault(str(event["instance"]), []).append(event)
    return found


def test_nobody_leaves_whom_we_never_ran(
    operator: Client, namespace: Client, elsewhere: Client, node: Description
) -> None:
    cluster = Cluster.create(namespace, replicas=3, listeners=LISTENERS).ready()
    addresses = cluster.read()["status"]["bootstrapServers"]["external"]
    image = node.demo_image
    owned = Group(cluster=cluster, image=image, name="owned", partitions=PARTITIONS, session_s=45).create(3)
    referred = Theirs(
        cluster=cluster, client=namespace, image=image, name="referred", kind="StatefulSet", partitions=PARTITIONS
    ).topics()
    referred.create(3).refer(replicas=3)
    namesakes = [
        Theirs(
            cluster=cluster, client=elsewhere, image=image, name=name, kind="StatefulSet",
            first_ordinal=ELSEWHERE.start, partitions=PARTITIONS,
        ).create(len(ELSEWHERE))
        for name in ("owned", "referred")
    ]  # fmt: skip
    both = (owned, referred)
    with outside(addresses, "owned"), outside(addresses, "referred"):
        for one in both:
            one.stable(3 + STRANGERS, 180)
        groups = [Beset.now(one) for one in both]
        began_s = time.monotonic()
        for replicas in (1, 3):
            for one in both:
                namespace.kubectl("scale", f"cg/{one.name}", f"--replicas={replicas}")
            for one in both:
                one.stable(replicas + STRANGERS)
            undisturbed(groups, QUIET_S)
        for one in both:
            namespace.kubectl("delete", f"cg/{one.name}")
        owned.stable(STRANGERS)
        referred.stable(3 + STRANGERS)
        undisturbed(groups, max(QUIET_S, began_s + CALM_S - time.monotonic()))
        for one in groups:
            log = gone(cluster, one.ours.name)
            print(f"{one.ours.name}: left {sorted(log)}, generation {one.generation()}; {STRANGERS} strangers stay")
            assert {f"{one.ours.name}-1", f"{one.ours.name}-2"} <= set(log), "the log tells of those that we removed"
            assert set(one.strangers) & set(log) == set()
    for one in namesakes:
        assert len(one.pods()) == len(ELSEWHERE)
        one.client.kubectl("delete", "statefulset", one.name)
