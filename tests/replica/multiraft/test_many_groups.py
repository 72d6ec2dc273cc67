"""What replicas tell each other grows with their groups: it goes in frames that fit, and no part proves too much."""

import dataclasses
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import HEARTBEAT_MS, OFFSETS_BATCH_BYTES_MAX, RAFT_GROUPS_MAX
from muster_coordinator.links import channels
from muster_coordinator.links.frames import HEADER_BYTES, frame_header
from muster_coordinator.raft import limits as raft_limits
from muster_coordinator.raft.messages import Entry, Message, MsgType
from muster_coordinator.replica import limits as replica_limits
from muster_coordinator.replica.multiraft.heartbeats import Heartbeats
from muster_coordinator.replica.multiraft.payloads import (
    HostHeartbeat,
    HostHeartbeatAck,
    LeaderNews,
    decode_heartbeat,
    decode_heartbeat_ack,
    decode_leaders,
    encode_command,
    encode_heartbeat,
    encode_heartbeat_ack,
    encode_leaders,
    encode_result,
)
from muster_coordinator.replica.multiraft.raft_payload import RaftPacker
from muster_coordinator.replica.snapshots.install_payload import (
    Chunk,
    FileKind,
    Offer,
    OfferedFile,
    encode_chunk,
    encode_offer,
    encode_refusal,
)
from muster_coordinator.storage.checkpoint import checkpoint_name
from muster_coordinator.storage.contract import RecoveryPoint
from muster_coordinator.storage.segment_index import segment_name
from muster_coordinator.wire import limits as wire_limits

from tests.replica.cluster import SimCluster
from tests.replica.multiraft.test_heartbeats import FOLLOWER, Group, Pair, disturb
from tests.replica.partitions.test_deleted_topics import created, deleted
from tests.sim.loop import World

GROUPS = 10_000
"""Five times `limits.RAFT_GROUPS_MAX`."""
ROWS = replica_limits.HEARTBEAT_ROWS_MAX


class FramedPair(Pair):
    """Every payload passes the link's own check of its size."""

    refused_heartbeats: frozenset[int] = frozenset()
    """Which of the heartbeats to come the channel refuses, counted from 0."""
    refused_acks: frozenset[int] = frozenset()

    def __init__(self, groups: int) -> None:
        self.heartbeats = self.acks = 0
        super().__init__(groups)

    def _send_heartbeat(self, peer: BrokerId, heartbeat: HostHeartbeat) -> bool:
        frame_header(channels.CONTROL, encode_heartbeat(heartbeat))
        self.heartbeats += 1
        return self.heartbeats - 1 not in self.refused_heartbeats and super()._send_heartbeat(peer, heartbeat)

    def _send_ack(self, peer: BrokerId, ack: HostHeartbeatAck) -> bool:
        frame_header(channels.CONTROL, encode_heartbeat_ack(ack))
        self.acks += 1
        return self.acks - 1 not in self.refused_acks and super()._send_ack(peer, ack)

    def lead_all(self, term: int = 1) -> None:
        for number in self.leading:
            self.lead(number, term)

    def confirmed_groups(self) -> list[int]:
        return [int(number) for number in self.leading if self.confirmed(number)]


def test_a_heartbeat_that_names_ten_thousand_groups_is_told_in_parts_and_confirmed() -> None:
    pair = FramedPair(GROUPS)
    pair.lead_all()
    pair.leader.send_round()
    parts = [decode_heartbeat(payload) for payload in pair.down]
    assert [len(part.named) for part in parts] == [ROWS] * (GROUPS // ROWS)
    assert [part.anew for part in parts] == [True] + [False] * (GROUPS // ROWS - 1)
    pair.settle(1)
    assert len(pair.confirmed_groups()) == GROUPS
    pair.leader.send_round()
    (idle,) = pair.down
    assert (decode_heartbeat(idle).covered, decode_heartbeat(idle).named) == (GROUPS, ())


def test_the_ack_of_one_part_confirms_no_read_of_a_group_that_a_later_part_names() -> None:
    pair = FramedPair(ROWS + 1)
    pair.lead_all()
    first, last = pair.leading[GroupNo(0)], pair.leading[GroupNo(ROWS)]
    for group in (first, last):
        group.core.wants_heartbeats = True
        wanted = pair.leader.next_round(group)
    pair.world.run_for(100)
    pair.leader.end_of_turn()
    assert len(pair.down) == 2
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert first.core.oks[0] >= wanted
    assert last.core.oks == []
    assert pair.confirmed_groups() == list(range(ROWS))
    pair.desert(ROWS)  # before the part that names it arrives
    pair.following[GroupNo(ROWS)].core.term += 5
    while pair.down:
        pair.deliver_one_down()
    while pair.up:
        pair.deliver_one_up()
    assert last.core.oks == []
    assert not pair.confirmed(ROWS)


def test_a_group_whose_term_a_later_part_tells_is_not_confirmed_in_it_by_an_earlier_one() -> None:
    pair = FramedPair(ROWS + 1)
    pair.lead_all()
    pair.settle()
    for number in pair.leading:
        pair.give_up(number)
    pair.settle(1)
    pair.lead_all(term=2)
    pair.leader.send_round()
    assert len(pair.down) == 2
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert ROWS not in pair.confirmed_groups()


def test_a_part_that_is_lost_costs_one_round() -> None:
    for lost in range(3):
        pair = FramedPair(3 * ROWS)
        pair.lead_all()
        pair.leader.send_round()
        del pair.down[lost]
        pair.settle(2)
        assert len(pair.confirmed_groups()) == 3 * ROWS


def test_a_part_that_the_channel_refuses_ends_the_heartbeat_and_the_next_begins_anew() -> None:
    pair = FramedPair(3 * ROWS)
    pair.lead_all()
    pair.refused_heartbeats = frozenset((1,))
    pair.leader.send_round()
    assert len(pair.down) == 1
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert pair.confirmed_groups() == list(range(ROWS))
    pair.leader.send_round()
    assert decode_heartbeat(pair.down[0]).anew
    pair.settle(1)
    assert len(pair.confirmed_groups()) == 3 * ROWS


def test_many_groups_that_are_led_here_no_more_are_told_by_a_heartbeat_anew() -> None:
    pair = FramedPair(GROUPS)
    pair.lead_all()
    pair.settle()
    for number in range(1, GROUPS):
        pair.give_up(number)
    pair.leader.send_round()
    (heartbeat,) = (decode_heartbeat(payload) for payload in pair.down)
    assert (heartbeat.anew, heartbeat.dropped, heartbeat.covered) == (True, (), 1)
    pair.settle(1)
    assert pair.confirmed_groups() == [0]


def many_deserters() -> FramedPair:
    """Of 25,000 groups all but one have left; the heartbeat that will tell so of them is under way."""
    pair = FramedPair(25_000)
    pair.lead_all()
    pair.settle(2)
    for number in range(1, 25_000):
        pair.desert(number)
    pair.world.run_for(1_000)
    pair.leader.send_round()
    pair.deliver_one_down()
    return pair


def test_an_ack_that_rejects_many_groups_goes_in_parts_and_none_of_them_passes_for_consent() -> None:
    pair = many_deserters()
    parts = [decode_heartbeat_ack(payload) for payload in pair.up]
    assert sum(len(part.rejected) for part in parts) == 25_000 - 1
    assert [part.round for part in parts[:-1]] == [0] * (len(parts) - 1)
    while pair.up:
        pair.leader.ack(FOLLOWER, decode_heartbeat_ack(pair.up.pop(0)))
        assert not [number for number in pair.confirmed_groups() if number]
    assert pair.confirmed_groups() == [0]
    assert all(group.core.rejections for number, group in pair.leading.items() if number)


def test_an_ack_of_which_a_part_cannot_be_sent_is_not_sent_at_all() -> None:
    pair = FramedPair(25_000)
    pair.lead_all()
    pair.settle(2)
    for number in range(1, 25_000):
        pair.desert(number)
    pair.world.run_for(1_000)
    pair.refused_acks = frozenset((pair.acks + 1,))
    pair.leader.send_round()
    pair.deliver_one_down()
    assert [decode_heartbeat_ack(payload).round for payload in pair.up] == [0]
    while pair.up:
        pair.deliver_one_up()
    assert pair.confirmed_groups() == []


class PartedPair(Pair):
    """Heartbeats and acks of one row each."""

    def _heartbeats(self, groups: dict[GroupNo, Group]) -> Heartbeats:
        return Heartbeats(
            self.loop,
            groups,
            send_heartbeat=self._send_heartbeat,
            send_ack=self._send_ack,
            may_heartbeat=lambda: self.may,
            acked=lambda group: None,
            rows_max=1,
            heartbeat_ms=HEARTBEAT_MS,
        )


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_in_parts_too_confirmed_means_following_whatever_happens(seed: int, groups: int) -> None:
    pair = PartedPair(groups)
    disturb(pair, random.Random(seed), groups)
    pair.lossy = False
    for number in range(groups):
        mine, theirs = pair.leading[GroupNo(number)].core, pair.following[GroupNo(number)].core
        if theirs.term > mine.term:
            pair.give_up(number)
    pair.settle()
    for number in range(groups):
        assert pair.confirmed(number) == pair.follows(number), number


def test_gossip_of_twenty_thousand_groups_goes_in_frames_that_fit() -> None:
    news = [LeaderNews(GroupNo(number), 2**63 + number, BrokerId(number % 3)) for number in range(20_000)]
    payloads = encode_leaders(news)
    for payload in payloads:
        frame_header(channels.CONTROL, payload)
    assert [row for payload in payloads for row in decode_leaders(payload)] == news
    assert encode_leaders([]) == []


def votes() -> list[bytes]:
    items = [(number, Message(MsgType.VOTE, 0, 1, 2**63, 2**63, 2**63)) for number in range(GROUPS)]
    return list(RaftPacker().pack(items))


def appends() -> list[bytes]:
    """As many of the smallest entries as one append takes, and the largest one."""
    small = tuple(Entry(1, index, 1, b"x") for index in range(1, raft_limits.APPEND_BYTES_MAX + 1))
    large = (Entry(1, 1, 0, bytes(OFFSETS_BATCH_BYTES_MAX)),)
    items = [(1, Message(MsgType.APPEND, 0, 1, 1, 0, 0, 0, entries)) for entries in (small, large)]
    return list(RaftPacker().pack(items))


def offers() -> list[bytes]:
    """Of a partition with as many segments as one install takes."""
    segments = [
        OfferedFile(FileKind.SEGMENT, segment_name(2**62 + n), 2**62)
        for n in range(replica_limits.INSTALL_OFFER_FILES_MAX - 1)
    ]
    files = (OfferedFile(FileKind.CHECKPOINT, checkpoint_name(2**62, 2**32 - 1), 2**62), *segments)
    return [encode_offer(Offer(2**63, 2**31, 2**62, 2**62, RecoveryPoint(1, 2, 3, 4), files, True))]


def chunks() -> list[bytes]:
    return [
        encode_chunk(Chunk(1, 2, 3, 4, bytes(replica_limits.INSTALL_CHUNK_BYTES))),
        encode_refusal(1, "\U0001f600" * 1_000),
    ]


def commands() -> list[bytes]:
    """No longer than the request that it was made of."""
    return [
        encode_command(1, 2, bytes(wire_limits.FRAME_BYTES_MAX)),
        encode_result(1, bytes(wire_limits.FRAME_BYTES_MAX)),
    ]


@pytest.mark.parametrize(
    ("channel", "payloads"),
    [
        (channels.CONTROL, votes),
        (channels.APPEND, appends),
        (channels.BULK, offers),
        (channels.BULK, chunks),
        (channels.FORWARD, commands),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_largest_messages_of_each_channel_fit_its_frames(channel: int, payloads: Callable[[], list[bytes]]) -> None:
    for payload in payloads():
        assert len(frame_header(channel, payload)) == HEADER_BYTES


def test_more_groups_than_a_replica_takes_are_refused_in_words_by_the_cluster() -> None:
    cluster = SimCluster(World(7))
    cluster.start()
    wide = CreateTopic(name="wide", topic_id=bytes([9]) * 16, partitions=RAFT_GROUPS_MAX - 3, configs=())
    result = cluster.submit(0, wide)
    assert result.error == Code.POLICY_VIOLATION
    assert result.message == "1997 more partitions would exceed the limit of 2000 Raft groups; 4 are in use"
    assert cluster.submit(0, dataclasses.replace(wide, partitions=4)).error == Code.NONE


def test_gossip_of_a_deleted_group_dies_out_and_that_of_one_to_come_is_kept() -> None:
    cluster = SimCluster(World(5))
    cluster.start()
    group = created(cluster, 1)
    deleted(cluster, 1, group)
    coming = GroupNo(group + 1)
    told = [LeaderNews(GroupNo(group), 9, BrokerId(2)), LeaderNews(coming, 9, BrokerId(2))]
    one = cluster.nodes[1].host
    one.leaders_heard(BrokerId(2), told)  # as from a replica that is late
    assert one.leaders.of(coming).leader == 2
    cluster.world.run_for(2_500)
    for node in cluster.nodes.values():
        known = {row.group for row in node.host.leaders.table()}
        assert group not in known


def test_what_was_gossiped_of_a_group_that_turns_out_to_be_deleted_is_forgotten() -> None:
    """A replica that takes the controller's state from a checkpoint sees neither the topic nor its deletion."""
    cluster = SimCluster(World(6))
    cluster.start()
    group = GroupNo(created(cluster, 1))
    deleted(cluster, 1, group)
    one = cluster.nodes[1].host
    one.leaders.note(group, 9, BrokerId(2))  # heard before
    cluster.world.run_for(replica_limits.GOSSIP_FULL_MS + 1_000)
    assert all(node.host.leaders.of(group).leader is None for node in cluster.nodes.values())
    assert group not in one.leaders._known
