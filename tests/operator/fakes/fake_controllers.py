"""What Kubernetes' own controllers and a kubelet would do next, one step at a time, against a fake API server.

StatefulSets (Parallel; OnDelete and RollingUpdate by revision and partition), their claims and volumes, Deployments and
Rollouts (one more pod than wanted while they roll, one new pod a step; a Rollout's `restartAt` ends one pod at a time
and makes no ReplicaSet), pods that start and end, statuses. A revision is a hash of the pod template; `broken_images`
never become Ready.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from muster_operator import naming

from tests.operator.fakes.clocks import FakeClock
from tests.operator.fakes.fake_kube import FakeKube

Object = dict[str, Any]
RESTART_LOOK_MS = 30_000
"""Argo looks again whether the next pod can be restarted."""


class FakeControllers:
    def __init__(self, kube: FakeKube, clock: FakeClock) -> None:
        self._kube = kube
        self._clock = clock
        self.broken_images: set[str] = set()
        self.cut_off: set[str] = set()
        """Pods on a node that does not answer: they never finish terminating."""
        self.stays_out: Callable[[str], bool] = lambda pod: False
        """Pods whose readiness probe fails."""
        self._addresses = 0
        self._births = 0
        self._volumes = 0
        self._templates: dict[str, Object] = {}
        """Revision → pod template."""
        self._made_for: dict[str, str | None] = {}
        """Pod of a Deployment or Rollout → the restart that had been asked for when it was made."""
        self._restarts_next_ms = 0

    def step(self) -> None:
        """One round of every controller."""
        for (kind, _, name), live in list(self._kube.objects.items()):
            if kind == "Pod" and "deletionTimestamp" in live["metadata"] and name not in self.cut_off:
                self._kube.remove(*_key(live))
        pods = {name for kind, _, name in self._kube.objects if kind == "Pod"}
        for (kind, _, name), live in list(self._kube.objects.items()):
            ends = kind == "PersistentVolumeClaim" and "deletionTimestamp" in live["metadata"]
            if ends and name.partition("-")[2] not in pods:
                self._kube.remove(*_key(live))
        for (kind, _, name), live in list(self._kube.objects.items()):
            if kind == "Pod" and not live.get("status", {}).get("podIP"):
                self._start(live)
            elif kind == "Pod" and self._mountable(live) and self.stays_out(name) == self._ready(live):
                self._probe(live, ready=not self.stays_out(name))
        for (kind, _, _), live in list(self._kube.objects.items()):
            if kind == "StatefulSet":
                self._statefulset(live)
            if kind in ("Deployment", "Rollout"):
                self._deployment(live)

    def _statefulset(self, sts: Object) -> None:
        namespace, name = sts["metadata"]["namespace"], sts["metadata"]["name"]
        revision = f"{name}-{_hash(sts['spec']['template'])}"
        if revision not in self._templates:
            self._templates[revision] = json.loads(json.dumps(sts["spec"]["template"]))
        current = sts.get("status", {}).get("currentRevision", revision)
        strategy = sts["spec"].get("updateStrategy", {})
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        wanted = int(sts["spec"].get("replicas", 1))
        pods = {
            live["metadata"]["name"]: live
            for (kind, its_namespace, _), live in self._kube.objects.items()
            if kind == "Pod" and its_namespace == namespace and _owner(live) == sts["metadata"]["uid"]
        }
        for ordinal in range(wanted):
            pod = naming.pod_name(name, ordinal)
            if pod not in pods and self._claims(sts, pod):
                pods[pod] = self._create(sts, pod, revision if ordinal >= partition else current)
        for pod, live in list(pods.items()):
            if naming.ordinal_of(pod) >= wanted:
                self._kube._end(live)
        if strategy.get("type") == "RollingUpdate":
            self._roll(list(pods.values()), revision, partition)
        found = [one for one in pods.values() if _key(one) in self._kube.objects]
        ready = [one for one in found if self._ready(self._kube.objects[_key(one)])]
        if partition == 0 and all(one["metadata"]["labels"][naming.REVISION_LABEL] == revision for one in found):
            current = revision
        status = {
            "observedGeneration": sts["metadata"]["generation"],
            "replicas": len(found),
            "readyReplicas": len(ready),
            "updateRevision": revision,
            "currentRevision": current,
        }
        self._kube.edit(*_key(sts), lambda one: one.update(status=status))

    def _claims(self, sts: Object, pod: str) -> bool:
        """Make and bind a pod's claims. False: an old one has to go first."""
        namespace = sts["metadata"]["namespace"]
        for template in sts["spec"].get("volumeClaimTemplates") or ():
            name = f"{template['metadata']['name']}-{pod}"
            live = self._kube.objects.get(("PersistentVolumeClaim", namespace, name))
            if live is not None and "deletionTimestamp" in live["metadata"]:
                return False
            if live is None:
                self._volumes += 1
                if self._volumes == 1:
                    self._node()
                volume = f"pv-{self._volumes}"
                affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"]}]}]}}  # fmt: skip
                self._kube.put(
                    {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume, "namespace": ""},
                     "spec": {"nodeAffinity": affinity}}
                )  # fmt: skip
                self._kube.put(
                    {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                     "metadata": {"name": name, "namespace": namespace,
                                  "labels": dict(template["metadata"].get("labels") or {})},
                     "spec": {**template["spec"], "volumeName": volume}, "status": {"phase": "Bound"}}
                )  # fmt: skip
        return True

    def _node(self) -> None:
        labels = {"kubernetes.io/hostname": "host-1"}
        metadata = {"name": "node-1", "namespace": "", "labels": labels}
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        self._kube.put({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})

    def _mountable(self, pod: Object) -> bool:
        """Its claim's volume exists, or it has no claim."""
        claim = self._kube.objects.get(
            ("PersistentVolumeClaim", pod["metadata"]["namespace"], f"data-{pod['metadata']['name']}")
        )
        volume = None if claim is None else claim["spec"].get("volumeName")
        return volume is None or ("PersistentVolume", "", volume) in self._kube.objects

    def _deployment(self, live: Object) -> None:
        """One ReplicaSet for each template: the newest has the wanted number, one more than it while others go."""
        namespace, name = live["metadata"]["namespace"], live["metadata"]["name"]
        restart = live["spec"].get("restartAt")
        digest = _hash(live["spec"]["template"])
        owner = f"{name}-{digest}"
        wanted = int(live["spec"].get("replicas", 1))
        pods = [
            one
            for (kind, its_namespace, _), one in self._kube.objects.items()
            if kind == "Pod" and its_namespace == namespace and _controller_name(one).startswith(f"{name}-")
        ]
        fresh = [one for one in pods if _controller_name(one) == owner and "deletionTimestamp" not in one["metadata"]]
        old = [one for one in pods if _controller_name(one) != owner and "deletionTimestamp" not in one["metadata"]]
        for one in fresh[wanted:]:
            self._kube._end(one)
        if len(fresh) < wanted and len(fresh) + len(old) <= wanted:
            self._births += 1
            self._create_replica(live, f"{owner}-{self._births:05}", owner, digest)
            self._made_for[f"{owner}-{self._births:05}"] = restart
        elif old and all(self._ready(self._kube.objects.get(_key(one), one)) for one in fresh):
            self._kube._end(old[0])
        stale = [one for one in fresh if self._made_for[one["metadata"]["name"]] != restart]
        are_ready = len(fresh) == wanted and all(self._ready(self._kube.objects.get(_key(one), one)) for one in fresh)
        if stale and are_ready and self._clock.now_ms >= self._restarts_next_ms:
            self._kube._end(stale[0])
            self._restarts_next_ms = self._clock.now_ms + RESTART_LOOK_MS
        status = {
            "observedGeneration": live["metadata"]["generation"] if live["kind"] == "Deployment"
            else str(live["metadata"]["generation"]),
            "replicas": len(fresh) + len(old),
            "updatedReplicas": len(fresh[:wanted]),
            "readyReplicas": sum(self._ready(self._kube.objects.get(_key(one), one)) for one in [*fresh, *old]),
        }  # fmt: skip
        if restart is not None and not stale:
            status["restartedAt"] = restart
        self._kube.edit(*_key(live), lambda one: one.update(status={**one.get("status", {}), **status}))

    def _create_replica(self, live: Object, pod: str, owner: str, digest: str) -> None:
        template = json.loads(json.dumps(live["spec"]["template"]))
        label = "pod-template-hash" if live["kind"] == "Deployment" else "rollouts-pod-template-hash"
        self._kube.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": pod,
                    "namespace": live["metadata"]["namespace"],
                    "labels": {**template["metadata"].get("labels", {}), label: digest},
                    "annotations": dict(template["metadata"].get("annotations", {})),
                    "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"rs-{owner}",
                         "controller": True}
                    ],
                },
                "spec": {**template["spec"], "nodeName": "node-1"},
                "status": {"phase": "Pending"},
            }
        )  # fmt: skip

    def _roll(self, pods: list[Object], revision: str, partition: int) -> None:
        """One at a time, from the highest ordinal down to the partition."""
        if any(not self._ready(self._kube.objects.get(_key(one), one)) for one in pods):
            return
        outdated = [
            one
            for one in pods
            if one["metadata"]["labels"][naming.REVISION_LABEL] != revision
            and naming.ordinal_of(one["metadata"]["name"]) >= partition
        ]
        if outdated:
            self._kube._end(max(outdated, key=lambda one: naming.ordinal_of(one["metadata"]["name"])))

    def _create(self, sts: Object, pod: str, revision: str) -> Object:
        template = self._templates[revision]
        return self._kube.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": pod,
                    "creationTimestamp": _timestamp(self._clock.wall_ms()),
                    "namespace": sts["metadata"]["namespace"],
                    "labels": {**template["metadata"].get("labels", {}), naming.REVISION_LABEL: revision},
                    "annotations": dict(template["metadata"].get("annotations", {})),
                    "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": sts["metadata"]["name"],
                         "uid": sts["metadata"]["uid"], "controller": True}
                    ],
                },
                "spec": {**json.loads(json.dumps(template["spec"])), "nodeName": "node-1"},
                "status": {"phase": "Pending"},
            }
        )  # fmt: skip

    def _start(self, pod: Object) -> None:
        self._addresses += 1
        image = pod["spec"]["containers"][0]["image"]
        if not self._mountable(pod):
            return
        good = image not in self.broken_images
        now = _timestamp(self._clock.wall_ms() - 60_000)  # long enough ago for minReadySeconds
        status: Object = {
            "phase": "Running" if good else "Pending",
            "podIP": f"10.0.{self._addresses // 250}.{self._addresses % 250 + 1}",
            "hostIP": "192.168.0.1",
            "conditions": [{"type": "Ready", "status": "True" if good else "False", "lastTransitionTime": now}],
            "containerStatuses": [
                {"name": "main", "restartCount": 0,
                 "state": {"running": {}} if good else {"waiting": {"reason": "ImagePullBackOff"}}}
            ],
        }  # fmt: skip
        self._kube.edit(*_key(pod), lambda one: one.update(status=status))

    def _probe(self, pod: Object, *, ready: bool) -> None:
        if pod["spec"]["containers"][0]["image"] in self.broken_images or "deletionTimestamp" in pod["metadata"]:
            return
        now = _timestamp(self._clock.wall_ms() - (60_000 if ready else 0))
        told = [{"type": "Ready", "status": str(ready), "lastTransitionTime": now}]
        self._kube.edit(*_key(pod), lambda one: one["status"].update(conditions=told))

    def _ready(self, pod: Object) -> bool:
        conditions = pod.get("status", {}).get("conditions") or ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _key(live: Object) -> tuple[str, str, str]:
    return live["kind"], live["metadata"]["namespace"], live["metadata"]["name"]


def _owner(live: Object) -> str | None:
    return next((one["uid"] for one in live["metadata"].get("ownerReferences") or () if one.get("controller")), None)


def _controller_name(live: Object) -> str:
    found = (one["name"] for one in live["metadata"].get("ownerReferences") or () if one.get("controller"))
    return str(next(found, ""))


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def _timestamp(ms: int) -> str:
    from muster_operator.plan.conditions import timestamp

    return timestamp(ms)
