"""What a folder says of itself is held against what clients had been told, whoever led, died or was cut off before (ADR
40): below CERTAIN nothing acknowledged is missing, from END on everything is."""

import random

from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.topics.machine import ProduceResult

from tests.replica.cluster import SimCluster
from tests.replica.recovery.lost_majority import (
    SURVIVOR,
    TOPIC_GROUP,
    held,
    log_end,
    look,
    lose_majority,
    members,
    recover,
)
from tests.replica.serving_cluster import commit_everywhere, formed

SMALL_CHECKPOINTS = {"checkpoint_bytes": 3_000, "segment_flush_ms": 300, "segment_flush_bytes": 2_000}


class Clients:
    """A producer that sends to every replica that thinks it leads, and what it was told: offset -> value."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.told: dict[int, bytes] = {}
        self.sent = 0

    def produce(self) -> None:
        for broker, node in list(self.cluster.nodes.items()):
            held = node.host.groups.get(TOPIC_GROUP)
            log = node.local_log(TOPIC_GROUP)
            if log is None or held is None or not held.leads:
                continue
            self.sent += 1
            value = b"%06d" % self.sent * 20
            batch = encode_batch([(None, value)], timestamp_ms=1_700_000_000_000 + self.sent)
            deadline_ms = self.cluster.loops[broker].monotonic_ms() + 5_000
            log.produce(batch, configs={}, deadline_ms=deadline_ms, done=self._done(value))

    def _done(self, value: bytes):
        def done(result: ProduceResult) -> None:
            if result.code == Code.NONE:
                assert result.base_offset not in self.told, "an offset is acknowledged once"
                self.told[result.base_offset] = value

        return done


def stored(cluster: SimCluster, end: int) -> dict[int, bytes]:
    """The survivor's records, each in a batch of its own."""
    log = cluster.nodes[SURVIVOR].local_log(TOPIC_GROUP)
    assert log is not None
    found = {}
    for offset in range(end):
        answer = log.read(offset, 1, whole_first_batch=True)
        assert answer.code == Code.NONE
        found[offset] = answer.records
    return found


def storm(cluster: SimCluster, clients: Clients, rand: random.Random) -> None:
    """Clients at work while replicas die and links break, the survivor's too; in the end it is behind for a while."""
    for _ in range(rand.randrange(6, 14)):
        for _ in range(rand.randrange(1, 12)):
            clients.produce()
            cluster.world.run_for(rand.randrange(1, 120))
        what, victim = rand.random(), rand.choice(cluster.brokers)
        if what < 0.3:
            cluster.net.isolate(victim)
        elif what < 0.5:
            cluster.net.heal()
        elif what < 0.8 and victim in cluster.nodes:
            cluster.kill(victim)
            cluster.world.run_for(rand.randrange(1, 500))
            cluster.restart(victim)
        else:
            cluster.world.run_for(rand.randrange(500, 4_000))
    if rand.random() < 0.7:
        cluster.net.isolate(SURVIVOR)
    else:
        cluster.kill(SURVIVOR)
    for _ in range(rand.randrange(0, 30)):
        clients.produce()
        cluster.world.run_for(rand.randrange(50, 400))


def test_what_the_folder_says_is_what_clients_find() -> None:
    """And the seeds are worth something: records are lost behind the end, and between CERTAIN and END there are some
    that the lost majority had replaced."""
    lost = replaced = 0
    for seed in range(16):
        more_lost, more_replaced = judge(seed)
        lost, replaced = lost + more_lost, replaced + more_replaced
    assert lost > 20
    assert replaced > 0


def judge(seed: int) -> tuple[int, int]:
    """How many acknowledged records are lost, and how many were replaced."""
    cluster = formed(seed, **(SMALL_CHECKPOINTS if seed % 2 else {}))
    rand, clients = random.Random(seed), Clients(cluster)
    storm(cluster, clients, rand)
    lose_majority(cluster)
    cluster.net.heal()
    said = held(look(cluster.disks[SURVIVOR]), TOPIC_GROUP)
    recover(cluster.disks[SURVIVOR])
    cluster.restart(SURVIVOR)
    cluster.wait_ready([SURVIVOR])
    cluster.wait_leader(TOPIC_GROUP)
    assert said.certain_end is not None
    assert said.log_end is not None
    assert said.certain_end <= said.log_end == log_end(cluster, SURVIVOR), seed
    found = stored(cluster, said.log_end)
    for offset, value in clients.told.items():
        if offset < said.certain_end:
            assert value in found[offset], f"seed {seed}: offset {offset} was certain"
    behind = [offset for offset in clients.told if offset >= said.log_end]
    return len(behind), sum(
        clients.told[offset] not in batch for offset, batch in found.items() if offset in clients.told
    )


def test_what_was_replaced_was_never_certain() -> None:
    """The survivor led, and was cut off with a record that the others have replaced."""
    cluster = formed()
    cluster.wait_leader(TOPIC_GROUP)
    while cluster.wait_leader(TOPIC_GROUP) != SURVIVOR:
        leader = cluster.wait_leader(TOPIC_GROUP)
        cluster.kill(leader)
        cluster.wait_leader(TOPIC_GROUP)
        cluster.restart(leader)
        cluster.wait_ready()
    clients = Clients(cluster)
    clients.produce()
    cluster.converge()
    cluster.world.run_for(1_000)
    told = dict(clients.told)
    cluster.net.isolate(SURVIVOR)
    clients.produce()
    cluster.world.run_for(100)
    cluster.kill(SURVIVOR)
    cluster.net.heal()
    cluster.wait_leader(TOPIC_GROUP, among=[1, 2])
    clients.produce()
    cluster.world.run_until("the others have decided otherwise", lambda: len(clients.told) > len(told), 10_000)
    lose_majority(cluster)
    said = held(look(cluster.disks[SURVIVOR]), TOPIC_GROUP)
    assert (said.certain_end, said.log_end) == (1, 2)
    recover(cluster.disks[SURVIVOR])
    cluster.restart(SURVIVOR)
    cluster.wait_ready([SURVIVOR])
    found = stored(cluster, 2)
    assert clients.told[0] in found[0]
    assert clients.told[1] not in found[1], "kept, although nobody was told of it"


def test_the_terms_of_the_new_epoch_are_above_all_that_the_lost_ones_were_in() -> None:
    cluster = formed()
    commit_everywhere(cluster, 1)
    cluster.kill(SURVIVOR)
    for _ in range(3):
        leader = cluster.wait_leader(TOPIC_GROUP, among=[1, 2])
        cluster.kill(leader)
        cluster.restart(leader)
    cluster.wait_leader(TOPIC_GROUP, among=[1, 2])
    before = max(cluster.nodes[broker].host.groups[TOPIC_GROUP].core.term for broker in (1, 2))
    lose_majority(cluster)
    recover(cluster.disks[SURVIVOR])
    cluster.restart(SURVIVOR)
    cluster.wait_ready([SURVIVOR])
    for number, group in cluster.nodes[SURVIVOR].host.groups.items():
        assert group.core.term > before + 1_000, "clients take an earlier leader epoch for old news"
        assert members(cluster, SURVIVOR, GroupNo(number)).voters == (SURVIVOR,)
