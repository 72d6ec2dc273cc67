"""The coordinators' admin API and Kafka's protocol, answered from the pods that a fake API server holds.

`FakeAdmin` plays coordinators: each pod of a cluster leads some Raft groups until it is drained; a new pod of a name
has
caught up at once. `FakeKafka` plays one cluster's groups: tests put views in.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from muster_operator import naming
from muster_operator.errors import OperatorError, Refused
from muster_operator.world.admin_at import AdminAt
from muster_operator.world.cluster import MovesView, RaftGroupView, ReplicationView, ReplicaView, Seat
from muster_operator.world.group import Leaver, MemberView, ObservedGroup
from muster_operator.world.login import Where
from muster_operator.world.views import Unknown

from tests.operator.fakes.fake_kube import FakeKube
from tests.operator.fakes.kafka_objects import KafkaObjects

GROUPS = 6


class FakeAdmin:
    """`leaders`: Raft group → broker id. `journal`: what was asked to change."""

    def __init__(self, kube: FakeKube, replicas: int = 3) -> None:
        self._kube = kube
        self.replicas = replicas
        self.leaders = {group: group % replicas for group in range(GROUPS)}
        self.drained: set[str] = set()
        """uids of drained pods: a new pod of the name is not drained."""
        self.journal: list[str] = []
        self.tokens: set[str] = set()
        self.asked_at: dict[str, AdminAt] = {}
        """Pod → where it was asked the last time."""
        self.versions: dict[str, str] = {}
        """Image → release that its pods say they are; else 0.1.0."""
        self.feature_level = 2
        self.folders: dict[str, str] = {}
        """Claim's uid → data folder on its volume."""
        self.replication_view = ReplicationView(
            factor=replicas, partitions_to_go=0, moving=0, voters=replicas, voters_to_be=replicas, done=True
        )
        self.seats: dict[str, dict[int, Seat]] = {}
        """By cluster."""
        self.silent: set[str] = set()
        """Pods that run and do not answer."""
        self.gone: set[str] = set()
        self.refusal: OperatorError | None = None
        """What a replacement is answered."""

    def _pod(self, pod: str) -> Mapping[str, object] | None:
        return next(
            (live for (kind, _, name), live in self._kube.objects.items() if (kind, name) == ("Pod", pod)), None
        )

    def _at(self, host: AdminAt) -> str:
        address = str(host).rpartition(":")[0]
        for (kind, _, name), live in self._kube.objects.items():
            if kind == "Pod" and (live.get("status") or {}).get("podIP") == address:
                return name
        raise AssertionError(f"nobody lives at {host}")

    async def replica(self, *, host: AdminAt, pod: str, token: str) -> ReplicaView | Unknown:
        self.tokens.add(token)
        self.asked_at[pod] = host
        live = self._pod(pod)
        if live is None or self._at(host) != pod or live["status"]["phase"] != "Running" or pod in self.silent:
            return Unknown(reason="ReplicaUnreachable", message=f"{pod} does not answer")
        broker = naming.ordinal_of(pod)
        alive = self._alive()
        for group, leader in self.leaders.items():
            if leader not in alive and alive:
                self.leaders[group] = alive[0]
        drained = live["metadata"]["uid"] in self.drained
        if self.stays_out(pod):
            return ReplicaView(
                pod=pod, broker_id=broker, ready=False, not_ready=("emptied, stays out",), cluster_id=None,
                drain_phase="idle", leaderships=0, groups=(), version="0.1.0", folder=self._folder(pod),
            )  # fmt: skip
        return ReplicaView(
            pod=pod,
            broker_id=broker,
            ready=True,
            not_ready=(),
            cluster_id="c",
            drain_phase="drained" if drained else "idle",
            leaderships=sum(one == broker for one in self.leaders.values()),
            groups=tuple(self._group(group, broker, _cluster(pod), alive) for group in self.leaders),
            version=self.versions.get(str(_image(live)), "0.1.0"),
            feature_level=self.feature_level,
            folder=self._folder(pod),
            seats=dict(self.seats.get(_cluster(pod), {})),
        )

    def stays_out(self, pod: str) -> bool:
        """It runs on another data folder than the one that is bound to its id. The first one of an id is bound, and
        the next one after a replacement."""
        folder, broker = self._folder(pod), naming.ordinal_of(pod)
        if folder is None:
            return False
        seats = self.seats.setdefault(_cluster(pod), {})
        if broker not in seats and folder in self.gone:
            return True
        seat = seats.setdefault(broker, Seat(folder=folder, binding=0))
        if seat.folder is None and folder not in self.gone:
            seat = seats[broker] = Seat(folder=folder, binding=seat.binding)
        return seat.folder != folder

    def _folder(self, pod: str) -> str | None:
        """None: there is no claim. One that is new is empty, so its process makes a folder."""
        for (kind, _, name), live in self._kube.objects.items():
            if (kind, name) == ("PersistentVolumeClaim", f"data-{pod}"):
                return self.folders.setdefault(live["metadata"]["uid"], f"{len(self.folders) + 1:032x}")
        return None

    async def replace(self, *, hosts: Mapping[int, AdminAt], token: str, first: int, broker: int, folder: str) -> None:
        self.journal.append(f"replace {broker} {folder}")
        if self.refusal is not None:
            raise self.refusal
        seats = self.seats[_cluster(self._at(hosts[first]))]
        if folder in self.gone:
            return
        seat = seats[broker]
        if seat.folder != folder:
            raise Refused("ReplicaRefuses", "another folder is bound")
        self.gone.add(folder)
        seats[broker] = Seat(folder=None, binding=seat.binding + 1)

    async def decommission(self, *, hosts: Sequence[AdminAt], token: str, broker: int, departing: bool) -> None:
        self.journal.append(f"{'leave' if departing else 'stay'} {broker}")
        if self.refusal is not None:
            raise self.refusal
        seats = self.seats[_cluster(self._at(hosts[0]))]
        if broker in seats:
            seats[broker] = dataclasses.replace(seats[broker], departing=departing)

    def emptied(self, cluster: str, broker: int) -> None:
        """The coordinators have moved away what it held, and let it go."""
        seat = self.seats[cluster].pop(broker)
        if seat.folder is not None:
            self.gone.add(seat.folder)

    async def replication(self, *, host: AdminAt, token: str) -> ReplicationView | Unknown:
        return self.replication_view

    async def raise_replication(self, *, hosts: Mapping[int, AdminAt], token: str, first: int, factor: int) -> None:
        self.journal.append(f"replicas {factor}")
        if self.refusal is not None:
            raise self.refusal
        self.replication_view = dataclasses.replace(
            self.replication_view, factor=factor, partitions_to_go=GROUPS - 1, voters_to_be=factor, done=False
        )

    async def moves(self, *, host: AdminAt, token: str) -> MovesView | Unknown:
        return MovesView(moving=2, paused=False, stuck=())

    async def drain(self, *, host: AdminAt, token: str) -> None:
        pod = self._at(host)
        self.journal.append(f"drain {pod}")
        self.drained.add(self._pod(pod)["metadata"]["uid"])
        broker = naming.ordinal_of(pod)
        heirs = [one for one in self._alive() if one != broker]
        for group, leader in self.leaders.items():
            if leader == broker and heirs:
                self.leaders[group] = heirs[group % len(heirs)]

    async def undrain(self, *, host: AdminAt, token: str) -> None:
        pod = self._at(host)
        self.journal.append(f"undrain {pod}")
        self.drained.discard(self._pod(pod)["metadata"]["uid"])

    async def group_facts(
        self, *, hosts: Mapping[int, AdminAt], token: str, group_id: str
    ) -> tuple[int | None, int | None, str | None] | Unknown:
        return Unknown(reason="GroupNotFound", message="none here")

    def _alive(self) -> list[int]:
        return sorted(
            naming.ordinal_of(name)
            for (kind, _, name), live in self._kube.objects.items()
            if kind == "Pod"
            and live["metadata"].get("labels", {}).get(naming.COMPONENT_LABEL) == naming.COORDINATOR
            and (live.get("status") or {}).get("phase") == "Running"
            and "deletionTimestamp" not in live["metadata"]
            and not self.stays_out(name)
        )

    def _group(self, group: int, broker: int, cluster: str, alive: list[int]) -> RaftGroupView:
        leads = self.leaders[group] == broker
        return RaftGroupView(
            group=group,
            topic=None if group == 0 else "__consumer_offsets",
            partition=None if group == 0 else group - 1,
            role="leader" if leads else "follower",
            term=3,
            leader=self.leaders[group],
            voters=tuple(range(self.replicas)),
            last_index=100,
            commit_index=100,
            applied_index=100,
            match={one: 100 if one in alive else 0 for one in range(self.replicas)} if leads else {},
            bindings={
                one: seat.binding if seat.folder else seat.binding - 1
                for one, seat in self.seats.get(cluster, {}).items()
            },
        )


def _cluster(pod: str) -> str:
    return pod.rpartition("-")[0]


def _image(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["image"])


class FakeKafka(KafkaObjects):
    def __init__(self, kube: FakeKube) -> None:
        super().__init__()
        self._kube = kube
        self.groups: dict[str, ObservedGroup | Unknown] = {}
        self.asked = 0
        self.removed: list[tuple[str, tuple[str, ...]]] = []
        """Instance ids that were asked to be removed."""
        self.where: Where | None = None
        """The cluster of the last question."""

    async def group(self, *, bootstrap: Where, group_id: str, topics: Sequence[str]) -> ObservedGroup | Unknown:
        self.asked += 1
        self.where = bootstrap
        nothing = Unknown(reason="BootstrapUnreachable", message=f"no broker answers at {bootstrap}")
        view = self.groups.get(group_id, nothing)
        if isinstance(view, ObservedGroup):
            view = dataclasses.replace(view, members=tuple(self._seen(one) for one in view.members))
            self.groups[group_id] = view
        return view

    def _seen(self, member: MemberView) -> MemberView:
        """A member without a host is the process in the pod of its name, and stays there when the pod is gone."""
        if member.host:
            return member
        for (kind, _, name), live in self._kube.objects.items():
            if (kind, name) == ("Pod", member.instance_id):
                return dataclasses.replace(member, host=(live.get("status") or {}).get("podIP") or "")
        return member

    async def remove_members(self, *, bootstrap: Where, group_id: str, members: Sequence[Leaver]) -> None:
        self.removed.append((group_id, tuple(one.instance_id for one in members)))
        view = self.groups.get(group_id)
        if isinstance(view, ObservedGroup):
            leaving = {(one.instance_id, one.member_id) for one in members}
            left = tuple(one for one in view.members if (one.instance_id, one.member_id) not in leaving)
            self.groups[group_id] = dataclasses.replace(view, members=left)
