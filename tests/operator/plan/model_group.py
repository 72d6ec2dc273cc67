"""A ConsumerGroup in Kubernetes as a model: its StatefulSet, pods, members that join, sessions that expire, commits.

Deterministic, as `model_cluster`: only `tick` and the test's own faults change anything, and the product sees it only
as `GroupWorld`. A tick is one second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_operator import naming
from muster_operator.api.group import parse_group
from muster_operator.drift import with_hash
from muster_operator.plan.actions import Action, Apply, DeleteChild, Plan, RemoveMembers, Scale
from muster_operator.plan.group import plan_group
from muster_operator.plan.settings import PlanSettings
from muster_operator.world.group import GroupWorld, MemberView, ObservedGroup, PartitionView
from muster_operator.world.views import OwnerView, PodView, ReferencedView, StatefulSetView, Unknown

SETTINGS = PlanSettings(operator_image="muster:1", operator_namespace="muster-system")
START_MS = 1_700_000_000_000
SESSION_TICKS = 45
PARTITIONS = 12
TICKS_TO_STOP = 3


@dataclass(slots=True)
class Pod:
    uid: str
    ip: str
    created_ms: int
    revision: str
    age: int = 0
    stopping: int | None = None
    cut_off: bool = False
    restarts: int = 0


@dataclass(slots=True)
class Member:
    member_id: str
    instance_id: str | None
    host: str
    silent_for: int = 0
    stranger: bool = False
    """Of another Kubernetes cluster, or of a StatefulSet of this name elsewhere."""


@dataclass
class ModelGroup:
    replicas: int = 3
    static: bool = True
    template: bool = True
    refers: bool = False
    """The StatefulSet is somebody else's, named by `workloadRef`."""
    now_ms: int = START_MS
    pods: dict[str, Pod] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    """By instance id, or member id of a dynamic member."""
    group_generation: int = 0
    live: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 1
    observed: int = 0
    reachable: bool = True
    knows_generation: bool = True
    paused: bool = False
    restarted_at: str | None = None
    log_end: int = 1_000
    committed: int | None = 1_000
    removed: list[tuple[int, str]] = field(default_factory=list)
    births: int = 0
    strangers: set[str] = field(default_factory=set)
    """Hosts from which strangers speak."""

    def __post_init__(self) -> None:
        if self.refers:
            metadata = {"name": "g", "uid": "sts-1", "generation": 1}
            self.live["StatefulSet", "g"] = {"metadata": metadata, "spec": {"replicas": self.replicas}}

    # What the product sees.

    def document(self) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "bootstrapServers": "kafka:9092", "groupId": "orders", "topics": ["orders"], "replicas": self.replicas,
            "staticMembership": self.static, "paused": self.paused,
        }  # fmt: skip
        if self.refers:
            spec["workloadRef"] = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "g"}
        elif self.template:
            spec["template"] = {"image": "consumer:1"}
        return {"metadata": {"name": "g"}, "spec": spec}

    def world(self) -> GroupWorld:
        owner = OwnerView(
            name="g", namespace="ns", uid="owner-1", generation=self.generation, resource_version="1", deleting=False,
            paused=False, restarted_at=self.restarted_at, status=self.status,
        )  # fmt: skip
        return GroupWorld(
            owner=owner, spec=parse_group(self.document()), bootstrap="kafka:9092", statefulset=self._statefulset(),
            children={} if self.refers else dict(self.live), group=self._group(), now_ms=self.now_ms,
            referenced=self._referenced(),
        )  # fmt: skip

    def _referenced(self) -> ReferencedView | None:
        seen = self._statefulset()
        if not self.refers or seen is None:
            return None
        return ReferencedView(
            api_version="apps/v1", kind="StatefulSet", name="g", uid="sts-1", generation=seen.generation,
            observed_generation=seen.observed_generation, replicas=seen.replicas, updated_replicas=seen.replicas,
            selector="app=g", restarted_at=None, pods=seen.pods,
        )  # fmt: skip

    def _statefulset(self) -> StatefulSetView | None:
        live = self.live.get(("StatefulSet", "g"))
        if live is None:
            return None
        return StatefulSetView(
            name="g", uid="sts-1", generation=live["metadata"]["generation"], observed_generation=self.observed,
            replicas=live["spec"]["replicas"], ready_replicas=0, current_revision="rev-1", update_revision="rev-1",
            template_hash="",
            pods=tuple(self._pod(name, pod) for name, pod in sorted(self.pods.items(), key=lambda x: ordinal(x[0]))),
        )  # fmt: skip

    def _pod(self, name: str, pod: Pod) -> PodView:
        ready = pod.age >= 2 and not pod.cut_off and pod.stopping is None
        return PodView(
            name=name, uid=pod.uid, ordinal=ordinal(name), revision=pod.revision, phase="Running", ready=ready,
            ready_since_ms=pod.created_ms if ready else None, terminating=pod.stopping is not None, node="node-1",
            waiting_reason=None, unschedulable=False, restarts=pod.restarts, pod_ip=pod.ip, annotations={},
            created_ms=pod.created_ms, unready_since_ms=None if ready else pod.created_ms,
        )  # fmt: skip

    def _group(self) -> ObservedGroup | Unknown:
        if not self.reachable:
            return Unknown(reason="Unreachable", message="no address answered")
        shares = self.assignment()
        return ObservedGroup(
            state="Stable" if self.members else "Empty",
            coordinator="0 (kafka:9092)",
            protocol_type="consumer",
            protocol="range",
            members=tuple(
                MemberView(
                    member_id=one.member_id, instance_id=one.instance_id, client_id="app", host=f"/{one.host}",
                    assignment=(("orders", shares[key]),),
                )
                for key, one in self.members.items()
            ),
            partitions=tuple(
                PartitionView(topic="orders", partition=number, committed=self.committed, log_end=self.log_end)
                for number in range(PARTITIONS)
            ),
            generation=self.group_generation if self.knows_generation else None,
            last_rebalance_ms=None,
            last_rebalance_reason=None,
        )  # fmt: skip

    def assignment(self) -> dict[str, tuple[int, ...]]:
        keys = sorted(self.members)
        return {key: tuple(range(index, PARTITIONS, len(keys))) for index, key in enumerate(keys)}

    # What the product does.

    def plan(self) -> Plan:
        return plan_group(self.world(), SETTINGS)

    def carry_out(self, plan: Plan, *, crash_after: int | None = None) -> None:
        for count, action in enumerate(plan.actions):
            if count == crash_after:
                return
            self.execute(action)
        if crash_after is None:
            self.status = plan.status

    def execute(self, action: Action) -> None:
        match action:
            case Scale():
                assert self.refers, "it is scaled by its manifest"
                live = self.live["StatefulSet", action.name]
                live["spec"]["replicas"] = action.replicas
                live["metadata"]["generation"] += 1
            case Apply() | DeleteChild() if self.refers:
                raise AssertionError("a workload of somebody else's was applied or deleted")
            case Apply():
                key = action.manifest["kind"], action.manifest["metadata"]["name"]
                before = self.live.get(key)
                stored = with_hash(action.manifest)
                generation = before["metadata"]["generation"] + 1 if before else 1
                metadata = {**stored["metadata"], "uid": f"uid-{key}", "generation": generation}
                self.live[key] = {**stored, "metadata": metadata}
            case DeleteChild():
                del self.live[action.kind, action.name]
            case RemoveMembers():
                for one in action.members:
                    instance, member = one.instance_id, self.members.get(one.instance_id)
                    assert instance not in self.pods, "a member was removed whose pod exists"
                    assert ordinal(instance) >= self.replicas, "a member was removed that is wanted"
                    stored = [(record["pod"], record.get("memberId")) for record in self.status["departing"]]
                    assert (instance, one.member_id) in stored, "a member was removed that was not recorded"
                    if member is not None and member.member_id == one.member_id:
                        assert not member.stranger, "a member was removed that never was in a pod of this object"
                        self.removed.append((self.now_ms, instance))
                        self._leave(instance)
            case _:
                raise AssertionError(action)

    # What happens by itself.

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.now_ms += 1_000
            self._controller()
            self._consumers()
            self._sessions()

    def _controller(self) -> None:
        live = self.live.get(("StatefulSet", "g"))
        wanted = live["spec"]["replicas"] if live else 0
        self.observed = live["metadata"]["generation"] if live else 0
        for name, pod in list(self.pods.items()):
            pod.age += 1
            if ordinal(name) >= wanted and pod.stopping is None:
                pod.stopping = TICKS_TO_STOP
            if pod.stopping is not None and not pod.cut_off:
                pod.stopping -= 1
                if pod.stopping <= 0:
                    del self.pods[name]
        for number in range(wanted):
            if f"g-{number}" not in self.pods:
                self.births += 1
                self.pods[f"g-{number}"] = Pod(
                    f"pod-{self.births}", f"10.0.{self.births // 250}.{self.births % 250}", self.now_ms, "rev-1"
                )

    def _consumers(self) -> None:
        """Every running pod is a member; a static one that is back takes its own place without a rebalance."""
        for name, pod in self.pods.items():
            if pod.age < 1 or pod.cut_off or not self.reachable:
                continue
            key = name if self.static else f"app-{pod.uid}"
            member = self.members.get(key)
            if member is None:
                self.members[key] = Member(f"{key}-{pod.uid}", name if self.static else None, pod.ip)
                self.group_generation += 1
            elif member.member_id != f"{key}-{pod.uid}" and member.host not in {one.ip for one in self.pods.values()}:
                self.members[key] = Member(f"{key}-{pod.uid}", name if self.static else None, pod.ip)

    def _sessions(self) -> None:
        alive = {pod.ip for pod in self.pods.values() if not pod.cut_off} | self.strangers
        for key, member in list(self.members.items()):
            member.silent_for = 0 if member.host in alive else member.silent_for + 1
            if self.reachable and member.silent_for > SESSION_TICKS:
                self._leave(key)

    def _leave(self, key: str) -> None:
        if self.members.pop(key, None) is not None:
            self.group_generation += 1

    # Faults and people.

    def scale(self, replicas: int) -> None:
        if replicas != self.replicas:
            self.replicas = replicas
            self.generation += 1

    def scale_by_hand(self, replicas: int) -> None:
        """Somebody else scales the StatefulSet itself."""
        live = self.live.get(("StatefulSet", "g"))
        if live is not None:
            live["spec"]["replicas"] = replicas
            live["metadata"]["generation"] += 1

    def delete(self, name: str) -> None:
        if name in self.pods and self.pods[name].stopping is None:
            self.pods[name].stopping = TICKS_TO_STOP

    def cut_off(self, name: str) -> None:
        if name in self.pods:
            self.pods[name].cut_off = True

    def join_from_elsewhere(self, name: str, *, host: str = "172.16.0.9") -> None:
        """Whoever comes with an instance id has it from then on; a member before it is fenced."""
        self.strangers.add(host)
        self.births += 1
        self.members[name] = Member(f"{name}-stranger-{self.births}", name, host, stranger=True)
        self.group_generation += 1

    def heal(self) -> None:
        self.reachable = True
        self.strangers.clear()
        for pod in self.pods.values():
            pod.cut_off = False


def ordinal(name: str) -> int:
    return naming.ordinal_of(name)
