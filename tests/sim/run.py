"""One seed from start to verdict: storm, healing, stability, final read, and all checks.

`run(draw(seed))` gives a `Result`; it has failed when it holds violations. The trace hash, for who asks for it, covers
every peer message, client frame, disk operation, start, end and fault, so two runs with equal hashes did the same.
"""

import hashlib
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo
from muster_coordinator.links.limits import (
    LINK_BACKOFF_MAX_MS,
    LINK_DIAL_TIMEOUT_SLOW_MS,
    LINK_HANDSHAKE_TIMEOUT_MS,
)
from muster_coordinator.replica import limits

from tests.sim import drains, frames
from tests.sim.audit import Audit
from tests.sim.check_groups import check_calm, check_groups
from tests.sim.check_offsets import check_offsets
from tests.sim.churn import CHURN_GROUP
from tests.sim.churn_run import Churn
from tests.sim.client import Client
from tests.sim.cluster import Cluster
from tests.sim.committers import Committer, Reader
from tests.sim.compaction import Compaction, check_stable
from tests.sim.gray_links import GrayLinks
from tests.sim.growth import Growth
from tests.sim.history import Violation
from tests.sim.logs import cleaned_here, compare_cleaned, compare_logs, damaged_logs
from tests.sim.members import GroupPlan, Member
from tests.sim.mesh_net import MeshNet
from tests.sim.moves import MOVED_MS_MAX, Moves
from tests.sim.nemesis import Nemesis
from tests.sim.observers import JOINED_MS_MAX, Observers
from tests.sim.oracle import Oracle
from tests.sim.pipelining import EdgeReader, Identity, Pipeline
from tests.sim.placements import Placements
from tests.sim.plan import Crew, Plan
from tests.sim.producers import DATA, Producer, TopicMaker, TopicReader, check_topics
from tests.sim.replacements import REPLACED_MS_MAX
from tests.sim.transaction_run import ENDED_MS_MAX, Transactions
from tests.sim.transactors import COMPACTED, OUTPUT, Seat

LOOK_MS = 250
STABLE_MS_MAX = 15_000
"""L1: after everything is healed all committers succeed within this time, and all groups are stable after two
rebalance time-outs more (an id that was handed out and got lost is waited for, as in Kafka)."""
SETTLE_MS_MAX = 20_000
LINKED_MS_MAX = LINK_HANDSHAKE_TIMEOUT_MS + LINK_BACKOFF_MAX_MS + LINK_DIAL_TIMEOUT_SLOW_MS
"""A connection that was accepted by a process that then lost its power ends when no handshake has come (seed 262); the
dial that follows backs off, and may be lost itself."""
REPAIRED_MS_MAX = 2 * limits.REPAIR_RETRY_MS + 20_000
"""Damage that a reader met has been mended by then, also if no peer had a whole copy at first."""


@dataclass
class Result:
    """What a run came to."""

    seed: str
    violations: list[Violation] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    trace: str = ""
    """The hash of all that happened; "" if nobody asked for it."""
    operations: int = 0
    acknowledged: int = 0
    virtual_ms: int = 0
    cpu_s: float = 0.0
    faults: int = 0

    @property
    def failed(self) -> bool:
        return bool(self.violations)

    def line(self) -> str:
        """One line; that of a failed seed replays it."""
        verdict = str(self.violations[0]).splitlines()[-1][:300] if self.violations else "ok"
        if self.violations:
            verdict = f"{self.violations[0].invariant} violated -- python -m tests.sim --seed {self.seed} -- {verdict}"
        return (
            f"seed {self.seed}: {verdict} ({self.operations} operations, {self.faults} faults, "
            f"{self.virtual_ms / 1000:.0f} s in {self.cpu_s:.1f} s{self.trace and f', trace {self.trace[:12]}'})"
        )


class Run:
    """The run of one plan. `traced`: with the hash of all that happens, which is a twentieth of its cost."""

    def __init__(self, plan: Plan, *, traced: bool = False) -> None:
        self.plan = plan
        self.cluster = Cluster(plan.setup)
        self.digest = hashlib.blake2b(digest_size=16)
        self.traced = traced
        if traced:
            self.cluster.world.tracer = self._trace
        self.oracle = Oracle(self.cluster)
        self.cluster.on_event.append(check_stable)
        self.committers: list[Committer] = []
        self.members: list[Member] = []
        for crew in plan.crews:
            self._crew(crew)
        self.producers: list[Producer] = []
        self.pipelines: list[Pipeline] = []
        self.topic_readers: list[TopicReader] = []
        self.edge_readers: list[EdgeReader] = []
        self.compaction = (
            Compaction(self.cluster, self.oracle, plan.compaction) if plan.compaction is not None else None
        )
        compacting = [] if self.compaction is None else self.compaction.clients
        if plan.data_partitions:
            self._topics()
        self.churn = Churn(self.cluster, self.oracle, plan.stays_from_ms) if plan.churn else None
        churning = [] if self.churn is None else self.churn.clients
        self.transactions = (
            Transactions(self.cluster, self.oracle, plan.transactions) if plan.transactions is not None else None
        )
        transacting = [] if self.transactions is None else self.transactions.clients
        self.of_topics = [
            *self.producers, *self.pipelines, *self.topic_readers, *self.edge_readers,
            *churning, *transacting, *compacting,
        ]  # fmt: skip
        if self.churn is not None:
            self.committers += self.churn.committers
        self.clients: list[Client | Seat] = [*self.committers, *self.members, *self.of_topics]
        self.nemesis = Nemesis(self.cluster, plan, [client.name for client in self.clients])
        self.observers = Observers(self.cluster, plan.seed)
        self.placements = Placements(self.cluster)
        self.moves = Moves(self.cluster, plan.seed)
        self.growth = Growth(self.cluster, plan.seed)
        self.gray_links = self._gray_links()
        self.plans: dict[str, GroupPlan] = {crew.name: crew.plan for crew in plan.crews if crew.plan is not None}

    def _gray_links(self) -> GrayLinks:
        cluster, world = self.cluster, self.cluster.world

        def after(ms: int, call: Callable[[], None]) -> None:
            world.at(world.now_us + ms * 1_000, call)

        brokers = [replica.broker for replica in cluster.replicas]
        return GrayLinks(self.plan.seed, brokers, cluster.net.gray, after, cluster.marks.add)

    def _trace(self, what: str, data: bytes) -> None:
        self.digest.update(b"%d %b %b" % (self.cluster.world.now_us, what.encode(), data))

    def _topics(self) -> None:
        """Embedded topics: what the crews commit for must exist, and there is data."""
        topics = {DATA: self.plan.data_partitions}
        for crew in self.plan.crews:
            topics[f"t-{crew.name}"] = max(1, crew.keys)
            if crew.plan is not None:
                topics[crew.plan.topic] = crew.plan.partitions
        if self.plan.transactions is not None:
            topics[OUTPUT] = self.plan.transactions.partitions
        configs = {}
        if self.compaction is not None:
            topics[COMPACTED], configs[COMPACTED] = 1, self.compaction.configs()
        TopicMaker(self.cluster, topics, configs).start()
        for partition in range(self.plan.data_partitions):
            for number in range(2):
                name = f"data-{partition}/p{number}"
                self.producers.append(Producer(self.cluster, name, partition, pause_ms=200))
            self.topic_readers.append(TopicReader(self.cluster, f"data-{partition}/r", partition))
        identity = Identity()
        for partition in range(self.plan.data_partitions):
            self.pipelines.append(Pipeline(self.cluster, f"data-{partition}/pipe", partition, identity))
            producing = [*self.producers, *self.pipelines]
            self.edge_readers.append(EdgeReader(self.cluster, f"data-{partition}/edge", partition, producing))

    def _crew(self, crew: Crew) -> None:
        keys = [(f"t-{crew.name}", partition) for partition in range(crew.keys)]
        for number in range(crew.committers):
            self.committers.append(
                Committer(self.cluster, f"{crew.name}/c{number}", crew.name, keys=keys, pause_ms=crew.pause_ms)
            )
        if crew.plan is None:
            return
        for number in range(crew.dynamic):
            self.members.append(Member(self.cluster, f"{crew.name}/m{number}", crew.plan))
        for number in range(crew.static):
            for twin in range(2 if number < crew.twins else 1):
                name = f"{crew.name}/s{number}" + ("'" if twin else "")
                member = Member(self.cluster, name, crew.plan, f"{crew.name}-i{number}", restart=crew.restart)
                self.members.append(member)
        if crew.rogue:
            topic = [(crew.plan.topic, partition) for partition in range(crew.plan.partitions)]
            self.committers.append(
                Committer(self.cluster, f"{crew.name}/rogue", crew.name, keys=topic, pause_ms=2_000, reads=0.2)
            )

    def run(self) -> Result:
        began = time.process_time()
        world = self.cluster.world
        start_us = world.now_us
        self.cluster.start()
        for client in self.clients:
            client.start(client.rand.randint(0, 1_500))
        self.nemesis.arm()
        self.observers.arm()
        self.moves.arm()
        self.growth.arm()
        self.gray_links.arm()
        self.cluster.orders.arm()
        self._pass(self.plan.storm_ms)
        if not self.cluster.violations:
            self._settle()
        if not self.cluster.violations:
            self._judge()
        return Result(
            seed=self.plan.seed,
            violations=self.cluster.violations,
            marks=self.cluster.marks,
            trace=self.digest.hexdigest() if self.traced else "",
            operations=len(self.cluster.history.ops),
            acknowledged=sum(client.acknowledged for client in self.committers),
            virtual_ms=(world.now_us - start_us) // 1000,
            cpu_s=time.process_time() - began,
            faults=len(self.plan.faults),
        )

    # -- phases ----------------------------------------------------------------------------------------------------

    def _pass(self, ms: int) -> None:
        """Let time pass and look at everything now and then."""
        for at_ms in range(0, ms, LOOK_MS):
            if self.cluster.violations:
                return
            self.cluster.world.run_for(LOOK_MS)
            self.oracle.look()
            self.placements.look()
            if at_ms % (4 * LOOK_MS) == 0:
                self.oracle.compare_states()

    def _wait(self, what: str, check, limit_ms: int) -> None:  # type: ignore[no-untyped-def]
        for _ in range(0, limit_ms, LOOK_MS):
            if self.cluster.violations or check():
                return
            self._pass(LOOK_MS)
        self.cluster.violations.append(Violation("L1", f"not within {limit_ms} ms of being healed: {what()}"))

    def _settle(self) -> None:
        self.nemesis.heal()
        self.observers.heal()
        self.moves.over = self.growth.over = True
        self.gray_links.heal()
        self.cluster.orders.heal()
        healed_us = self.cluster.world.now_us
        for member in self.members:
            member.quiet = True
        if self.churn is not None:
            self.churn.admin.quiet = True
        if self.transactions is not None:
            self.transactions.calm()
        longest_ms = max((plan.rebalance_ms for plan in self.plans.values()), default=0)
        limit_ms = STABLE_MS_MAX + 2 * longest_ms
        self._wait(lambda: self._unstable(healed_us), lambda: not self._unstable(healed_us), limit_ms)
        replacements = self.nemesis.replacements
        self._wait(replacements.unfinished, lambda: not replacements.unfinished(), REPLACED_MS_MAX)
        self._wait(self.observers.unfinished, lambda: not self.observers.unfinished(), JOINED_MS_MAX)
        self.moves.heal()
        self._wait(self.moves.unfinished, lambda: not self.moves.unfinished(), MOVED_MS_MAX)
        for client in self.clients:
            client.stop()
        self._wait(
            lambda: [client.name for client in self.clients if not client.done],
            lambda: all(client.done for client in self.clients),
            limit_ms + 10_000,
        )
        if self.transactions is not None:
            watch = self.transactions.watch
            self._wait(watch.unfinished, lambda: not watch.unfinished(), ENDED_MS_MAX)
        readers = self._readers()
        for reader in readers:
            reader.start()
        self._wait(lambda: "final read", lambda: all(reader.done for reader in readers), SETTLE_MS_MAX)
        self._wait(lambda: drains.marked(self.cluster), lambda: not drains.marked(self.cluster), SETTLE_MS_MAX)
        if self.churn is not None:
            self._wait(self.churn.left_over, lambda: not self.churn.left_over(), SETTLE_MS_MAX)
        self._wait(lambda: "all replicas equal", self.cluster.settled, SETTLE_MS_MAX)
        self._wait(lambda: check_emptied(self.cluster), lambda: not check_emptied(self.cluster), SETTLE_MS_MAX)
        if self.cluster.harm.rotten:
            self._wait(lambda: damaged_logs(self.cluster), lambda: not damaged_logs(self.cluster), REPAIRED_MS_MAX)
            self._wait(lambda: "all replicas equal again", self.cluster.settled, SETTLE_MS_MAX)
        self._link(LINKED_MS_MAX)

    def _link(self, limit_ms: int) -> None:
        """All pairs of processes have one connection. A cluster may be level before that: a quorum needs not all."""
        net = self.cluster.net
        if not isinstance(net, MeshNet):
            return
        for _ in range(0, limit_ms, LOOK_MS):
            if self.cluster.violations or not net.not_linked_once():
                return
            self._pass(LOOK_MS)
        self.cluster.violations += [Violation("link", text) for text in net.not_linked_once()]

    def _unstable(self, healed_us: int) -> list[str]:
        """Who has not got where it should be (L1)."""
        found = [
            client.name
            for client in self.committers
            if client.last_success_us <= healed_us and not client.name.endswith("rogue")
        ]
        found += [c.name for c in self.of_topics if c.last_success_us <= healed_us]
        for group in self.plans:
            here = [member for member in self.members if member.plan.name == group and not member.fenced]
            if len({member.generation for member in here}) > 1:
                found.append(f"{group} is in generations {sorted({m.generation for m in here})}")
            found += [member.name for member in here if not member.stable]
        return found

    def _readers(self) -> list[Reader]:
        keys: dict[str, set[tuple[str, int]]] = {}
        for op in self.cluster.history.of(frames.COMMIT):
            keys.setdefault(op.group, set()).update((row[0], row[1]) for row in op.ask.rows)
        return [
            Reader(self.cluster, f"reader/{group}", group, tuple(sorted(found)))
            for group, found in sorted(keys.items())
        ]

    def _judge(self) -> None:
        cluster = self.cluster
        self.oracle.compare_states()
        self.oracle.compare_members()
        self.oracle.mark_files()
        for op in cluster.history.of(frames.COMMIT):
            if op.answer is not None:
                cluster.marks.update(f"commit answered {code}" for code in op.answer.values() if code)
        found = cluster.violations
        found += check_offsets(cluster.history, but=CHURN_GROUP if self.churn is not None else "")
        found += check_groups(cluster.history, self.plans)
        for group, plan in self.plans.items():
            if plan.calm:
                seats = {member.instance or member.name for member in self.members if member.plan is plan}
                if not any(crew.name == group and (crew.twins or crew.rogue) for crew in self.plan.crews):
                    found += check_calm(cluster.history, plan, len(seats))
        found += self._judge_logs()
        if self.plan.data_partitions:
            found += check_topics(cluster, [*self.producers, *self.pipelines], self.topic_readers)
        if self.churn is not None:
            found += self.churn.judge()
        if self.transactions is not None:
            found += self.transactions.judge(() if self.compaction is None else self.compaction.truth())
        if self.compaction is not None:
            found += self.compaction.judge()

    def _judge_logs(self) -> list[Violation]:
        """The offsets logs. Of one that was cleaned not all is there that the audit asks for."""
        cluster, found = self.cluster, []
        apart = frozenset() if self.transactions is None else self.transactions.groups
        audit = Audit(cluster.history, partial=CHURN_GROUP, apart=apart)
        whole = True
        for partition in range(cluster.setup.partitions):
            number = GroupNo(FIRST_OFFSETS_GROUP + partition)
            if any(cleaned_here(replica, number) for replica in cluster.holders(number)):
                whole = False
                cluster.marks.add("an offsets log was cleaned")
                found += compare_cleaned(cluster, partition)
                continue
            batches, differences = compare_logs(cluster, number)
            found += differences
            audit.partition(batches)
        return found + audit.finish() if whole else found


def check_emptied(cluster: Cluster) -> list[Violation]:
    """Replicas that lost their disks and do not stay out, or do not say so (R7)."""
    found = []
    for replica in cluster.replicas:
        said = replica.node.bootstrap.formation.status
        if replica.emptied and (replica.node.group_manager is not None or "stays out" not in said):
            found.append(Violation("R7", f"{replica.broker} lost its disk, and says: {said}"))
    return found


def run(plan: Plan, *, traced: bool = False) -> Result:
    """Run a plan and judge it. An error that escapes is a violation: every assertion here is a check. `traced`: for
    comparisons with other runs."""
    try:
        return Run(plan, traced=traced).run()
    except Exception as error:  # noqa: BLE001  # the outermost loop: one seed must not end the others
        where = "".join(traceback.format_exception(error)[-3:]).strip()
        return Result(plan.seed, [Violation(type(error).__name__, where)], faults=len(plan.faults))
