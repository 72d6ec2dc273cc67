"""Fetch from followers (KIP-392; protocol notes 13.1 row 8). Oracle: Kafka's `RackAwareReplicaSelector`."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.api import limits
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica.multiraft.status import GroupStatus
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code
from tests.api.test_fetch import part, request, wide_surface
from tests.made_settings import api_settings

GROUP = GroupNo(200)
"""Of partition 0 of `wide`."""


def racked(*racks: str, match: dict[int, int] | None = None, commit: int = 5_000) -> FakeSurface:
    """Broker n is in the n-th rack, 0 leads, and the followers have the log up to `match`."""
    surface = wide_surface()
    for number, rack in enumerate(racks):
        surface.brokers[BrokerId(number)] = replace(surface.brokers[BrokerId(number)], rack=rack)
    known = match or {0: commit, 1: commit, 2: commit}
    surface.statuses[GROUP] = GroupStatus(
        group=GROUP, role="leader", term=3, leader=BrokerId(0), commit=commit, applied=commit, last_index=commit,
        voters=(BrokerId(0), BrokerId(1), BrokerId(2)), match={BrokerId(n): at for n, at in known.items()},
    )  # fmt: skip
    return surface


def ask(surface: FakeSurface, rack: str = "b", version: int = 17, *, serve: bool = True, **more: Any) -> Any:
    client = KafkaClient(surface, settings=api_settings(followers_serve=serve))
    asked = request(part(more.pop("index", 0), more.pop("offset", 0)), name="wide", **more)
    answer = client.ask(Api.FETCH, version, rack_id=rack, **asked)
    (entry,) = answer.responses[0].partitions
    return entry


def preferred(entry: Any) -> int:
    assert (code(entry.error_code), entry.high_watermark) == (0, 20)
    found: int = entry.preferred_read_replica
    assert (entry.records == b"") == (found >= 0), "who is sent elsewhere gets no records here"
    return found


@pytest.mark.parametrize("version", range(11, 19))
def test_the_leader_names_a_follower_in_the_clients_rack(version: int) -> None:
    assert preferred(ask(racked("a", "b", "c"), version=version)) == 1


def test_it_is_told_at_once_also_at_the_end_of_the_log() -> None:
    assert preferred(ask(racked("a", "b", "c"), offset=20, wait_ms=30_000)) == 1


@pytest.mark.parametrize(
    ("racks", "rack"),
    [(("a", "b", "c"), ""), (("a", "b", "c"), "elsewhere"), (("b", "b", "c"), "b"), (("", "", ""), "b")],
)
def test_the_leader_serves_who_has_nobody_nearer(racks: tuple[str, ...], rack: str) -> None:
    assert preferred(ask(racked(*racks), rack)) == -1


def test_without_the_selector_racks_change_nothing() -> None:
    assert preferred(ask(racked("a", "b", "c"), serve=False)) == -1


def test_older_clients_are_sent_nowhere() -> None:
    surface = racked("a", "b", "c")
    client = KafkaClient(surface, settings=api_settings(followers_serve=True))
    answer = client.ask(Api.FETCH, 10, **request(part(0), name="wide"))
    assert answer.responses[0].partitions[0].records != b""


def test_the_follower_that_has_most_of_the_log_is_chosen() -> None:
    assert preferred(ask(racked("a", "b", "b", match={0: 5_000, 1: 4_900, 2: 4_901}))) == 2
    assert preferred(ask(racked("a", "b", "b"))) == 1, "of equals the lower number"


def test_who_is_gone_or_far_behind_or_no_voter_is_not_chosen() -> None:
    surface = racked("a", "b", "b")
    surface.dead.add(1)
    assert preferred(ask(surface)) == 2
    most = limits.NEARER_REPLICA_LAG_ENTRIES_MAX
    assert preferred(ask(racked("a", "b", "c", match={0: 5_000, 1: 5_000 - most}))) == 1
    assert preferred(ask(racked("a", "b", "c", match={0: 5_000, 1: 4_999 - most}))) == -1
    surface = racked("a", "b", "c")
    surface.statuses[GROUP] = surface.statuses[GROUP]._replace(voters=(BrokerId(0), BrokerId(2)))
    assert preferred(ask(surface)) == -1


def following() -> FakeSurface:
    surface = racked("b", "a", "a")
    log = surface.log_of("wide", 0)
    log.code, log.follows = Code.NOT_LEADER_OR_FOLLOWER, True
    return surface


@pytest.mark.parametrize("rack", ["b", "", "c"])
def test_a_follower_serves_what_it_knows(rack: str) -> None:
    """Also who is of another rack, as in Kafka."""
    entry = ask(following(), rack)
    assert (code(entry.error_code), entry.high_watermark, entry.records) == (0, 20, b"A" * 100 + b"a" * 100)
    assert entry.preferred_read_replica == -1


def test_what_a_follower_does_not_know_yet_is_nothing_yet() -> None:
    """Never "out of range": a client would start over from an end of the log."""
    entry = ask(following(), offset=25, wait_ms=0)
    assert (code(entry.error_code), entry.high_watermark, entry.records) == (0, 20, b"")


def test_a_follower_answers_when_it_has_more() -> None:
    surface = following()
    client = KafkaClient(surface, settings=api_settings(followers_serve=True))
    client.send(Api.FETCH, 17, rack_id="b", **request(part(0, 25), name="wide", wait_ms=30_000))
    assert client.receive() == []
    surface.log_of("wide", 0).append(b"next")
    surface.fake_loop.run()
    (answer,) = client.receive()
    assert answer.responses[0].partitions[0].records == b"next"


def test_below_the_log_start_is_out_of_range_there_too() -> None:
    surface = following()
    surface.log_of("wide", 0).start = 5
    assert code(ask(surface, offset=4).error_code) == 1


@pytest.mark.parametrize(("serve", "version", "follows"), [(False, 17, True), (True, 10, True), (True, 17, False)])
def test_others_are_told_who_leads(serve: bool, version: int, follows: bool) -> None:
    """Clients that do not know of followers, brokers without the selector, and a follower that hears no leader."""
    surface = following()
    surface.log_of("wide", 0).follows = follows
    client = KafkaClient(surface, settings=api_settings(followers_serve=serve))
    answer = client.ask(Api.FETCH, version, **request(part(0), name="wide"))
    assert code(answer.responses[0].partitions[0].error_code) == 6


def test_another_epoch_is_refused_before_leadership_is_looked_at() -> None:
    surface = following()
    client = KafkaClient(surface, settings=api_settings(followers_serve=True))
    answer = client.ask(Api.FETCH, 17, **request(part(0, current_leader_epoch=2), name="wide"))
    assert code(answer.responses[0].partitions[0].error_code) == 74


def test_a_preferred_replica_is_told_within_a_session_each_time() -> None:
    surface = racked("a", "b", "c")
    client = KafkaClient(surface, settings=api_settings(followers_serve=True))
    first = client.ask(Api.FETCH, 17, rack_id="b", session_epoch=0, session_id=0, **request(part(0), name="wide"))
    again = client.ask(Api.FETCH, 17, rack_id="b", session_epoch=1, session_id=first.session_id, **request(name="wide"))
    assert [p.preferred_read_replica for t in again.responses for p in t.partitions] == [1]
