"""Carries out a plan's faults, each at its time, and heals everything at the end of the storm.

| kind | what happens |
|---|---|
| kill, power | the picked replicas end, now; `power` loses what was not synced; both start again after `ms` |
| …-at-boundary | the same, before or after the n-th disk operation, peer message or client answer from now |
| power-all | every replica loses its power within `amount` ms |
| isolate, one-way, halves, ring | links lose everything in silence, for `ms` |
| reset-links, slow-links, lossy-links | connections between replicas break, delay, lose |
| replaying-links | Raft messages come twice, the second time late and out of order |
| slow-disk, disk-error | every operation takes `amount` ms; one sync or write fails |
| full-disk | the picked replicas' disks have `amount` KiB left, for `ms`; they end and start meanwhile as they do |
| stalled-thread | one I/O thread takes 200 to 600 ms for each job, for `ms` |
| refused-sends, link-rate | links refuse 5 % of what is sent; carry `amount` bytes a millisecond; for `ms` |
| clock-drift | both clocks of the picked replicas run `amount` millionths faster, to the end |
| clock-step | the wall clock of the picked replicas jumps by `amount` ms |
| lost-disk | the first picked replica ends, its volume is empty: of a minority; it may be replaced (`replacements`) |
| bit-rot | the picked replicas end, and one to three bits flip in their files, of a minority of a group (`rot`) |
| pause | as SIGSTOP, for `ms` |
| transfer | leadership of the picked partition is handed to another replica |
| drain | the picked replicas hand away what they lead, as before a restart, and take it back after `ms` |
| block-client, reset-clients | clients and a replica do not hear each other, or their connections break |
"""

import errno
import random

from muster_coordinator.ids import FIRST_OFFSETS_GROUP, BrokerId, GroupNo

from tests.sim import drains, link_faults, machine_faults, rot
from tests.sim.cluster import Cluster, Replica
from tests.sim.loop import Latency
from tests.sim.plan import Fault, Plan
from tests.sim.producers import DATA
from tests.sim.replacements import Replacements

RESTART_MS = 700
"""After an end that no fault planned."""


DEPOSE_US = 50_000


class Nemesis:
    """`arm` once; `heal` ends the storm."""

    def __init__(self, cluster: Cluster, plan: Plan, clients: list[str]) -> None:
        self.cluster = cluster
        self.plan = plan
        self.clients = clients
        self.rand = random.Random(f"{plan.seed}/nemesis")
        self.rot_rand = random.Random(f"{plan.seed}/rot")
        self.replacements = Replacements(cluster, plan.seed, plan.follows)
        self._down_ms: dict[int, int] = {}
        self.over = False
        cluster.on_ended.append(self._ended)

    def arm(self) -> None:
        start_us = self.cluster.world.now_us
        for fault in self.plan.faults:
            self._at(start_us + fault.at_ms * 1000, lambda fault=fault: self._strike(fault))

    def _at(self, when_us: int, call) -> None:  # type: ignore[no-untyped-def]
        self.cluster.world.at(when_us, lambda: None if self.over else call())

    def _after(self, ms: int, call) -> None:  # type: ignore[no-untyped-def]
        self._at(self.cluster.world.now_us + ms * 1000, call)

    def _strike(self, fault: Fault) -> None:
        self.cluster.trace(f"fault {fault}", b"")
        self.cluster.marks.add(f"fault {fault.kind}")
        victims = [self._resolve(pick) for pick in fault.picks]
        getattr(self, "_" + fault.kind.replace("-", "_"))(fault, victims)

    def _resolve(self, pick: str) -> Replica:
        kind, _, number = pick.partition(":")
        if kind == "leader":
            leader = self.cluster.leader_of(GroupNo(FIRST_OFFSETS_GROUP + int(number)))
            if leader in self.cluster.replicas:  # those that joined have ends of their own (`observers`)
                return leader
        return self.cluster.replicas[int(number) % len(self.cluster.replicas)]

    def _ended(self, replica: Replica, power: bool) -> None:
        """Whoever goes down comes back."""
        wait_ms = self._down_ms.pop(replica.broker, RESTART_MS)
        world = self.cluster.world
        world.at(world.now_us + wait_ms * 1000, replica.start)

    # Ends.

    def _kill(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            if replica.up:
                self._down_ms[replica.broker] = fault.ms
                replica.kill()

    def _power(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            if replica.up:
                self._down_ms[replica.broker] = fault.ms
                replica.power_off()

    def _kill_at_boundary(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            self._down_ms[replica.broker] = fault.ms
            replica.end_at_boundary(fault.amount, power=False)

    def _power_at_boundary(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            self._down_ms[replica.broker] = fault.ms
            replica.end_at_boundary(fault.amount, power=True)

    def _power_all(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in self.cluster.replicas:
            at_ms = self.rand.randint(0, fault.amount)
            self._after(at_ms, lambda replica=replica: self._power(fault, [replica]))

    # Links.

    def _isolate(self, fault: Fault, victims: list[Replica]) -> None:
        pairs = [(v.broker, other.broker) for v in victims for other in self.cluster.replicas]
        self._cut_for(fault, [*pairs, *((b, a) for a, b in pairs)])

    def _one_way(self, fault: Fault, victims: list[Replica]) -> None:
        outwards = fault.amount % 2 == 0
        pairs = [(v.broker, other.broker) for v in victims for other in self.cluster.replicas]
        self._cut_for(fault, pairs if outwards else [(b, a) for a, b in pairs])

    def _halves(self, fault: Fault, victims: list[Replica]) -> None:
        brokers = [replica.broker for replica in self.cluster.replicas]
        self.rand.shuffle(brokers)
        left, right = brokers[: len(brokers) // 2], brokers[len(brokers) // 2 :]
        self._cut_for(fault, [pair for a in left for b in right for pair in ((a, b), (b, a))])

    def _ring(self, fault: Fault, victims: list[Replica]) -> None:
        """Everybody hears its two neighbours only; with three replicas: one pair hears nothing of one another."""
        size = len(self.cluster.replicas)
        if size == 3:
            a, b = victims[0].broker, (victims[0].broker + 1) % 3
            return self._cut_for(fault, [(a, b), (b, a)])
        pairs = [(a, b) for a in range(size) for b in range(size) if (a - b) % size not in (0, 1, size - 1)]
        return self._cut_for(fault, [(BrokerId(a), BrokerId(b)) for a, b in pairs])

    def _cut_for(self, fault: Fault, pairs: list[tuple[BrokerId, BrokerId]]) -> None:
        pairs = [(a, b) for a, b in pairs if a != b]
        for a, b in pairs:
            self.cluster.net.cut(a, b)

        def mend() -> None:
            for a, b in pairs:
                self.cluster.net.restore(a, b)

        self._after(fault.ms, mend)

    def _reset_links(self, fault: Fault, victims: list[Replica]) -> None:
        for victim in victims:
            for other in self.cluster.replicas:
                if other is not victim:
                    self.cluster.net.reset(victim.broker, other.broker)

    def _slow_links(self, fault: Fault, victims: list[Replica]) -> None:
        self.cluster.net.delay_us = (fault.amount * 500, fault.amount * 1_000)
        self._after(fault.ms, self._calm_links)

    def _lossy_links(self, fault: Fault, victims: list[Replica]) -> None:
        self.cluster.net.loss = fault.amount / 1_000
        self._after(fault.ms, self._calm_links)

    def _replaying_links(self, fault: Fault, victims: list[Replica]) -> None:
        self.cluster.net.replay = fault.amount / 1_000
        self._after(fault.ms, self._calm_links)

    def _refused_sends(self, fault: Fault, victims: list[Replica]) -> None:
        link_faults.refuse_sends(self.cluster.net)
        self._after(fault.ms, self._calm_links)

    def _link_rate(self, fault: Fault, victims: list[Replica]) -> None:
        link_faults.limit_rate(self.cluster.net, fault.amount)
        self._after(fault.ms, self._calm_links)

    def _calm_links(self) -> None:
        if self.cluster.net.refused_messages:
            self.cluster.marks.add("a send was refused")
        link_faults.calm(self.cluster.net)
        self.cluster.net.loss = self.cluster.net.replay = 0.0
        self.cluster.net.delay_us = self.plan.setup.link_us

    # Machines.

    def _lost_disk(self, fault: Fault, victims: list[Replica]) -> None:
        victim, harm = victims[0], self.cluster.harm
        formed = any(r.up and r.node.group_manager is not None for r in self.cluster.replicas if r is not victim)
        if formed and victim.spare is None and harm.may(victim.broker, None):
            (self._kill if fault.amount % 2 else self._power)(fault, [victim])
            victim.lose_disk()
            harm.note(victim.broker, None)
            if self.plan.replaces:
                self.replacements.lost(victim)
            self.cluster.marks.add("a disk was lost")

    def _bit_rot(self, fault: Fault, victims: list[Replica]) -> None:
        for victim in victims:
            if victim.spare is not None:
                continue
            (self._kill if fault.amount % 4 else self._power)(fault, [victim])
            for number in range(1 + fault.amount // 4 % 3):
                proven = number == 0 and not victim.went_dark
                what = rot.flip(victim.disk, self.cluster.harm, victim.broker, self.rot_rand, wal=proven)
                if what is not None:
                    self.cluster.marks.add(f"a bit of a {what} flipped")

    def _slow_disk(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            life = replica.life
            if life is not None:
                life.loop.default_latency = Latency(fault.amount * 500, fault.amount * 1_500)
                self._after(fault.ms, lambda life=life: self._calm_disk(life))

    def _calm_disk(self, life) -> None:  # type: ignore[no-untyped-def]
        life.loop.default_latency = Latency(*self.plan.setup.disk_us)

    def _disk_error(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            if replica.up:
                self._down_ms[replica.broker] = fault.ms
                replica.disk_faults += 1
                operation = ("sync", "pwrite", "sync")[fault.amount % 3]
                replica.disk.fail_next(operation, errno.EIO if fault.amount % 2 else errno.ENOSPC)

    def _full_disk(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            machine_faults.fill_disk(replica, fault.amount)
            self._after(fault.ms, lambda replica=replica: machine_faults.free_disk(replica))

    def _stalled_thread(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            machine_faults.stall_queue(replica, fault.amount)
            self._after(fault.ms, lambda replica=replica: machine_faults.free_queues(replica))

    def _clock_drift(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            machine_faults.drift(replica, fault.amount)

    def _clock_step(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            replica.wall_us += fault.amount * 1_000
            if replica.life is not None:
                replica.life.loop.step_wall(fault.amount)

    def _pause(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            life = replica.life
            if life is not None and not life.loop.paused:
                life.loop.pause()
                self._after(fault.ms, life.loop.resume)

    def _transfer(self, fault: Fault, victims: list[Replica]) -> None:
        group = GroupNo(FIRST_OFFSETS_GROUP + fault.amount % self.plan.setup.partitions)
        leader = self.cluster.leader_of(group)
        if leader is not None and not leader.node.loop.paused:  # type: ignore[attr-defined]
            others = [r.broker for r in self.cluster.replicas if r is not leader]
            leader.node.transfer(group, others[fault.amount % len(others)])

    def _drain(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            if replica.life is not None and replica.node.group_manager is not None:
                drains.begin(replica.life)
                self._after(fault.ms, lambda life=replica.life: drains.end(life))

    def _depose(self, fault: Fault, victims: list[Replica]) -> None:
        """A topic's partition is handed over, and its old leader cut off before it hears the outcome. Only for seeds
        that aim at it."""
        image = self.cluster.replicas[0].node.image() if self.cluster.replicas[0].up else None
        if image is None or DATA not in image.topics:
            return
        places = image.topics[DATA].partitions
        group = GroupNo(places[fault.amount % len(places)].group)
        leader = self.cluster.leader_of(group)
        if leader is None or leader.node.loop.paused:  # type: ignore[attr-defined]
            return
        others = [replica for replica in self.cluster.replicas if replica is not leader and replica.up]
        term = leader.node.host.groups[group].core.term
        world = self.cluster.world
        until_us = world.now_us + DEPOSE_US

        def look() -> None:
            if any(r.up and r.node.host.groups[group].core.term > term for r in others):
                self._isolate(fault, [leader])
            elif world.now_us < until_us:
                self._at(world.now_us + 50, look)

        if others and leader.node.transfer(group, others[fault.amount % len(others)].broker):
            look()

    # Clients.

    def _block_client(self, fault: Fault, victims: list[Replica]) -> None:
        for replica in victims:
            for client in self.clients:
                if self.rand.random() < 0.6:
                    self.cluster.wires.block(client, replica.broker)
        self._after(fault.ms, self._unblock)

    def _unblock(self) -> None:
        self.cluster.wires.unblock_all(lambda: self.rand.random() < 0.4)

    def _reset_clients(self, fault: Fault, victims: list[Replica]) -> None:
        self.cluster.wires.reset_some(lambda: self.rand.random() < 0.5)

    # The end of the storm.

    def heal(self) -> None:
        """Everything works again, and everybody is up."""
        self.over = self.replacements.over = True
        self._calm_links()
        self.cluster.net.heal()
        self._unblock()
        for replica in self.cluster.replicas:
            self.replacements.end_mistake(replica)
            replica.forgive()
            machine_faults.free_disk(replica)
            machine_faults.free_queues(replica)
            if replica.life is not None:
                self._calm_disk(replica.life)
                replica.life.loop.resume()
                drains.end(replica.life)
            else:
                replica.start()
