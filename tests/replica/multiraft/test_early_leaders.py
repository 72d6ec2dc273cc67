"""What a peer says of leaders before its folder is in the record counts as soon as it is, and not if its link ended."""

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.replica.multiraft.early_leaders import EarlyLeaders
from muster_coordinator.replica.multiraft.payloads import LeaderNews, encode_leaders
from muster_coordinator.replica.node import Node, _Peers

from tests.replica.serving_cluster import formed

NEW = BrokerId(7)
GROUP = GroupNo(1)
TERM = 99
NEWS = [LeaderNews(GROUP, TERM, NEW)]


def test_the_newest_of_each_group_is_kept_for_each_peer_and_taken_once() -> None:
    early = EarlyLeaders()
    early.keep(NEW, [LeaderNews(GROUP, 5, BrokerId(1)), LeaderNews(GroupNo(2), 1, NEW)])
    early.keep(NEW, [LeaderNews(GROUP, 4, BrokerId(2)), LeaderNews(GroupNo(2), 2, BrokerId(0))])
    early.keep(BrokerId(8), NEWS)
    assert early.take(NEW) == [LeaderNews(GROUP, 5, BrokerId(1)), LeaderNews(GroupNo(2), 2, BrokerId(0))]
    assert early.take(NEW) == []
    assert early.take(BrokerId(8)) == NEWS


def test_a_peer_can_make_it_hold_no_more_than_a_cluster_has_groups() -> None:
    early = EarlyLeaders()
    early.keep(NEW, [LeaderNews(GroupNo(number), 1, NEW) for number in range(3 * RAFT_GROUPS_MAX)])
    early.keep(NEW, [LeaderNews(GroupNo(0), 7, NEW)])
    kept = early.take(NEW)
    assert len(kept) == RAFT_GROUPS_MAX
    assert kept[0].term == 7


class Joined:
    """A replica, linked to a broker that has joined and that its record does not name any more, but will again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster = formed()
        cluster.add(NEW)
        cluster.wait_ready()
        self.node: Node = cluster.nodes[0]
        bootstrap = self.node.bootstrap
        assert bootstrap is not None
        cluster.world.run_until("they are linked", lambda: NEW in self.node.host.peers, 10_000)
        self.member = self.node.host.peers[NEW]
        self.sink = _Peers(self.node, bootstrap)
        monkeypatch.setattr(bootstrap, "trusts", lambda _: False)
        monkeypatch.setattr(bootstrap, "will_trust", lambda _: True)
        self.node.judge_link(NEW, None, is_new=False)
        assert NEW not in self.node.host.peers

    def says(self, payload: bytes) -> None:
        self.sink.peer_message(NEW, 0, payload)
        assert self.leader() != NEW, "it is not trusted"

    def leader(self) -> BrokerId | None:
        return self.node.leadership(GROUP).leader


def test_it_counts_as_soon_as_the_record_names_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, it was told again with the next whole table, ten seconds later."""
    joined = Joined(monkeypatch)
    for payload in encode_leaders(NEWS):
        joined.says(payload)
    joined.node.judge_link(NEW, joined.member, is_new=False)
    assert joined.node.leadership(GROUP) == (NEW, TERM)


@pytest.mark.parametrize("ended", ["link gone", "another link"])
def test_what_was_said_over_a_link_that_has_ended_does_not_count(monkeypatch: pytest.MonkeyPatch, ended: str) -> None:
    joined = Joined(monkeypatch)
    for payload in encode_leaders(NEWS):
        joined.says(payload)
    if ended == "link gone":
        joined.node.link_gone(NEW)
        joined.node.judge_link(NEW, joined.member, is_new=False)
    else:
        joined.node.judge_link(NEW, joined.member, is_new=True)
    assert joined.leader() != NEW


def test_what_is_malformed_ends_the_link_also_before_it_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = Joined(monkeypatch)
    (payload,) = encode_leaders(NEWS)
    with pytest.raises(WireError):
        joined.says(payload[:-1])
