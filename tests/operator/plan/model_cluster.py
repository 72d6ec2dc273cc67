"""A CoordinatorCluster in Kubernetes as a model: pods, revisions, Raft groups, leaders that move, a kubelet, a
controller.

It is deterministic: everything that happens is asked for by the test (`tick`, and the faults). It shows itself to the
product only as `ClusterWorld`, and takes only the product's actions. The truth that tests judge by (`leads`,
`majority_without`) is read from the model itself, never from the views.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from muster_operator import naming
from muster_operator.api.cluster import ClusterSpec, parse_cluster
from muster_operator.drift import with_hash
from muster_operator.plan.actions import (
    Action,
    Apply,
    Decommission,
    DeleteChild,
    DeleteClaim,
    DeletePod,
    Drain,
    EnsureSecret,
    EvictPod,
    Plan,
    RaiseReplication,
    ReplaceReplica,
    Undrain,
)
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.settings import PlanSettings
from muster_operator.plan.volume_records import Look, looks
from muster_operator.world.cluster import ClusterWorld, MovesView, RaftGroupView, ReplicationView, ReplicaView
from muster_operator.world.views import OwnerView, PodView, StatefulSetView, Unknown
from muster_operator.world.volumes import StorageView

from tests.operator.plan.model_volumes import Volumes

TICK_MS = 2_000
TICKS_TO_STOP = 2
TICKS_TO_START = 3
CATCH_UP_ENTRIES = 700
"""Entries that a follower gets each tick."""
TRANSFERS_A_TICK = 2
START_MS = 1_700_000_000_000
SETTINGS = PlanSettings(operator_image="muster:1", operator_namespace="muster-system", unready_patience_ms=60_000)
BAD_IMAGES = {"bad-pull": "ImagePullBackOff", "bad-crash": "CrashLoopBackOff", "bad-silent": None}
"""Image → waiting reason. `bad-silent` runs, answers on no port and never becomes Ready."""


@dataclass(slots=True)
class Pod:
    ordinal: int
    uid: str
    revision: str
    image: str
    created_ms: int
    annotations: Mapping[str, str]
    age: int = 0
    """Ticks since its process began."""
    ready: bool = False
    changed_ms: int = 0
    stopping: int | None = None
    """Ticks left until a terminating pod is gone."""
    crashes: int = 0
    drain: str = "idle"
    cut_off: bool = False
    folder: str | None = None
    """The data folder that its process runs on; None: its volume cannot be mounted."""

    @property
    def runs(self) -> bool:
        """Its process does its work, or says why not."""
        starts = self.image not in BAD_IMAGES and self.folder is not None
        return starts and self.age >= 1 and not self.cut_off and self.stopping is None


@dataclass(slots=True)
class Raft:
    number: int
    leader: int | None
    term: int
    last: int
    match: dict[int, int]
    """By broker, for its voters."""

    @property
    def voters(self) -> tuple[int, ...]:
        return tuple(sorted(self.match))


@lru_cache(maxsize=64)
def spec_of(replicas: int, image: str, replace_lost: bool, factor: int, retain: bool) -> ClusterSpec:
    """Of a document that is the same in most passes, and costs a tenth of one."""
    spec: dict[str, Any] = {"replicas": replicas, "image": image, "replaceLostReplicas": replace_lost}
    if factor:
        spec["replicationFactor"] = factor
    if retain:
        spec["storage"] = {"whenScaled": "Retain"}
    return parse_cluster({"metadata": {"name": "c"}, "spec": spec})


@dataclass
class ModelCluster:
    replicas: int = 3
    groups: int = 3
    image: str = "good-1"
    now_ms: int = START_MS
    pods: dict[int, Pod] = field(default_factory=dict)
    rafts: list[Raft] = field(default_factory=list)
    formed: bool = False
    live: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 1
    observed: int = 0
    silent: set[int] = field(default_factory=set)
    """Pods whose admin API does not answer now."""
    slow: set[int] = field(default_factory=set)
    """Brokers that do not catch up now."""
    paused: bool = False
    restarted_at: str | None = None
    log: list[tuple[int, str]] = field(default_factory=list)
    """(ms, disruptive action) as carried out."""
    templates: list[str] = field(default_factory=list)
    uids: Iterator[int] = field(default_factory=lambda: iter(range(1, 10_000)))
    volumes: Volumes = field(default_factory=lambda: Volumes(uids=iter(range(1, 10_000))))
    replace_lost: bool = True
    replace_folder: str | None = None
    refusal: str = ""
    """What the coordinators say to a replacement; "": they agree."""
    factor: int = 0
    """spec.replicationFactor; 0: absent."""
    log_bytes: int | None = None
    """Of each group's records, as coordinators tell them."""
    factor_now: int = 3
    """Replicas that every group has, or is getting: `raised` of them are done."""
    raised: bool = True
    level: int = 3
    retain: bool = False
    """spec.storage.whenScaled."""
    by_hand: bool = False
    """Somebody has set the StatefulSet's number."""
    stuck: str = ""
    """What cannot leave a coordinator, in the coordinators' words."""

    # What the product sees.

    def world(self) -> ClusterWorld:
        owner = OwnerView(
            name="c", namespace="ns", uid="owner-1", generation=self.generation, resource_version="1",
            deleting=False, paused=self.paused, restarted_at=self.restarted_at, status=self.status,
            replace_folder=self.replace_folder,
        )  # fmt: skip
        statefulset = self._statefulset()
        replicas = {pod.name: self._replica(pod.ordinal) for pod in statefulset.pods} if statefulset else {}
        return ClusterWorld(
            owner=owner,
            spec=spec_of(self.replicas, self.image, self.replace_lost, self.factor, self.retain),
            statefulset=statefulset,
            children=dict(self.live),
            replicas=replicas,
            node_addresses={},
            now_ms=self.now_ms,
            moves=self._moves(),
            replication=self._replication(),
            storage={
                name: self._storage(naming.ordinal_of(name), look)
                for name, look in looks(statefulset, replicas, self.status, self.now_ms).items()
            },
        )

    def _replication(self) -> ReplicationView:
        """A wish is carried out between two looks."""
        view = ReplicationView(
            factor=self.factor_now, partitions_to_go=0 if self.raised else 4, moving=0 if self.raised else 2,
            voters=self.factor_now if self.raised else 1, voters_to_be=self.factor_now, done=self.raised,
        )  # fmt: skip
        self.raised = True
        return view

    def _moves(self) -> MovesView | None:
        if not any(seat.departing for seat in self.volumes.seats.values()):
            return None
        return MovesView(moving=0, paused=False, stuck=(self.stuck,) if self.stuck else ())

    def _storage(self, ordinal: int, look: Look) -> StorageView:
        pod = self.pods.get(ordinal)
        there = pod is not None and pod.stopping is None
        return self.volumes.view(
            ordinal, volume_read=look is Look.VOLUME, pod_uid=pod.uid if pod is not None and there else None
        )

    def _statefulset(self) -> StatefulSetView | None:
        live = self.live.get(("StatefulSet", "c"))
        if live is None:
            return None
        return StatefulSetView(
            name="c", uid="sts-1", generation=live["metadata"]["generation"], observed_generation=self.observed,
            replicas=live["spec"]["replicas"], ready_replicas=sum(pod.ready for pod in self.pods.values()),
            current_revision="rev-1", update_revision=self.update_revision, template_hash="",
            pods=tuple(self._pod(self.pods[ordinal]) for ordinal in sorted(self.pods)),
        )  # fmt: skip

    def _pod(self, pod: Pod) -> PodView:
        waiting = BAD_IMAGES.get(pod.image)
        return PodView(
            name=f"c-{pod.ordinal}", uid=pod.uid, ordinal=pod.ordinal, revision=pod.revision,
            phase="Pending" if waiting == "ImagePullBackOff" or pod.age < 1 or pod.folder is None else "Running",
            ready=pod.ready, ready_since_ms=pod.changed_ms if pod.ready else None,
            terminating=pod.stopping is not None, node=f"node-{pod.ordinal}",
            waiting_reason=waiting if pod.age >= 2 else None, unschedulable=False, restarts=pod.crashes,
            pod_ip=f"10.0.0.{pod.ordinal}", annotations=pod.annotations, created_ms=pod.created_ms,
            unready_since_ms=None if pod.ready else pod.changed_ms,
        )  # fmt: skip

    def _replica(self, ordinal: int) -> ReplicaView | Unknown:
        pod = self.pods[ordinal]
        if not pod.runs or ordinal in self.silent:
            return Unknown(reason="Unreachable", message=f"c-{ordinal} did not answer")
        joined = self.joined(ordinal)
        return ReplicaView(
            pod=f"c-{ordinal}",
            broker_id=ordinal,
            ready=pod.ready,
            not_ready=() if pod.ready else ("not caught up yet" if joined else "stays out",),
            cluster_id="cluster-1" if joined else None,
            drain_phase=pod.drain,
            leaderships=len(self.leads(ordinal)),
            groups=tuple(self._raft(raft, ordinal) for raft in self.rafts if ordinal in raft.match) if joined else (),
            version="0.1.0",
            feature_level=self.level if joined else None,
            folder=pod.folder,
            seats=dict(self.volumes.seats) if joined else {},
            groups_to_change=self.volumes.to_change(self.leads(ordinal)),
            voters=self.rafts[0].voters if joined else (),
        )

    def _raft(self, raft: Raft, ordinal: int) -> RaftGroupView:
        leads = raft.leader == ordinal
        topic = None if raft.number == 0 else "__consumer_offsets"
        return RaftGroupView(
            group=raft.number, topic=topic, partition=None if topic is None else raft.number - 1,
            role="leader" if leads else "follower", term=raft.term, leader=raft.leader,
            voters=raft.voters, last_index=raft.last if leads else raft.match[ordinal],
            commit_index=0, applied_index=0, match=dict(raft.match) if leads else {},
            bindings=self.volumes.bindings(raft.number), log_bytes=self.log_bytes,
        )  # fmt: skip

    # The truth.

    @property
    def founders(self) -> int:
        """Of the cluster that has formed, or would now."""
        return len(self.rafts[0].voters) if self.rafts else self.made

    @property
    def made(self) -> int:
        """Replicas that the StatefulSet has."""
        live = self.live.get(("StatefulSet", "c"))
        return int(live["spec"]["replicas"]) if live else self.replicas

    @property
    def update_revision(self) -> str:
        return self._revision(self.live["StatefulSet", "c"])

    def joined(self, ordinal: int) -> bool:
        """Its process runs, on the data folder that is bound to its id."""
        pod = self.pods.get(ordinal)
        return pod is not None and pod.runs and self.volumes.takes_part(ordinal, pod.folder)

    def votes(self, ordinal: int, raft: Raft) -> bool:
        return self.joined(ordinal) and self.volumes.is_member(raft.number, ordinal)

    def leads(self, ordinal: int) -> list[int]:
        return [raft.number for raft in self.rafts if raft.leader == ordinal]

    def majority_without(self, ordinal: int | None) -> bool:
        """Every Raft group has a majority of voters that work and have what its leader has, `ordinal` left out."""
        return all(
            sum(
                1
                for one in self.pods
                if one != ordinal
                and self.votes(one, raft)
                and raft.last - raft.match[one] <= SETTINGS.caught_up_entries_max
            )
            >= len(raft.voters) // 2 + 1
            for raft in self.rafts
        )

    def away(self) -> set[int]:
        """Ordinals without a Ready pod."""
        return {
            one
            for one in range(self.made)
            if one not in self.pods or not self.pods[one].ready or self.pods[one].stopping is not None
        }

    # What the product does.

    def plan(self) -> Plan:
        return plan_cluster(self.world(), SETTINGS)

    def carry_out(self, plan: Plan, *, crash_after: int | None = None) -> None:
        """`crash_after` actions the operator dies; then its status is not written either."""
        for count, action in enumerate(plan.actions):
            if count == crash_after:
                return
            self.execute(action)
        if crash_after is None:
            self.status = plan.status

    def _ask(self, action: RaiseReplication | Decommission) -> None:
        """The coordinators."""
        if isinstance(action, RaiseReplication):
            self.log.append((self.now_ms, f"raise {action.factor}"))
            self.factor_now, self.raised = action.factor, False
            return
        self.log.append((self.now_ms, f"{'leave' if action.departing else 'stay'} {action.pod}"))
        self.volumes.seats[action.broker] = replace(self.volumes.seats[action.broker], departing=action.departing)

    def execute(self, action: Action) -> None:
        match action:
            case Apply():
                self._apply(action.manifest)
            case EnsureSecret():
                self.live["Secret", action.name] = {
                    "kind": "Secret",
                    "metadata": {"name": action.name, "ownerReferences": [action.owner_reference]},
                }
            case DeleteChild():
                del self.live[action.kind, action.name]
            case Drain():
                pod = self._named(action.pod)
                self.log.append((self.now_ms, f"drain {action.pod}"))
                if pod.drain == "idle":
                    pod.drain = "transferring"
            case Undrain():
                self._named(action.pod).drain = "idle"
            case EvictPod() | DeletePod():
                pod = self._named(action.name)
                assert pod.uid == action.uid
                budget_forbids = pod.ready and len(self.away()) >= self._budget()
                if isinstance(action, DeletePod) or not budget_forbids:
                    self.log.append((self.now_ms, f"{type(action).__name__} {action.name}"))
                    if isinstance(action, DeletePod) and action.at_once:
                        assert not pod.runs, "a process would go on without its pod"
                        del self.pods[pod.ordinal]
                    elif pod.stopping is None:
                        self._stop(pod)
            case ReplaceReplica():
                self._replace(action)
            case RaiseReplication() | Decommission():
                self._ask(action)
            case DeleteClaim():
                self.log.append((self.now_ms, f"DeleteClaim {action.name}"))
                self.volumes.delete(action.name, action.uid)
            case _:
                raise AssertionError(action)

    def _replace(self, action: ReplaceReplica) -> None:
        """As the controller's leader judges it (ADR 38)."""
        asked = action.folder == self.replace_folder
        assert asked or action.broker in self.volumes.lost() or action.folder in self.volumes.gone, "it is not lost"
        assert self.rafts[0].leader == action.leader
        if self.refusal or self.joined(action.broker) or not self.majority_without(action.broker):
            return
        self.log.append((self.now_ms, f"replace {action.pod}"))
        self.volumes.declare_gone(action.broker, action.folder)

    def _budget(self) -> int:
        return int(self.live["PodDisruptionBudget", "c"]["spec"]["maxUnavailable"])

    def _apply(self, manifest: Mapping[str, Any]) -> None:
        key = manifest["kind"], manifest["metadata"]["name"]
        before = self.live.get(key)
        stored = with_hash(manifest)
        generation = before["metadata"]["generation"] + 1 if before else 1
        self.live[key] = {**stored, "metadata": {**stored["metadata"], "uid": f"uid-{key}", "generation": generation}}

    def _stop(self, pod: Pod) -> None:
        pod.ready = False
        pod.stopping = TICKS_TO_STOP
        self._step_down(pod.ordinal)

    def _named(self, name: str) -> Pod:
        return self.pods[naming.ordinal_of(name)]

    # What happens by itself.

    def tick(self) -> None:
        """2 s of the StatefulSet controller, the kubelets, and the coordinators themselves."""
        self.now_ms += TICK_MS
        live = self.live.get(("StatefulSet", "c"))
        if live is None:
            return
        self.observed = live["metadata"]["generation"]
        self._controller(live)
        self._kubelets()
        self._form()
        self._raft_round()
        self._take_in()
        self._balance()
        self._drains()

    def _controller(self, live: Mapping[str, Any]) -> None:
        for ordinal, pod in list(self.pods.items()):
            if pod.stopping is not None and not pod.cut_off:
                pod.stopping -= 1
                if pod.stopping <= 0:
                    del self.pods[ordinal]
        for ordinal, pod in self.pods.items():
            if ordinal >= live["spec"]["replicas"] and pod.stopping is None:
                assert self.by_hand or ordinal not in self.volumes.seats, "a coordinator lost its pod"
                self.log.append((self.now_ms, f"removed c-{ordinal}"))
                self._stop(pod)
        for ordinal, claim in list(self.volumes.claims.items()):
            if claim.terminating and ordinal not in self.pods:
                del self.volumes.claims[ordinal]
        for ordinal in range(live["spec"]["replicas"]):
            if ordinal not in self.pods and self.volumes.provide(ordinal):
                container = live["spec"]["template"]["spec"]["containers"][0]
                self.pods[ordinal] = Pod(
                    ordinal=ordinal, uid=f"pod-{next(self.uids)}", revision=self._revision(live),
                    image=container["image"], created_ms=self.now_ms, changed_ms=self.now_ms,
                    annotations=live["spec"]["template"]["metadata"].get("annotations", {}),
                )  # fmt: skip

    def _kubelets(self) -> None:
        running = sum(self.joined(one) for one in self.pods)
        for pod in self.pods.values():
            pod.age += 1
            if pod.folder is None and pod.stopping is None:
                pod.folder = self.volumes.mount(pod.ordinal)
            if pod.image == "bad-crash" and pod.age % 4 == 0:
                pod.crashes += 1
            majority = running >= self.founders // 2 + 1
            ready = self.joined(pod.ordinal) and pod.age >= TICKS_TO_START and (pod.ready or majority)
            if ready != pod.ready:
                pod.ready, pod.changed_ms = ready, self.now_ms

    def _form(self) -> None:
        if not self.formed and sum(pod.runs for pod in self.pods.values()) == self.made:
            self.formed = True
            self.rafts = [
                Raft(number, number % self.made, 1, 100, dict.fromkeys(range(self.made), 100))
                for number in range(self.groups + 1)
            ]
            self.volumes.form(self.made, self.groups + 1)
        for ordinal, pod in self.pods.items():
            if self.formed and pod.runs and pod.folder is not None:
                self.volumes.bind(ordinal, pod.folder)
                if self._cluster_id() == "cluster-1" and any(self.joined(one) for one in self.volumes.seats):
                    self.volumes.join(ordinal, pod.folder)

    def _cluster_id(self) -> str:
        """What a pod that starts is told."""
        container = self.live["StatefulSet", "c"]["spec"]["template"]["spec"]["containers"][0]
        source = next((one for one in container["env"] if one["name"] == "CLUSTER_ID"), None)
        if source is None:
            return ""
        reference = source["valueFrom"]["configMapKeyRef"]
        return str(self.live["ConfigMap", reference["name"]]["data"][reference["key"]])

    def _raft_round(self) -> None:
        for raft in self.rafts:
            need = len(raft.voters) // 2 + 1
            able = [one for one in sorted(self.pods) if self.votes(one, raft)]
            if raft.leader is None and len(able) >= need:
                best = max(able, key=lambda one: (raft.match[one], self.pods[one].drain == "idle", -one))
                raft.leader, raft.term = best, raft.term + 1
                raft.last = raft.match[best]
            if raft.leader is None or len(able) < need:
                continue
            raft.last += 10
            for one in able:
                gain = raft.last if one == raft.leader else 0 if one in self.slow else CATCH_UP_ENTRIES
                raft.match[one] = min(raft.last, raft.match[one] + gain)

    def _take_in(self) -> None:
        """A group whose leader sees a new data folder level makes it a voter; some groups each tick."""
        changed = 0
        for raft in self.rafts:
            if raft.leader is None or not self.majority_without(None):
                continue
            for one in raft.voters:
                if changed < TRANSFERS_A_TICK and self.joined(one) and not self.volumes.is_member(raft.number, one):
                    self.volumes.members[raft.number, one] = self.volumes.seats[one].binding
                    raft.match[one] = raft.last
                    changed += 1

    def _balance(self) -> None:
        """One replica each tick: off those that leave, then from who has most to who has least."""
        seats = self.volumes.seats
        takers = [one for one in sorted(seats) if self.joined(one) and not seats[one].departing]
        leaving = [one for one in sorted(seats) if seats[one].departing]
        if not self.rafts or not self.majority_without(None) or self.stuck:
            return

        def held(one: int) -> int:
            return sum(one in raft.match for raft in self.rafts)

        for raft in self.rafts:
            for giver in (*leaving, *sorted(takers, key=held, reverse=True)[:1]):
                free = [one for one in takers if one not in raft.match]
                taker = min(free, key=held, default=None)
                worth = taker is not None and (giver in leaving or (raft.number and held(giver) > held(taker) + 1))
                if giver in raft.match and taker is not None and worth:
                    self._move(raft, giver, taker)
                    return
        for one in leaving:
            if held(one) == 0:
                self.volumes.leave(one)
                self.log.append((self.now_ms, f"left c-{one}"))

    def _move(self, raft: Raft, giver: int, taker: int) -> None:
        del raft.match[giver]
        self.volumes.members.pop((raft.number, giver), None)
        raft.match[taker] = raft.last
        self.volumes.members[raft.number, taker] = self.volumes.seats[taker].binding
        if raft.leader == giver:
            raft.leader, raft.term = taker, raft.term + 1

    def _drains(self) -> None:
        for ordinal, pod in self.pods.items():
            if pod.drain == "idle" or not pod.runs:
                continue
            for number in sorted(self.leads(ordinal), reverse=True)[:TRANSFERS_A_TICK]:
                raft = self.rafts[number]
                takers = [
                    one
                    for one, other in sorted(self.pods.items())
                    if self.votes(one, raft) and other.drain == "idle" and raft.match[one] == raft.last
                ]
                if takers:
                    raft.leader, raft.term = takers[0], raft.term + 1
            pod.drain = "transferring" if self.leads(ordinal) else "drained"

    def _step_down(self, ordinal: int) -> None:
        for raft in self.rafts:
            if raft.leader == ordinal:
                raft.leader = None

    def _revision(self, live: Mapping[str, Any]) -> str:
        text = repr(live["spec"]["template"])
        if text not in self.templates:
            self.templates.append(text)
        return f"rev-{self.templates.index(text) + 1}"

    # Faults and people.

    def set_image(self, image: str) -> None:
        if image != self.image:
            self.image = image
            self.generation += 1

    def set_replicas(self, replicas: int) -> None:
        if replicas != self.replicas:
            self.replicas = replicas
            self.generation += 1

    def crash(self, ordinal: int) -> None:
        """The container dies and is started again in place."""
        pod = self.pods.get(ordinal)
        if pod is None:
            return
        pod.age, pod.ready, pod.drain, pod.changed_ms = 0, False, "idle", self.now_ms
        pod.crashes += 1
        self._step_down(ordinal)

    def elect(self, number: int, ordinal: int) -> None:
        """Another replica wins an election, also one that drains."""
        if number < len(self.rafts) and self.votes(ordinal, self.rafts[number]):
            raft = self.rafts[number]
            if raft.leader is not None and raft.match[ordinal] == raft.last:
                raft.leader, raft.term = ordinal, raft.term + 1

    def fall_behind(self, ordinal: int) -> None:
        """A burst of writes that one replica misses, while it is slow."""
        if self.majority_without(ordinal):
            self.slow.add(ordinal)
            for raft in self.rafts:
                if raft.leader not in (None, ordinal):
                    raft.last += 5_000
                    for one in self.pods:
                        if one != ordinal and self.votes(one, raft):
                            raft.match[one] = raft.last

    def cut_off(self, ordinal: int) -> None:
        """Its node is unreachable: nobody knows what the pod does."""
        pod = self.pods.get(ordinal)
        if pod is not None:
            pod.cut_off, pod.ready, pod.changed_ms = True, False, self.now_ms
            self._step_down(ordinal)

    def lose_claim(self, ordinal: int) -> None:
        """Somebody deletes claim and pod; the next pod gets a new claim."""
        pod = self.pods.get(ordinal)
        if self.volumes.claims.pop(ordinal, None) is not None and pod is not None:
            self._stop(pod)
            pod.cut_off = False

    def lose_volume(self, ordinal: int, how: str) -> None:
        """`how`: volume, node or node-away. Its process ends; no pod starts on that claim again."""
        claim, pod = self.volumes.claims.get(ordinal), self.pods.get(ordinal)
        if claim is None:
            return
        claim.volume_gone = how == "volume"
        claim.node = {"node": "gone", "node-away": "not ready"}.get(how, claim.node)
        if pod is not None:
            pod.folder, pod.ready, pod.drain, pod.changed_ms = None, False, "idle", self.now_ms
            self._step_down(ordinal)

    def empty(self, ordinal: int) -> None:
        """The volume is the same and has nothing on it any more."""
        claim, pod = self.volumes.claims[ordinal], self.pods[ordinal]
        claim.folder = pod.folder = None
        self.crash(ordinal)

    def heal(self) -> None:
        """Every fault is over; a node that was cut off is back and its pods' processes begin anew."""
        for claim in self.volumes.claims.values():
            claim.node = "ready" if claim.node == "not ready" else claim.node
        self.volumes.unreadable = self.volumes.forbidden = False
        self.volumes.provides = True
        self.silent.clear()
        self.slow.clear()
        for pod in self.pods.values():
            if pod.cut_off:
                pod.cut_off, pod.age, pod.drain = False, 0, "idle"
