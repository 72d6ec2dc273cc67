"""A leader that was deposed and does not know it yet, asked what it cannot know: there is more than it has seen.

Whoever is told "nothing is there" acts on it: a consumer jumps to the beginning or the end, an idempotent producer
begins a new epoch, an administrator believes that a group is gone. So such an answer waits for the proof of a round,
and is "ask somebody else" when the round fails.
"""

from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import Heartbeat, denies
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient, code
from tests.replica.cluster import SimCluster, commit_request
from tests.replica.test_leadership import join_request
from tests.sim.loop import World
from tests.topics.batch_bytes import batch, idempotent

DATA = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=())
OFFSETS_GROUP = GroupNo(1)


class Deposed:
    """`old` leads the group in its own eyes, `new` in those of the others."""

    def __init__(self, seed, group=None, before=lambda it: None):
        self.cluster = cluster = SimCluster(World(seed))
        cluster.start()
        assert cluster.submit(0, DATA).error == Code.NONE
        cluster.world.run_for(200)
        data = GroupNo(cluster.nodes[0].image().topics["data"].partitions[0].group)
        self.group = data if group is None else group
        self.old = cluster.wait_leader(self.group)
        self.clients = {}
        before(self)
        self.new = next(broker for broker in cluster.nodes if broker != self.old)
        term = self.held(self.old).core.term
        assert cluster.nodes[self.old].transfer(self.group, BrokerId(self.new))
        cluster.world.run_until("the target was told", lambda: self.held(self.new).core.term > term)
        cluster.net.isolate(self.old)
        cluster.world.run_until("the target serves", lambda: self.held(self.new).serves)
        assert self.held(self.old).serves, "the old leader has not noticed"

    def held(self, broker):
        return self.cluster.nodes[broker].host.groups[self.group]

    def ask(self, broker, api, version, **request):
        """One request of the broker's one client, and its answer."""
        if broker not in self.clients:
            self.clients[broker] = KafkaClient(self.cluster.nodes[broker])
        client = self.clients[broker]
        client.send(api, version, **request)
        answers = []

        def there():
            answers.extend(client.receive())
            return answers

        self.cluster.world.run_until("an answer", there, 5_000)
        return answers[0]

    def produce(self, broker, records):
        data = [{"name": "data", "partition_data": [{"index": 0, "records": records}]}]
        answer = self.ask(broker, Api.PRODUCE, 9, acks=-1, timeout_ms=3_000, topic_data=data)
        part = answer.responses[0].partition_responses[0]
        return code(part.error_code), part.base_offset

    def delete_records(self, broker, offset):
        topics = [{"name": "data", "partitions": [{"partition_index": 0, "offset": offset}]}]
        answer = self.ask(broker, Api.DELETE_RECORDS, 2, topics=topics, timeout_ms=3_000)
        return code(answer.topics[0].partitions[0].error_code)

    def fetch(self, broker, offset, **more):
        parts = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}]
        answer = self.ask(
            broker,
            Api.FETCH,
            12,
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[{"topic": "data", "partitions": parts}],
        )
        return answer.responses[0].partitions[0]


def test_an_offset_that_a_newer_leader_has_acknowledged_is_not_out_of_range():
    deposed = Deposed(1)
    assert deposed.produce(deposed.new, batch(5)) == (Code.NONE, 0)
    assert code(deposed.fetch(deposed.old, 3).error_code) == Code.NOT_LEADER_OR_FOLLOWER
    assert code(deposed.fetch(deposed.new, 3).error_code) == Code.NONE


def test_an_offset_that_nobody_has_is_out_of_range_where_the_leader_is():
    deposed = Deposed(2)
    assert code(deposed.fetch(deposed.new, 3).error_code) == Code.OFFSET_OUT_OF_RANGE


def test_what_lies_below_the_log_start_needs_no_proof():
    """It was deleted for good: a replica that is cut off knows that as well as anybody."""
    deposed = Deposed(3, before=lambda it: (it.produce(it.old, batch(5)), it.delete_records(it.old, 4)))
    assert code(deposed.fetch(deposed.old, 3).error_code) == Code.OFFSET_OUT_OF_RANGE


def test_an_epoch_whose_end_a_newer_leader_has_moved_is_not_diverging():
    deposed = Deposed(4, before=lambda it: it.produce(it.old, batch(5)))
    term = deposed.held(deposed.old).core.term
    assert deposed.produce(deposed.new, batch(5)) == (Code.NONE, 5)
    for broker, expected in ((deposed.old, Code.NOT_LEADER_OR_FOLLOWER), (deposed.new, Code.NONE)):
        part = deposed.fetch(broker, 7, last_fetched_epoch=term + 1)
        assert code(part.error_code) == expected, broker
    part = deposed.fetch(deposed.old, 7, last_fetched_epoch=term)
    assert code(part.error_code) == Code.NOT_LEADER_OR_FOLLOWER


def test_the_end_of_an_epoch_is_told_by_who_leads():
    deposed = Deposed(5, before=lambda it: it.produce(it.old, batch(5)))
    term = deposed.held(deposed.old).core.term
    topics = [{"topic": "data", "partitions": [{"partition": 0, "leader_epoch": term, "current_leader_epoch": -1}]}]
    found = {}
    for broker in (deposed.old, deposed.new):
        answer = deposed.ask(broker, Api.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics)
        part = answer.topics[0].partitions[0]
        found[broker] = (code(part.error_code), part.end_offset)
    assert found == {deposed.old: (Code.NOT_LEADER_OR_FOLLOWER, -1), deposed.new: (Code.NONE, 5)}


def test_a_batch_is_out_of_order_or_fenced_only_where_the_producers_history_is_known():
    """librdkafka begins a new epoch then, and sends again what has an unknown fate: a duplicate."""
    deposed = Deposed(6, before=lambda it: it.produce(it.old, idempotent(0)))
    deposed.held(deposed.old).core.transfer_target = -1  # given up; it does not know that it succeeded
    assert deposed.produce(deposed.new, idempotent(1)) == (Code.NONE, 1)
    assert deposed.produce(deposed.old, idempotent(2))[0] == Code.NOT_LEADER_OR_FOLLOWER
    assert deposed.produce(deposed.new, idempotent(5))[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert deposed.produce(deposed.new, idempotent(0, epoch=1)) == (Code.NONE, 2)
    assert deposed.produce(deposed.new, idempotent(2))[0] == Code.INVALID_PRODUCER_EPOCH


def test_records_cannot_be_deleted_beyond_an_end_that_is_not_the_end():
    deposed = Deposed(7)
    assert deposed.produce(deposed.new, batch(5)) == (Code.NONE, 0)
    assert deposed.delete_records(deposed.old, 3) == Code.NOT_LEADER_OR_FOLLOWER
    assert deposed.delete_records(deposed.new, 9) == Code.OFFSET_OUT_OF_RANGE
    assert deposed.delete_records(deposed.new, 3) == Code.NONE


def test_groups_are_listed_by_who_leads():
    """ "No such group" makes an administrator act, or a tool that cleans up."""
    deposed = Deposed(8, OFFSETS_GROUP)
    assert deposed.cluster.commit(deposed.new, 0, "g", 5) == Code.NONE
    listed = {}
    for broker in (deposed.old, deposed.new):
        answer = deposed.ask(broker, Api.LIST_GROUPS, 4, states_filter=[])
        listed[broker] = (code(answer.error_code), [group.group_id for group in answer.groups])
    assert listed[deposed.old][0] == Code.COORDINATOR_NOT_AVAILABLE
    assert "g" in listed[deposed.new][1]


def test_a_member_that_joined_elsewhere_is_not_unknown():
    """It would give up its partitions, and its id."""
    deposed = Deposed(9, OFFSETS_GROUP)
    joined = deposed.cluster.ask(deposed.new, 0, join_request())
    assert joined.error == Code.NONE
    heartbeat = Heartbeat("g", joined.generation, joined.member, None)
    deposed.held(deposed.old).core.transfer_target = -1  # given up, else requests are parked
    commit = commit_request("g", 5)._replace(generation=joined.generation, member=joined.member)
    assert deposed.cluster.nodes[deposed.old].heartbeat_at_once(0, heartbeat, 1) is None
    for request in (heartbeat, commit, join_request(member=joined.member)):
        waiting = deposed.cluster.ask_later(deposed.old, 0, request)
        deposed.cluster.world.run_until("an answer", lambda answers=waiting: answers, 5_000)
        assert not denies(waiting[0]), waiting


def test_a_member_that_nobody_knows_is_told_so_where_the_coordinator_is():
    deposed = Deposed(10, OFFSETS_GROUP)
    answer = deposed.cluster.ask(deposed.new, 0, Heartbeat("g", 1, "nobody", None))
    assert answer.error == Code.UNKNOWN_MEMBER_ID
