"""What one seed means: sizes, settings, clients and every fault, drawn before the run (swarm testing).

Faults come from a stream of their own, so that another workload does not reshuffle them; each has a number, and a run
can be repeated with some of them only (`shrink`). A seed enables a random subset of the kinds of faults; some seeds
enable none, because a cluster without faults breaks promises too.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from muster_coordinator.api.services import TopicsMode

from tests.made_settings import shard_config
from tests.sim.cluster import Setup
from tests.sim.members import GroupPlan
from tests.sim.moves import VOTERS

KIB = 1024
KINDS = (
    "kill", "kill-at-boundary", "power", "power-at-boundary", "power-all", "isolate", "one-way", "halves", "ring",
    "reset-links", "slow-disk", "disk-error", "slow-links", "lossy-links", "replaying-links", "clock-step", "pause",
    "transfer", "block-client", "reset-clients", "full-disk", "stalled-thread", "refused-sends", "link-rate",
    "clock-drift", "drain", "lost-disk", "bit-rot",
)  # fmt: skip
"""See `nemesis`."""
REPLACE_SHARE = 0.7
OBSERVERS_SHARE = 0.3
"""Of all seeds: in these somebody has lost disks replaced, in the others those replicas stay out."""
EARLY_LOSS_SHARE = 0.27
"""Of the numbered seeds in which a lost disk is replaced: there is time for that, and for what follows."""
LOST_AGAIN, MOUNTED = "the new disk is lost as well", "the lost disk is mounted"
EARLY_LOSS_MS = 2_000
RACKS = ((), ("a", "b", "c"), ("a", "b"), ("a", "", "b", "b"))
"""Of the brokers; what is short is dealt from its beginning again."""
TRANSACTIONS_SHARE = 0.5
COMPACTION_SHARE = 0.4
"""Of the seeds with topics."""
COMPACTING = {"cleaner_backoff_ms": 300, "segment_flush_ms": 200}
DAYS_MS = 10 * 86_400_000
STORM_MS_MAX = 18_000
STAGES = ("decided", "some markers", "all markers", "epoch")
"""Where coordinators die (`transaction_watch`)."""
CHURN_SHARE = 0.35
"""Of the seeds with topics."""
RETENTION_SHARE = 0.15
"""Of the numbered seeds with such a topic: in the second half of the storm it stays, and retention takes records."""
CLEANING_SHARE = 0.25
"""Of all numbered seeds (mutants have names): their offsets logs are cleaned while all else goes on."""
MESH_SHARE = 0.7
"""Of all seeds: their peer links are the product's own mesh over simulated TCP, those of the others the model of them,
which loses single messages, too."""
SYNC_SHARE = 0.5
"""Of the numbered seeds: their segments are synced between flushes, as those of large partitions are."""
SYNCED_BYTES = (1, 2 * KIB, 16 * KIB)
RETENTION_CHECK_MS = 700
SERVER_CONFIGS = (("segment.bytes", "4096"),)
"""Of clusters where topics are altered: small segments, so that retention has something to take."""
CLEANED = {
    "checkpoint_bytes": 4 * KIB,
    "offsets_segment_bytes": 4 * KIB,
    "segment_flush_ms": 200,
    "cleaner_backoff_ms": 300,
}
CALM_MS = 25_000
"""Session and rebalance time-outs of groups that must never rebalance for a fault."""


class Fault(NamedTuple):
    """`picks`: replicas, as `node:2` or `leader:1` (of that offsets partition when it happens)."""

    number: int
    at_ms: int
    kind: str
    picks: tuple[str, ...]
    ms: int
    """How long it lasts."""
    amount: int
    """Boundaries, milliseconds of a clock step, per mille of lost or repeated messages (`nemesis`)."""


class SeatPlan(NamedTuple):
    """One transactional id."""

    name: str
    timeout_ms: int
    second: bool
    """Transaction version 2."""
    copies: int | None
    """This partition of the topic that producers write to; None: it makes up its records."""
    keys: int = 0
    """It writes records with so many keys to the compacted topic."""


class Death(NamedTuple):
    """A coordinator ends at the next boundaries after something of a transaction was applied."""

    at_ms: int
    """Not before."""
    stage: str
    boundaries: int
    power: bool


class TransactionPlan(NamedTuple):
    """Transactional clients of one topic."""

    partitions: int
    seats: tuple[SeatPlan, ...]
    deaths: tuple[Death, ...]


class CompactionPlan(NamedTuple):
    """A compacted topic."""

    keys: int
    delete_retention_ms: int
    """Of tombstones; above 0: longer than any run, whatever the clocks do."""


class Crew(NamedTuple):
    """Clients of one group."""

    name: str
    committers: int
    pause_ms: int
    keys: int
    plan: GroupPlan | None
    dynamic: int
    static: int
    twins: int
    """Static members whose instance id a second member claims."""
    restart: float
    """Chance at each heartbeat that a static member starts anew."""
    rogue: bool
    """Somebody commits without a generation."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All of it. `replay` says how to run it again."""

    seed: str
    setup: Setup
    crews: tuple[Crew, ...]
    faults: tuple[Fault, ...]
    data_partitions: int
    """Of the topic that producers write to; 0: no topics here."""
    storm_ms: int
    """Faults happen in this time; then everything is healed."""
    churn: bool = False
    """One more topic is deleted, created again and altered all the time."""
    stays_from_ms: int | None = None
    """From then on that topic stays, and is altered so that retention takes what it has."""
    replaces: bool = False
    """Lost disks are replaced."""
    follows: str = ""
    """What is sure to follow that (LOST_AGAIN, MOUNTED); else it is drawn."""
    transactions: TransactionPlan | None = None
    compaction: CompactionPlan | None = None
    extras: dict[str, Any] = field(default_factory=dict)

    def only(self, faults: list[int]) -> "Plan":
        """The same run with some of its faults."""
        return replace(self, faults=tuple(f for f in self.faults if f.number in faults))


def draw(
    seed: int | str,
    *,
    kinds: tuple[str, ...] | None = None,
    storm_ms: int | None = None,
    topics: bool = False,
    churn: bool = False,
    transactions: bool = False,
    compaction: bool = False,
) -> Plan:
    """The plan of a seed. `kinds`: aim it at these faults. `topics`: with producers and readers, whatever it draws;
    `churn`: and with a topic that comes and goes; `transactions`: and with transactional clients; `compaction`: and
    with a compacted topic."""
    name = str(seed)
    setup_rand = random.Random(f"{name}/setup")
    setup = _setup(name, setup_rand)
    if topics or churn or transactions or compaction:
        setup = replace(setup, topics_mode=TopicsMode.EMBEDDED)
    setup = replace(setup, mesh=random.Random(f"{name}/links").random() < MESH_SHARE)
    embedded = setup.topics_mode is TopicsMode.EMBEDDED
    churn = churn or (embedded and kinds is None and random.Random(f"{name}/churn").random() < CHURN_SHARE)
    if churn:
        node = {**setup.node, "topic_configs": SERVER_CONFIGS, "retention_check_ms": RETENTION_CHECK_MS}
        setup = replace(setup, node=node)
    compacted = _compaction(name) if embedded and (compaction or _draws(name, "compaction", COMPACTION_SHARE)) else None
    if compacted is not None:
        node = {**setup.node, "topic_configs": SERVER_CONFIGS, **COMPACTING}
        setup = replace(setup, node=node)
    joining = random.Random(f"{name}/observers")
    if joining.random() < OBSERVERS_SHARE:
        setup = replace(setup, observers=joining.randint(1, 2))
    cleaning = random.Random(f"{name}/cleaning")
    if name.isdecimal() and kinds is None and cleaning.random() < CLEANING_SHARE:
        history_bytes, rate = cleaning.choice((4 * KIB, 16 * KIB)), cleaning.choice((16 * KIB, 1024 * KIB))
        cleaned = {**CLEANED, "offsets_history_bytes": history_bytes, "cleaner_rate": rate}
    else:  # nothing there is ever large enough to be cleaned: not even a timer, so that what was drawn runs as it ran
        cleaned = {"internal_compacts": False}
    setup = replace(setup, node={**setup.node, **cleaned})
    if _draws(name, "sync", SYNC_SHARE):
        synced = random.Random(f"{name}/synced").choice(SYNCED_BYTES)
        setup = replace(setup, node={**setup.node, "segment_sync_bytes": synced})
    setup = replace(setup, racks=random.Random(f"{name}/racks").choice(RACKS))
    replaces = random.Random(f"{name}/replace").random() < REPLACE_SHARE
    work_rand = random.Random(f"{name}/workload")
    crews = _crews(work_rand)
    data_partitions = work_rand.randint(1, 2) if embedded else 0
    fault_rand = random.Random(f"{name}/faults")
    length_ms = storm_ms or fault_rand.choice((8_000, 12_000, 12_000, STORM_MS_MAX))
    transacts = embedded and (transactions or _draws(name, "transactions", TRANSACTIONS_SHARE))
    stays = churn and kinds is None and _draws(name, "retention", RETENTION_SHARE)
    plan = Plan(
        seed=name,
        setup=setup,
        crews=crews,
        faults=_faults(fault_rand, setup, length_ms, kinds),
        data_partitions=data_partitions,
        storm_ms=length_ms,
        churn=churn,
        stays_from_ms=length_ms // 2 if stays else None,
        replaces=replaces,
        transactions=_transactions(name, data_partitions, length_ms, compacted) if transacts else None,
        compaction=compacted,
    )
    return _early_loss(plan) if kinds is None and _draws(name, "early loss", EARLY_LOSS_SHARE) else plan


def _early_loss(plan: Plan) -> Plan:
    """The first disk is lost at once and the storm is as long as any, so that what an administrator may do wrong after
    a replacement, or what may happen within it, has its time."""
    first = next((fault for fault in plan.faults if fault.kind == "lost-disk"), None)
    if first is None or not plan.replaces:
        return plan
    early = first._replace(at_ms=EARLY_LOSS_MS)
    faults = tuple(sorted((early if fault is first else fault for fault in plan.faults), key=_moment))
    follows = random.Random(f"{plan.seed}/follows").choice((LOST_AGAIN, MOUNTED))
    return replace(plan, faults=faults, storm_ms=STORM_MS_MAX, follows=follows)


def _moment(fault: Fault) -> tuple[int, int]:
    return fault.at_ms, fault.number


def _draws(name: str, what: str, share: float) -> bool:
    """By a stream of its own, which leaves all others as they were. Numbered seeds only: mutants say what they want."""
    return name.isdecimal() and random.Random(f"{name}/{what}").random() < share


def _compaction(name: str) -> CompactionPlan:
    rand = random.Random(f"{name}/compacted")
    return CompactionPlan(rand.choice((3, 12)), rand.choice((0, DAYS_MS)))


def _transactions(name: str, data_partitions: int, length_ms: int, compacted: CompactionPlan | None) -> TransactionPlan:
    rand = random.Random(f"{name}/transacting")
    seats = [
        SeatPlan(f"writer-{n}", rand.choice((1_000, 2_500, 5_000)), rand.random() < 0.5, None)
        for n in range(rand.randint(1, 2))
    ]
    if rand.random() < 0.7:
        copies = rand.randrange(data_partitions)
        seats.append(SeatPlan("copier", rand.choice((1_000, 2_500, 5_000)), rand.random() < 0.5, copies))
    if compacted is not None:
        timeout_ms = rand.choice((1_000, 2_500))
        seats.append(SeatPlan("keyed-writer", timeout_ms, rand.random() < 0.5, None, compacted.keys))
    drawn = [
        Death(rand.randint(1_500, length_ms), rand.choice(STAGES), rand.randint(0, 2), rand.random() < 0.5)
        for _ in range(rand.randint(0, 3))
    ]
    deaths = tuple(_soon(death) if death.stage == "epoch" else death for death in drawn)
    return TransactionPlan(rand.randint(2, 3), tuple(seats), deaths)


def _soon(death: Death) -> Death:
    """Epochs are raised seldom, and are told at the next boundary but one: who comes later has nothing to end."""
    return death._replace(at_ms=death.at_ms // 4, boundaries=death.boundaries // 2)


def _setup(seed: str, rand: random.Random) -> Setup:
    node: dict[str, Any] = {
        "wal_file_bytes": rand.choice((128 * KIB, 256 * KIB)),
        "wal_bytes_max": rand.choice((2048 * KIB, 8192 * KIB)),
        "checkpoint_bytes": rand.choice((4 * KIB, 32 * KIB, 1 << 26)),
        "trailing_entries": rand.choice((10, 200, 5_000)),
        "offsets_segment_bytes": rand.choice((8 * KIB, 64 * KIB, 1 << 26)),
        "segment_flush_ms": rand.choice((200, 2_000, 30_000)),
        "takeback_ms": rand.choice((2_000, 30_000)),
        # Drawn apart, so that it leaves all other draws of a seed as they were.
        "balancer_quiet_ms": random.Random(f"{seed}/balancer").choice((-1, 500, 2_000)),
    }
    nodes = 5 if rand.random() < 0.15 else 3
    if nodes != VOTERS:  # two of five may be lost for good, and a move that began then would wait for them (`moves`)
        node["balancer_quiet_ms"] = -1
    return Setup(
        seed=seed,
        nodes=nodes,
        partitions=rand.randint(2, 4),
        shard=shard_config(
            session_timeout_min_ms=500,
            session_timeout_max_ms=2 * CALM_MS,
            initial_rebalance_delay_ms=rand.choice((0, 0, 300)),
        ),
        topics_mode=TopicsMode.EMBEDDED if rand.random() < 0.25 else TopicsMode.NONE,
        node=node,
        disk_us=rand.choice(((50, 300), (100, 2_000), (500, 8_000))),
        slice_us=rand.choice(((1, 50), (10, 1_000))) if rand.random() < 0.2 else None,
        link_us=rand.choice(((20, 200), (50, 800), (500, 5_000))),
    )


def _crews(rand: random.Random) -> tuple[Crew, ...]:
    crews = []
    for number in range(rand.randint(1, 2)):
        crews.append(
            Crew(
                f"simple-{number}",
                rand.randint(1, 3),
                rand.choice((60, 150, 400)),
                rand.randint(1, 4),
                None,
                0,
                0,
                0,
                0,
                False,
            )
        )
    for number in range(rand.randint(1, 3)):
        calm = rand.random() < 0.35
        plan = GroupPlan(
            name=f"group-{number}",
            topic=f"topic-{number}",
            partitions=rand.randint(1, 6),
            session_ms=CALM_MS if calm else rand.choice((1_500, 3_000, 6_000)),
            rebalance_ms=CALM_MS if calm else rand.choice((1_500, 4_000)),
            heartbeat_ms=rand.choice((200, 500)),
            commit_ms=rand.choice((200, 600)),
            consumer=rand.random() < 0.8,
            restless=0.0 if calm else rand.choice((0.0, 0.01, 0.05)),
            zombies=rand.choice((0.0, 0.3)),
            two_protocols=rand.random() < 0.3,
            calm=calm,
        )
        static = rand.randint(0, 3) if rand.random() < 0.5 else 0
        dynamic = rand.randint(0 if static else 1, 3)
        twins = 1 if static and not calm and rand.random() < 0.3 else 0
        restart = 0.03 if static and rand.random() < 0.6 else 0.0
        rogue = not calm and rand.random() < 0.4
        crews.append(Crew(plan.name, 0, 0, 0, plan, dynamic, static, twins, restart, rogue))
    return tuple(crews)


def _faults(rand: random.Random, setup: Setup, length_ms: int, kinds: tuple[str, ...] | None) -> tuple[Fault, ...]:
    if kinds is None:
        if rand.random() < 0.08:
            return ()
        kinds = tuple(kind for kind in KINDS if rand.random() < 0.5)
    if not kinds:
        return ()
    count = rand.randint(2, 4 + length_ms // 1_500)
    # Some seeds begin with faults while the cluster is being formed.
    first_ms = 0 if rand.random() < 0.15 else 1_500
    found = [_fault(rand, number, rand.choice(kinds), first_ms, length_ms, setup) for number in range(count)]
    return tuple(sorted(found, key=_moment))


def _fault(rand: random.Random, number: int, kind: str, first_ms: int, length_ms: int, setup: Setup) -> Fault:
    at_ms = rand.randint(first_ms, length_ms)
    picks = tuple(_pick(rand, setup) for _ in range(rand.choice((1, 1, 1, 2))))
    ms = rand.choice((100, 400, 1_200, 3_000, 5_000))
    amount = rand.randint(0, 60)
    match kind:
        case "clock-step":
            amount = rand.choice((-3_600_000, -5_000, 5_000, 3_600_000))
        case "clock-drift":
            amount = rand.choice((-2_000, -200, 200, 2_000))
        case "link-rate":
            amount = rand.choice((200, 1_000, 5_000))
        case "lossy-links" | "replaying-links":
            amount = rand.choice((10, 50, 200))
        case "slow-disk":
            amount = rand.choice((20, 100, 600))
        case "slow-links":
            amount = rand.choice((5, 40, 150))
        case "pause":
            ms = rand.choice((300, 1_500, 4_000))
        case _:
            pass
    return Fault(number, at_ms, kind, picks, ms, amount)


def _pick(rand: random.Random, setup: Setup) -> str:
    if rand.random() < 0.6:
        return f"leader:{rand.randrange(setup.partitions)}"
    return f"node:{rand.randrange(setup.nodes)}"
