"""Idempotent producers that pipeline, while leadership comes and goes: each record once, in order, and no answer that
makes a client believe otherwise (docs/adr/0018)."""

from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.records.batch import parse_header
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient, code
from tests.records.made import split_batches
from tests.replica.cluster import SimCluster
from tests.sim.loop import World
from tests.topics.batch_bytes import idempotent

DATA = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=())


class Pipeline:
    """One producer's connection to the partition's leader."""

    def __init__(self, seed):
        self.cluster = cluster = SimCluster(World(seed))
        cluster.start()
        assert cluster.submit(0, DATA).error == Code.NONE
        cluster.world.run_for(200)
        self.group = GroupNo(cluster.nodes[0].image().topics["data"].partitions[0].group)
        self.leader = cluster.wait_leader(self.group)
        self.client = KafkaClient(cluster.nodes[self.leader])
        self.others = [broker for broker in cluster.nodes if broker != self.leader]

    @property
    def held(self):
        return self.cluster.nodes[self.leader].host.groups[self.group]

    def send(self, *records, timeout_ms=3_000):
        """Batches, each in a request of its own; nothing is waited for."""
        for one in records:
            data = [{"name": "data", "partition_data": [{"index": 0, "records": one}]}]
            self.client.send(Api.PRODUCE, 9, acks=-1, timeout_ms=timeout_ms, topic_data=data)

    def receive(self, count):
        """The codes of so many answers."""
        found = []

        def there():
            found.extend(self.client.receive())
            return len(found) >= count

        self.cluster.world.run_until("answers", there, 10_000)
        return [code(answer.responses[0].partition_responses[0].error_code) for answer in found]

    def stored(self):
        """First sequences of the batches, in the order of the log."""
        state = self.cluster.nodes[self.leader].local_log(self.group).state
        state.write_out()
        data = state.log.read(0, 1 << 20, True)
        return [parse_header(batch).base_sequence for batch in split_batches(data)]


def hand_over_in_vain(pipeline):
    """The target never hears of it, so the leader refuses for a while and then goes on."""
    target = pipeline.others[0]
    pipeline.cluster.net.cut(pipeline.leader, target)
    assert pipeline.cluster.nodes[pipeline.leader].transfer(pipeline.group, BrokerId(target))
    pipeline.cluster.world.run_for(50)  # what asks the target to campaign is sent, and lost
    assert pipeline.held.transferring


def give_up_hand_over(pipeline):
    pipeline.cluster.net.heal()
    pipeline.cluster.world.run_until("the leader goes on", lambda: not pipeline.held.transferring)
    assert pipeline.held.serves


def test_what_was_pipelined_behind_a_refused_batch_is_refused_with_it():
    pipeline = Pipeline(1)
    pipeline.send(idempotent(0))
    assert pipeline.receive(1) == [Code.NONE]
    hand_over_in_vain(pipeline)
    pipeline.send(idempotent(1))
    give_up_hand_over(pipeline)
    pipeline.send(idempotent(2), idempotent(3))
    assert pipeline.receive(3) == [Code.NOT_LEADER_OR_FOLLOWER] * 3
    pipeline.send(idempotent(1), idempotent(2), idempotent(3))
    assert pipeline.receive(3) == [Code.NONE] * 3
    assert pipeline.stored() == [0, 1, 2, 3]


def test_a_producer_that_nobody_knows_does_not_begin_with_its_second_batch():
    pipeline = Pipeline(2)
    hand_over_in_vain(pipeline)
    pipeline.send(idempotent(0))
    give_up_hand_over(pipeline)
    pipeline.send(idempotent(1))
    assert pipeline.receive(2) == [Code.NOT_LEADER_OR_FOLLOWER] * 2
    pipeline.send(idempotent(0), idempotent(1))
    assert pipeline.receive(2) == [Code.NONE] * 2
    assert pipeline.stored() == [0, 1]


def test_what_perhaps_is_stored_is_not_called_refused():
    """librdkafka takes NOT_LEADER_OR_FOLLOWER for "not stored", and may tell its application so. That is true of the
    third batch: it comes when this replica knows that it does not lead."""
    pipeline = Pipeline(3)
    pipeline.cluster.net.isolate(pipeline.leader)
    pipeline.send(idempotent(0), idempotent(1), timeout_ms=30_000)
    assert pipeline.receive(2) == [Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 2
    pipeline.send(idempotent(2))
    assert pipeline.receive(1) == [Code.NOT_LEADER_OR_FOLLOWER]


def test_a_follower_of_an_unknown_batch_is_not_out_of_order_when_the_replica_leads_again():
    pipeline = Pipeline(4)
    pipeline.send(idempotent(0))
    assert pipeline.receive(1) == [Code.NONE]
    pipeline.cluster.net.isolate(pipeline.leader)
    pipeline.send(idempotent(1), timeout_ms=30_000)
    assert pipeline.receive(1) == [Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    pipeline.cluster.net.heal()
    pipeline.cluster.wait_ready()
    now = pipeline.cluster.wait_leader(pipeline.group)
    pipeline.cluster.world.run_for(1_000)
    assert pipeline.cluster.nodes[now].transfer(pipeline.group, BrokerId(pipeline.leader))
    pipeline.cluster.world.run_until("it leads again", lambda: pipeline.held.serves)
    pipeline.send(idempotent(2))
    assert pipeline.receive(1) == [Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    pipeline.send(idempotent(1), idempotent(2))
    assert pipeline.receive(2) == [Code.NONE] * 2
    assert pipeline.stored() == [0, 1, 2]
