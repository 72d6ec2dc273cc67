"""Static membership (KIP-345, KIP-814): protocol notes 3.9, invariants G10-G12."""

import struct
from dataclasses import replace

import pytest
from muster_coordinator.groups.requests import Protocol

from tests.groups.host import Host, Member, beat, commit, join, leave, settle, state, sync
from tests.made_settings import shard_config


def static_group(host: Host, **how) -> list[Member]:
    members = [Member(host, instance=f"i{n}", **how).join() for n in range(2)]
    host.advance(0)
    settle(host, members)
    return members


def test_restart_with_the_same_subscription_keeps_assignment_and_generation():
    host = Host()
    _, follower = static_group(host)
    old = follower.id
    answer = host.ask(join(instance="i1"))
    assert (answer.error, answer.generation, answer.skip_assignment, answer.members) == (0, 1, False, ())
    assert answer.member not in ("", old)
    assert state(host) == "Stable"
    assert host.ask(sync(answer.member, instance="i1")).assignment == b"plan-" + old.encode()
    assert host.leader.stats.rebalances_completed == 1
    host.check_replicas()


def test_the_old_id_is_fenced_for_ever_also_after_a_failover():
    host = Host()
    _, follower = static_group(host)
    old = follower.id
    new = host.ask(join(instance="i1")).member
    for _ in range(2):
        assert host.ask(beat(old, instance="i1")).error == 82
        assert host.ask(sync(old, instance="i1")).error == 82
        assert host.ask(join(member=old, instance="i1")).error == 82
        assert host.ask(leave((old, "i1"))).leavers[0][2] == 82
        assert host.ask(commit(old, 1, instance="i1")).topics[0][1][0][1] == 82
        assert host.ask(beat(old)).error == 25
        assert host.ask(beat(new, instance="i1")).error == 0
        host.crash()


def test_the_new_id_is_in_the_log_before_the_answer():
    host = Host()
    _, follower = static_group(host)
    host.hold = True
    ticket = host.send(join(instance="i1"))
    assert ticket not in host.answers
    assert follower.beat() == 0, "not fenced by what may never be stored"
    host.commit_all()
    assert host.answers[ticket].error == 0
    assert follower.beat() == 82


def test_dropped_replacement_leaves_the_old_id_in_place():
    host = Host()
    _, follower = static_group(host)
    host.hold = True
    ticket = host.send(join(instance="i1"))
    host.drop(19)
    assert (host.answers[ticket].error, host.answers[ticket].member) == (15, "")
    assert follower.beat() == 0
    host.check_replicas()


def test_an_error_of_a_replacement_carries_neither_leader_nor_generation():
    """Kafka's carries the group's; docs/clients.md says that ours does not."""
    host = Host()
    static_group(host)
    host.hold = True
    ticket = host.send(join(instance="i1"))
    host.drop(19)
    answer = host.answers[ticket]
    assert (answer.error, answer.member, answer.leader, answer.generation) == (15, "", "", -1)
    assert (answer.protocol, answer.members) == (None, ())


def test_returning_leader_is_told_to_skip_the_assignment():
    host = Host()
    leader, follower = static_group(host)
    answer = host.ask(join(instance="i0"))
    assert (answer.leader, answer.skip_assignment) == (answer.member, True)
    assert {m.member for m in answer.members} == {answer.member, follower.id}
    assert host.ask(sync(answer.member, instance="i0")).assignment == b"plan-" + leader.id.encode()


def test_returning_leader_before_v9_is_told_the_old_leader():
    host = Host()
    leader, _ = static_group(host)
    answer = host.ask(join(instance="i0", skip=False))
    assert (answer.leader, answer.skip_assignment, answer.members) == (leader.id, False, ())


def test_returning_leader_leads_the_next_generation():
    host = Host()
    _, follower = static_group(host)
    back = Member(host, instance="i0").join().took()
    host.crash()
    back.join()
    follower.join()
    assert back.took().leads


def test_all_protocols_of_a_returning_member_survive_a_failover():
    host = Host()
    static_group(host, names=("range", "sticky"))
    host.ask(join(instance="i1", names=("range", "sticky")))
    host.check_replicas()
    host.crash()
    ticket = host.send(join(names=("sticky",)))
    assert ticket not in host.answers, "refused with 23 although everybody supports sticky"


def test_changed_metadata_without_another_choice_does_not_rebalance():
    host = Host()
    static_group(host)
    assert host.ask(join(instance="i1", data=b"other-")).generation == 1
    assert state(host) == "Stable"


def subscription(*topics: str, user_data: bytes = b"", version: int = 1, owned: bytes = b"") -> bytes:
    """The consumer protocol's (ConsumerProtocolSubscription.json)."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    head = struct.pack(">hi", version, len(topics)) + names
    return head + struct.pack(">i", len(user_data)) + user_data + owned


NOTHING_OWNED, SOME_OWNED = struct.pack(">i", 0), struct.pack(">ih", 1, 1) + b"a" + struct.pack(">ii", 1, 0)


@pytest.mark.parametrize(
    ("before", "after", "rebalances"),
    [
        (subscription("a", owned=NOTHING_OWNED), subscription("b", owned=NOTHING_OWNED), True),
        (subscription("a"), subscription("a", "b"), True),
        (subscription("a", "b"), subscription("a"), True),
        (subscription("a", version=0), subscription("b", version=0), True),
        (subscription("a", "b"), subscription("b", "a"), False),
        (subscription("a", user_data=b"x"), subscription("a", user_data=b"y"), False),
        (subscription("a", owned=NOTHING_OWNED), subscription("a", owned=SOME_OWNED), False),
        (subscription("a"), b"\0", False),
        (b"", subscription("a"), False),
    ],
)
def test_a_static_member_that_comes_back_with_other_topics_rebalances(before, after, rebalances):
    """KAFKA-12759: with the old assignment nobody would read them. Nothing but the topics counts."""
    host = Host()
    member = joined(host, before)
    plan = ((member.id, b"plan"),)
    assert host.ask(sync(member.id, 1, instance="i", plan=plan)).error == 0
    again = joined(host, after)
    assert again.generation == (2 if rebalances else 1)
    assert again.id != member.id
    host.check_replicas()


def test_other_protocol_types_are_not_looked_into():
    host = Host()
    member = joined(host, subscription("a"), protocol_type="connect")
    plan = ((member.id, b"plan"),)
    assert host.ask(sync(member.id, 1, instance="i", plan=plan, protocol_type="connect")).error == 0
    assert joined(host, subscription("b"), protocol_type="connect").generation == 1


def joined(host: Host, metadata: bytes, protocol_type: str = "consumer") -> Member:
    """Instance i with this metadata, its join answered."""
    member = Member(host, instance="i")
    asked = join(instance="i", protocol_type=protocol_type)
    member.ticket = host.send(replace(asked, protocols=(Protocol("range", metadata),)))
    host.advance(0)
    return member.took()


def test_changed_choice_rebalances_and_fences():
    host = Host()
    leader, follower = static_group(host, names=("range", "sticky"))
    back = Member(host, instance="i1", names=("sticky",)).join()
    assert back.ticket not in host.answers
    assert state(host) == "PreparingRebalance"
    assert follower.beat() == 82
    leader.join()
    assert back.took().joined.protocol == "sticky"
    assert leader.took().generation == 2
    host.check_replicas()


def test_completing_always_rebalances():
    host = Host()
    members = [Member(host, instance=f"i{n}").join() for n in range(2)]
    host.advance(0)
    for member in members:
        member.took()
    parked = members[1].sync()
    back = Member(host, instance="i1").join()
    assert (host.answers[parked].error, host.answers[parked].assignment) == (82, b"")
    assert state(host) == "PreparingRebalance"
    members[0].join()
    assert back.took().generation == 2
    assert members[0].took().generation == 2


def test_taking_over_a_parked_stored_member_fences_it():
    host = Host()
    members = [Member(host, instance=f"i{n}").join() for n in range(3)]
    host.advance(0)
    settle(host, members)
    members[1].join(data=b"changed-")
    parked = members[1].ticket
    back = Member(host, instance="i1").join()
    answer = host.answers[parked]
    assert (answer.error, answer.member, answer.leader, answer.generation) == (82, members[1].id, "", -1)
    members[0].join()
    members[2].join()
    assert back.took().generation == 2
    assert members[1].beat() == 82


def test_takeover_in_preparing_is_fenced_after_a_failover_too():
    host = Host()
    members = [Member(host, instance=f"i{n}").join() for n in range(2)]
    host.advance(0)
    settle(host, members)
    members[0].join()
    assert state(host) == "PreparingRebalance"
    host.hold = True
    host.send(join(instance="i1"))
    host.commit()
    assert members[1].beat() == 82
    host.hold = False
    host.crash()
    assert members[1].beat() == 82


def test_two_holders_in_a_first_join_phase_the_newer_stays():
    host = Host(shard_config())
    older = Member(host, instance="i").join()
    newer = Member(host, instance="i").join()
    assert host.answers[older.ticket].error == 82
    host.advance(6_000)
    assert newer.took().leads
    assert len(newer.joined.members) == 1


@pytest.mark.parametrize("cold", [False, True])
def test_static_member_restart_within_its_session_across_a_failover_needs_no_rebalance(cold):
    host = Host()
    static_group(host)
    if cold:
        host.crash()
    else:
        host.hand_over()
    answer = host.ask(join(instance="i1"))
    assert (answer.error, answer.generation) == (0, 1)
    assert state(host) == "Stable"


def test_static_member_is_removed_by_session_expiry_and_by_the_administrator():
    host = Host()
    members = static_group(host)
    host.advance(9_000)
    members[0].beat()
    host.advance(1_000)
    assert members[1].beat() == 25
    assert host.ask(leave(("", "i0"))).leavers[0][2] == 0
    assert state(host) == "Empty"


def test_known_id_and_instance_rejoin_like_a_dynamic_member():
    host = Host()
    leader, follower = static_group(host)
    assert host.ask(join(member=follower.id, instance="i1")).generation == 1
    leader.join()
    assert state(host) == "PreparingRebalance"


def test_replacement_too_large_to_store_in_stable_is_81():
    host = Host(shard_config(initial_rebalance_delay_ms=0, group_stored_bytes_max=1_000))
    static_group(host)
    assert host.ask(join(instance="i1", data=b"x" * 2_000)).error == 81
    assert state(host) == "Stable"


def test_replacement_without_room_for_both_records_keeps_the_chosen_protocol_only():
    host = Host(shard_config(initial_rebalance_delay_ms=0, group_stored_bytes_max=2_000))
    static_group(host, names=("range", "sticky"), data=b"x" * 300)
    answer = host.ask(join(instance="i1", names=("range", "sticky"), data=b"x" * 300))
    assert (answer.error, answer.generation) == (0, 1)
    host.check_replicas()


def test_sync_timeout_counts_the_new_id():
    """Quirk Q3, fixed: a stale id in the list of missing syncs rebalances Kafka's group for nothing."""
    host = Host()
    leader, late = [Member(host, instance=f"i{n}", session=100_000, rebalance=30_000).join() for n in range(2)]
    host.advance(0)
    leader.took()
    late.took()
    leader.sync(())
    answer = host.ask(join(instance="i1", session=100_000, rebalance=30_000))
    assert host.ask(sync(answer.member, instance="i1")).error == 0
    host.advance(30_000)
    assert state(host) == "Stable"
