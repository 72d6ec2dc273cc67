"""From the chart and images of an earlier release to these, with clusters and groups that live on; and back again.

Before all other tests: nobody else has a release then, and each of these needs a node of its own from `helm install` of
the earlier one on. What it leaves is a node without anything of ours. The earlier release is in `tests/releases`.
"""

import importlib.metadata
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from e2e import releases
from e2e.commit_load import committing
from e2e.conftest import missing
from e2e.fleet import Cluster, Group, condition, is_ready, until
from e2e.node import paths
from e2e.node.client import Client, Refused
from e2e.node.errors import Unavailable
from e2e.node.session import Description
from e2e.test_users_and_topics import ready, resource
from e2e.theirs import Theirs
from e2e.watching import PodWatch, watching

pytestmark = [pytest.mark.first, pytest.mark.timeout(1_200)]

EARLIER = "7d8ab59"
BEFORE = "3f79dd0"
"""The release before this one: 0.2.0."""
CHART = paths.ROOT / "charts" / "muster"
RELEASE, OPERATORS = "earlier", "earlier-release"
DEPLOYMENT = f"deployment/{RELEASE}-muster-operator"
ROLLED_S = 400.0
SESSION_S = 90
STILL_THERE_S = SESSION_S - 15
GONE_S = SESSION_S + 30
DELAY_S = 30.0
"""`clusterRolloutDelaySeconds`, as the chart has it."""
FEW = 5
"""Partitions of the offsets topic: clusters are started and restarted often here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The earlier release, cluster-wide."""

    client: Client
    node: Description
    earlier: releases.Release

    def back_to(self, *words: str) -> None:
        """Its own chart."""
        self._helm("upgrade", str(self.earlier.chart), self.earlier.image, *words)

    def upgrade(self) -> None:
        """This chart and these images, as a user does it."""
        self._helm("upgrade", str(CHART), self.node.muster_image)

    def install(self, *words: str) -> "Installed":
        self._helm("install", str(self.earlier.chart), self.earlier.image, "--create-namespace", *words)
        return self

    def _helm(self, verb: str, chart: str, image: str, *words: str) -> None:
        repository, _, tag = image.rpartition(":")
        sets = [f"--set=image.repository={repository}", f"--set=image.tag={tag}", *words]
        self.client.helm(verb, RELEASE, chart, *sets, "--wait", "--timeout=120s", timeout_s=140)

    def serves_everything(self) -> bool:
        """By a binding that gives it every namespace."""
        found = self.client.read("clusterrolebindings", "--selector=app.kubernetes.io/name=muster-operator")["items"]
        account = {"kind": "ServiceAccount", "name": f"{RELEASE}-muster-operator", "namespace": OPERATORS}
        return [one["subjects"] for one in found] == [[account]]


@pytest.fixture
def installed(request: pytest.FixtureRequest, bare: Client, node: Description) -> Installed:
    """Of the release that the test names, else of `EARLIER`, which served every namespace without being told to."""
    commit = getattr(request, "param", EARLIER)
    try:
        earlier = releases.at(commit, node)
    except Unavailable as reason:
        missing("releases", str(reason))
    words = () if commit == EARLIER else ("--set=clusterWide=true",)
    return Installed(client=bare.within(OPERATORS), node=node, earlier=earlier).install(*words)


def runs(cluster: Cluster, image: str) -> bool:
    """Whether every coordinator is Ready with that image."""
    pods = cluster.pods().values()
    return len(pods) == cluster.replicas and all(
        is_ready(pod) and pod["spec"]["containers"][0]["image"] == image for pod in pods
    )


def uids(group: Group) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in group.pods().items()}


def test_an_earlier_release_is_upgraded_and_rolled_back(
    installed: Installed, namespace: Client, elsewhere: Client, node: Description
) -> None:
    """0 generation changes of consumers and of clients that commit; nobody is expelled; what was begun is finished."""
    earlier, now = installed.earlier.image, node.muster_image
    cluster = Cluster.create(namespace, offsetsPartitions=FEW).ready()
    pinned = Cluster.create(namespace, "pinned", replicas=1, image=earlier, offsetsPartitions=FEW).ready()
    kept = Group(cluster=cluster, image=node.demo_image, name="kept", session_s=45).create(2)
    cut_short = Group(cluster=pinned, image=node.demo_image, name="cut-short", session_s=SESSION_S).create(3)
    namespace.apply(breaks_a_new_rule(cluster))
    kept.stable(2)
    cut_short.stable(3)

    # No operator: the earlier one expels whom it never ran, and would finish what is to be cut short.
    installed.back_to("--set=replicas=0")
    until("end of the earlier operator", lambda: not installed.client.read("pods")["items"], 90)
    strangers = Theirs(
        cluster=cluster, client=elsewhere, image=node.demo_image, name="kept", kind="StatefulSet", first_ordinal=3
    ).create(2)
    generation, pods = kept.stable(4, 120), uids(kept)
    namespace.kubectl("patch", "cg", "cut-short", "--type=merge", '--patch={"spec":{"replicas":1}}')
    namespace.kubectl("scale", "statefulset/cut-short", "--replicas=1")
    until("end of two pods", lambda: set(cut_short.pods()) == {"cut-short-0"}, 60)
    ended_s = time.monotonic()

    with committing(cluster, "load-upgrade") as load:
        installed.upgrade()
        until("a look of this operator", lambda: condition(cut_short.read(), "Ready").get("observedGeneration"), 60)
        print(f"this operator has looked {time.monotonic() - ended_s:.0f} s after the pods' end")
        while time.monotonic() < ended_s + STILL_THERE_S:
            assert len(cut_short.truth()["members"]) == 3, "members of whom nothing is recorded were removed"
            time.sleep(1)
        cut_short.stable(1, GONE_S - STILL_THERE_S)
        print(f"the scale-down that was cut short was done {time.monotonic() - ended_s:.0f} s after the pods' end")
        until("every coordinator with this image", lambda: runs(cluster, now), ROLLED_S)
        cluster.ready()
        load.check()
    assert kept.stable(4) == generation
    assert uids(kept) == pods, "consumers are not touched"
    assert cluster.read()["status"]["version"] == importlib.metadata.version("muster")
    assert runs(pinned, earlier)
    assert installed.serves_everything()
    stays_editable(namespace)

    strangers.client.kubectl("delete", "statefulset/kept")
    generation = kept.stable(2, 120)
    with committing(cluster, "load-rollback") as load:
        installed.client.helm("rollback", RELEASE, "1", "--wait", "--timeout=120s", timeout_s=140)
        until("every coordinator with the earlier image", lambda: runs(cluster, earlier), ROLLED_S)
        cluster.ready()
        load.check()
    assert kept.stable(2) == generation
    assert installed.serves_everything()
    namespace.kubectl("scale", "cg/kept", "--replicas=3")
    kept.stable(3)


LISTENERS = [
    {"name": "plain", "type": "internal", "port": 9092},
    {"name": "secure", "type": "internal", "port": 9094, "tls": {}, "authentication": {"type": "scram-sha-512"}},
]


OF_MAIN: dict[str, Any] = {"clusterRef": {"name": "main"}}


@pytest.mark.parametrize("installed", [BEFORE], indirect=True)
def test_the_release_before_is_upgraded_and_rolled_back(
    installed: Installed, namespace: Client, node: Description
) -> None:
    """With what it has and the one before it had not: TLS, users and topics. 0 generation changes, no password and no
    authority anew, and each of the two operators goes on with what the other one has left."""
    earlier, now = installed.earlier.image, node.muster_image
    cluster = Cluster.create(namespace, offsetsPartitions=FEW, listeners=LISTENERS).ready()
    namespace.apply(resource("Topic", "orders", **OF_MAIN, partitions=2), resource("User", "billing", **OF_MAIN))
    kinds = (("Topic", "orders"), ("User", "billing"))
    for kind, name in kinds:
        until(f"{kind} {name}", lambda kind=kind, name=name: ready(namespace, kind, name), 120)
    kept = Group(cluster=cluster, image=node.demo_image, name="kept", session_s=45).create(2)
    generation, pods = kept.stable(2, 120), uids(kept)

    def secrets() -> list[dict[str, str]]:
        return [namespace.read("secret", name)["data"] for name in ("billing", "main-cluster-ca-cert")]

    secret = secrets()
    for way, image in (("upgrade", now), ("rollback", earlier)):
        with committing(cluster, f"load-{way}") as load:
            if way == "upgrade":
                installed.upgrade()
            else:
                installed.client.helm("rollback", RELEASE, "1", "--wait", "--timeout=120s", timeout_s=140)
            until(f"every coordinator after the {way}", lambda image=image: runs(cluster, image), ROLLED_S)
            cluster.ready()
            load.check()
        assert kept.stable(2) == generation, way
        assert uids(kept) == pods, "consumers are not touched"
        assert secrets() == secret, way
        wanted = 3 if way == "upgrade" else 4
        namespace.kubectl(
            "patch", "topics.muster.dev", "orders", "--type=merge", f'--patch={{"spec":{{"partitions":{wanted}}}}}'
        )
        for kind, name in kinds:
            until(f"{kind} {name}, {way}", lambda kind=kind, name=name: ready(namespace, kind, name), 120)
        assert installed.serves_everything()
    namespace.kubectl("scale", "cg/kept", "--replicas=3")
    kept.stable(3)
    # The operator's finalizers: without it they would hold the definitions, which the next test wants gone.
    namespace.kubectl("delete", "topics.muster.dev,users.muster.dev", "--all")


def breaks_a_new_rule(cluster: Cluster) -> dict[str, Any]:
    """`replicas` where there is nothing to scale."""
    spec = {"clusterRef": {"name": cluster.name}, "groupId": "odd", "topics": ["kept"], "replicas": 4}
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "ConsumerGroup", "metadata": {"name": "odd"}, "spec": spec}


def stays_editable(namespace: Client) -> None:
    """An object that could not be made today."""
    namespace.kubectl("label", "cg/odd", "tier=gold")
    namespace.kubectl("patch", "cg", "odd", "--type=merge", '--patch={"spec":{"topics":["kept","kept-too"]}}')
    with pytest.raises(Refused, match="`replicas`"):
        namespace.kubectl("patch", "cg", "odd", "--type=merge", '--patch={"spec":{"replicas":5}}')
    wanted = namespace.read("cg", "odd")["metadata"]["generation"]

    def observed() -> bool:
        return bool(namespace.read("cg", "odd")["status"].get("observedGeneration") == wanted)

    until("a look at the edited object", observed, 60)
    namespace.kubectl("patch", "cg", "odd", "--type=json", '--patch=[{"op":"remove","path":"/spec/replicas"}]')


def window(pods: PodWatch, image: str) -> tuple[float, float]:
    """(when the first pod was told to stop, when all were Ready with `image`)."""
    began_s = min(pods.stopped().values())
    for event, there in pods.views():
        images = [pod["spec"]["containers"][0]["image"] for pod in there.values() if is_ready(pod)]
        if event.at_s > began_s and images == [image] * 3:
            return began_s, event.at_s
    raise AssertionError("they were never all Ready with the new image")


def test_three_clusters_are_upgraded_one_after_the_other(
    installed: Installed, namespace: Client, node: Description
) -> None:
    """Under load, by nothing but the upgrade of the chart: no commit fails."""
    resources = {"requests": {"cpu": "50m", "memory": "128Mi"}}  # nine of them on one small node
    clusters = [
        Cluster.create(namespace, name, offsetsPartitions=FEW, resources=resources) for name in ("one", "two", "three")
    ]
    for cluster in clusters:
        cluster.ready()
    with ExitStack() as stack:
        loads = [stack.enter_context(committing(cluster, f"load-{cluster.name}")) for cluster in clusters]
        watches = {one.name: stack.enter_context(watching(namespace, one.selector)) for one in clusters}
        installed.upgrade()
        for cluster in clusters:
            until(f"{cluster.name} with this image", lambda one=cluster: runs(one, node.muster_image), 3 * ROLLED_S)
            cluster.ready()
        for load in loads:
            load.check()
    windows = {name: window(pods, node.muster_image) for name, pods in watches.items()}
    inorder = sorted(windows.items(), key=lambda one: one[1])
    begin_s = inorder[0][1][0]
    for name, (began_s, ended_s) in inorder:
        print(f"{name}: {began_s - begin_s:.0f} s to {ended_s - begin_s:.0f} s")
    for (_, (_, ended_s)), (name, (began_s, _)) in pairwise(inorder):
        assert began_s - ended_s >= DELAY_S - 1, f"{name} began before the one before it had been done for so long"
    assert [pods.unavailable_max(3) for pods in watches.values()] == [1, 1, 1]
