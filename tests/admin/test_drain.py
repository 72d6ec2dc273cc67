"""Drain on virtual time: what is marked, what moves where, how many at once, and when it is over."""

from typing import Any

import pytest
from muster_coordinator.admin.drain import MARK_MS, Drain, DrainPhase
from muster_coordinator.controller.commands import CommandResult, SetDraining
from muster_coordinator.events import DRAIN_STARTED, DRAIN_UNDONE, DRAINED, Event
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo
from muster_coordinator.limits import DRAIN_TRANSFERS_AT_ONCE, PROPOSAL_TIMEOUT_MS

from tests.admin.fake_replica import FakeReplica, image
from tests.sim.loop import SimLoop, World


def made(groups: int = 5) -> tuple[World, FakeReplica, Drain, list[str]]:
    world = World()
    replica = FakeReplica(SimLoop(world))
    replica.leaders = {GroupNo(n): BrokerId(0) for n in range(groups)}
    return world, replica, Drain(replica), []


def test_it_marks_then_moves_everything_and_says_so_once() -> None:
    world, replica, drain, told = made()
    drain.start(lambda: told.append("drained"))
    world.run_for(1_000)
    assert replica.commands == [SetDraining(broker=BrokerId(0), draining=True)]
    assert set(replica.leaders.values()) == {BrokerId(1)}, "1 is the best-matched"
    assert (drain.phase, drain.left(), told) == (DrainPhase.DRAINED, 0, ["drained"])


def test_the_controller_group_goes_last() -> None:
    world, replica, drain, _ = made(12)
    drain.start()
    world.run_for(2_000)
    assert replica.transfers[-1][0] == CONTROLLER_GROUP
    assert [group for group, _ in replica.transfers].count(CONTROLLER_GROUP) == 1


def test_only_so_many_at_once() -> None:
    world, replica, drain, _ = made(40)
    replica.transfer_ms = 1_000
    drain.start()
    world.run_for(500)
    assert len(replica.transfers) == DRAIN_TRANSFERS_AT_ONCE
    world.run_for(20_000)
    assert drain.phase == DrainPhase.DRAINED


def test_without_a_controller_quorum_it_goes_on_after_two_seconds() -> None:
    world, replica, drain, _ = made()
    replica.controller_answers = False
    drain.start()
    world.run_for(MARK_MS - 1)
    assert replica.transfers == []
    world.run_for(1_000)
    assert drain.phase == DrainPhase.DRAINED


@pytest.mark.parametrize("silent", [True, False], ids=["no answer", "refusals"])
def test_the_mark_is_proposed_for_as_long_as_it_is_wanted(silent: bool) -> None:
    """Moved without a mark, leaderships come back from whoever does not know of the drain."""
    world, replica, drain, told = made()
    accept = replica.submit
    asked: list[int] = []

    def out_of_reach(command: object, *, deadline_ms: int, done: Any) -> None:
        asked.append(replica.loop.monotonic_ms())
        if not silent:
            done(CommandResult(15))

    replica.submit = out_of_reach
    drain.start(lambda: told.append("drained"))
    world.run_for(60_000)
    assert (drain.phase, told) == (DrainPhase.DRAINED, ["drained"])
    assert 25 <= len(asked) <= 75
    replica.submit = accept
    world.run_for(3_000)
    assert replica.known_image.brokers[BrokerId(0)].draining
    assert replica.commands == [SetDraining(broker=BrokerId(0), draining=True)], "once it is there nobody asks again"
    world.run_for(60_000)
    assert len(replica.commands) == 1


def test_an_undone_drain_proposes_no_mark_any_more() -> None:
    world, replica, drain, _ = made()
    replica.submit = lambda command, *, deadline_ms, done: done(CommandResult(15))
    drain.start()
    world.run_for(10_000)
    drain.undo(lambda result: None)
    before = len(replica.transfers)
    replica.submit = lambda command, *, deadline_ms, done: pytest.fail(f"{command}")
    world.run_for(60_000)
    assert len(replica.transfers) == before


def test_a_refused_mark_is_proposed_again() -> None:
    world, replica, drain, _ = made()
    accept = replica.submit
    refused: list[object] = []

    def refuse(command: object, *, deadline_ms: int, done: object) -> None:
        refused.append(command)
        if len(refused) == 3:
            replica.submit = accept
        done(CommandResult(41))

    replica.submit = refuse
    drain.start()
    world.run_for(1_000)
    assert len(refused) == 3
    assert drain.phase == DrainPhase.DRAINED
    assert replica.known_image.brokers[BrokerId(0)].draining


def test_the_mark_counts_once_it_is_applied_here() -> None:
    world, replica, drain, _ = made()

    def made_elsewhere(command: object, *, deadline_ms: int, done: object) -> None:
        done(CommandResult(0))
        replica.loop.call_at(replica.loop.monotonic_ms() + 300, lambda: setattr(replica, "known_image", marked))

    marked = image(frozenset({0}))
    replica.submit = made_elsewhere
    drain.start()
    world.run_for(290)
    assert replica.transfers == []
    world.run_for(700)
    assert drain.phase == DrainPhase.DRAINED


def test_a_dead_or_draining_voter_is_not_chosen() -> None:
    world, replica, drain, _ = made()
    replica.down = {BrokerId(1)}
    drain.start()
    world.run_for(1_000)
    assert set(replica.leaders.values()) == {BrokerId(2)}


def test_a_voter_with_room_on_its_disk_comes_first_and_one_without_only_if_there_is_no_other() -> None:
    world, replica, drain, _ = made()
    replica.low = {BrokerId(1)}
    drain.start()
    world.run_for(1_000)
    assert set(replica.leaders.values()) == {BrokerId(2)}
    world, replica, drain, _ = made()
    replica.low, replica.down = {BrokerId(1)}, {BrokerId(2)}
    drain.start()
    world.run_for(1_000)
    assert set(replica.leaders.values()) == {BrokerId(1)}


def test_while_nobody_can_take_a_group_it_waits_and_tries_again() -> None:
    world, replica, drain, told = made()
    replica.down = {BrokerId(1), BrokerId(2)}
    drain.start(lambda: told.append("drained"))
    world.run_for(30_000)
    assert (drain.phase, drain.left(), told) == (DrainPhase.TRANSFERRING, 5, [])
    replica.down = set()
    world.run_for(1_000)
    assert told == ["drained"]


def test_a_transfer_that_moves_nothing_is_tried_again() -> None:
    world, replica, drain, _ = made(2)
    replica.transfer_ms = 3_600_000
    drain.start()
    world.run_for(6_000)
    assert len(replica.transfers) >= 2
    replica.transfer_ms = 5
    world.run_for(6_000)
    assert drain.phase == DrainPhase.DRAINED


def test_when_all_voters_drain_there_is_nothing_to_move() -> None:
    world, replica, drain, told = made()
    drain.start(lambda: told.append("drained"))
    replica.known_image = image(frozenset({0, 1, 2}))
    replica.submit = lambda command, *, deadline_ms, done: None
    world.run_for(MARK_MS + 100)
    assert told == ["drained"]
    assert replica.transfers == []


def test_starting_again_joins_the_drain_under_way_and_each_caller_is_told() -> None:
    world, replica, drain, told = made()
    drain.start(lambda: told.append("first"))
    drain.start(lambda: told.append("second"))
    world.run_for(1_000)
    drain.start(lambda: told.append("third"))
    world.run_for(10)
    assert told == ["first", "second", "third"]
    assert len(replica.commands) == 1


def test_undo_stops_moving_and_clears_the_mark() -> None:
    world, replica, drain, told = made(40)
    replica.transfer_ms = 200
    drain.start(lambda: told.append("drained"))
    world.run_for(100)
    results: list[int] = []
    drain.undo(lambda result: results.append(result.error))
    world.run_for(10_000)
    assert results == [0]
    assert len(replica.transfers) == DRAIN_TRANSFERS_AT_ONCE
    assert replica.commands[-1] == SetDraining(broker=BrokerId(0), draining=False)
    assert (drain.phase, told) == (DrainPhase.IDLE, [])


def test_a_drain_before_the_end_of_the_process_cannot_be_undone_and_an_earlier_one_becomes_one() -> None:
    """Who waits for it has no other sign of its end, and waited for all of `shutdown.grace.ms`."""
    world, _, drain, told = made()
    drain.start()
    assert not drain.for_good
    drain.start(lambda: told.append("drained"), for_good=True)
    drain.start()
    assert drain.for_good
    with pytest.raises(AssertionError, match="the process ends"):
        drain.undo(lambda _: None)
    world.run_for(1_000)
    assert (drain.left(), told) == (0, ["drained"])


def test_an_election_won_while_drained_is_handed_on() -> None:
    world, replica, drain, told = made()
    drain.start(lambda: told.append("drained"))
    world.run_for(1_000)
    replica.leaders[GroupNo(77)] = BrokerId(0)
    world.run_for(1_000)
    assert replica.leaders[GroupNo(77)] == BrokerId(1)
    assert told == ["drained"]
    drain.undo(lambda result: None)
    replica.leaders[GroupNo(78)] = BrokerId(0)
    world.run_for(1_000)
    assert replica.leaders[GroupNo(78)] == BrokerId(0), "after undrain it may lead"


def test_who_asks_a_drained_replica_that_won_an_election_is_told_when_that_is_handed_on() -> None:
    """As SIGTERM does behind POST /v1/drain: it must not end as a leader."""
    world, replica, drain, told = made()
    drain.start()
    world.run_for(1_000)
    replica.leaders[GroupNo(3)] = BrokerId(0)
    replica.transfer_ms = 200
    drain.start(lambda: told.append(f"{drain.left()} left"))
    drain.start(lambda: told.append("both"))
    world.run_for(150)
    assert told == []
    world.run_for(1_000)
    assert told == ["0 left", "both"]
    assert replica.transfers.count((GroupNo(3), BrokerId(1))) == 2
    drain.start(lambda: told.append("at once"))
    world.run_for(1)
    assert told[2:] == ["at once"]


def test_a_mark_that_comes_after_the_undrain_is_cleared_as_well() -> None:
    """Its proposal was in doubt; the undrain found nothing to clear."""
    world, replica, drain, _ = made()
    accept = replica.submit
    replica.submit = lambda command, *, deadline_ms, done: None
    drain.start()
    world.run_for(100)
    replica.submit = accept
    drain.undo(lambda result: None)
    world.run_for(100)
    late = SetDraining(broker=BrokerId(0), draining=True)
    replica.submit(late, deadline_ms=0, done=lambda result: None)
    world.run_for(100)
    assert replica.known_image.brokers[BrokerId(0)].draining
    world.run_for(PROPOSAL_TIMEOUT_MS + 1_000)
    assert not replica.known_image.brokers[BrokerId(0)].draining
    assert drain.phase == DrainPhase.IDLE

    drain.start()
    world.run_for(5_000)
    assert replica.known_image.brokers[BrokerId(0)].draining, "a new drain's mark stays"


def test_a_mark_that_an_earlier_life_proposed_is_cleared_when_it_comes_after_the_start() -> None:
    """Nobody drains this life, so nobody would have undone it: its leaderships stayed with the others for good."""
    world, replica, drain, _ = made()
    world.run_for(5_000)
    assert replica.commands == []
    replica.known_image = image(frozenset({0}))
    world.run_for(5_000)
    assert set(replica.commands) == {SetDraining(broker=BrokerId(0), draining=False)}
    assert not replica.known_image.brokers[BrokerId(0)].draining
    assert drain.phase == DrainPhase.IDLE


def test_its_beginning_end_and_undoing_are_told_once_each() -> None:
    world = World()
    replica = FakeReplica(SimLoop(world))
    replica.leaders = {GroupNo(n): BrokerId(0) for n in range(5)}
    events: list[Event] = []
    drain = Drain(replica, events.append)
    drain.undo(lambda _: None)
    assert events == [], "there was none"
    drain.start()
    drain.start()
    world.run_for(3_000)
    assert [(event.kind, event.fields["leaderships"]) for event in events] == [(DRAIN_STARTED, 5), (DRAINED, 0)]
    assert 0 < events[1].fields["took_ms"] < 1_000
    replica.leaders[GroupNo(2)] = BrokerId(0)
    world.run_for(1_000)
    assert len(events) == 2, "an election that it wins when drained and hands on is not another drain"
    drain.undo(lambda _: None)
    world.run_for(1_000)
    assert [(event.kind, event.fields["leaderships"]) for event in events[2:]] == [(DRAIN_UNDONE, 0)]
