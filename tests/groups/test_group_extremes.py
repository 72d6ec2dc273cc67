"""Every field of a request at its legal maximum: answered, stored, replayed, checkpointed and described, or refused.

A string of a flexible request may be as long as its frame; the log's strings, and the answers of old versions, hold
32,767 bytes. Numbers span the whole of their type. Whatever gets through must come back from a follower and from a
checkpoint (`Host.check_replicas`), and nothing may raise.
"""

from dataclasses import replace

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.requests import DescribeGroup, ListGroups, OffsetFetch, Protocol
from muster_coordinator.limits import KIB, MIB

from tests.groups.host import Host, Member, beat, commit, fetch, join, leave, settle, stable, sync
from tests.made_settings import shard_config

I32_MIN, I32_MAX = -(2**31), 2**31 - 1
I64_MIN, I64_MAX = -(2**63), 2**63 - 1
LONGEST = 32_767
SUFFIX = 37
"""Of a member id: "-" and a uuid."""


def told(host: Host) -> None:
    """Everything that reads state can tell it, and nothing went wrong on the way."""
    host.ask(ListGroups((), ()))
    for group in {request.group for request in host.asked.values() if hasattr(request, "group")}:
        host.ask(DescribeGroup(group))
        host.ask(OffsetFetch(group, None, require_stable=False))
    host.check_replicas()


def joined(host: Host, group: str = "g", **how: object) -> Member:
    """Has its answer, whatever that says."""
    member = Member(host, group, **how).join()
    host.advance(0)
    return member


@pytest.mark.parametrize("retention", [I64_MIN, -2, 0, 1, I64_MAX - 1, I64_MAX])
def test_a_commit_may_name_any_retention(retention: int) -> None:
    host = Host()
    assert host.ask(commit(retention=retention)).topics == (("t", ((0, 0),)),)
    assert fetch(host).offset == 5
    told(host)


def test_a_retention_beyond_the_end_of_time_never_expires_and_a_negative_one_is_over_at_once() -> None:
    host = Host()
    host.ask(commit(retention=I64_MAX, group="kept"))
    host.ask(commit(retention=I64_MIN, group="gone"))
    host.advance(2 * host.config.offsets_retention_check_ms)
    assert fetch(host, "kept").offset == 5
    assert fetch(host, "gone").offset == -1


@pytest.mark.parametrize("timestamp", [I64_MIN, -2, 0, I64_MAX])
@pytest.mark.parametrize("retention", [-1, I64_MAX])
def test_a_commit_may_name_any_time_offset_epoch_and_partition(timestamp: int, retention: int) -> None:
    host = Host()
    for number in (I32_MIN, 0, I32_MAX):
        for offset in (I64_MIN, 0, I64_MAX):
            asked = commit(
                timestamp=timestamp, retention=retention, offset=offset, epoch=number, partition=number,
                metadata="\U0001f600" * (shard_config().offset_metadata_chars_max // 2), topic_id=b"i" * 16,
            )  # fmt: skip
            assert host.ask(asked).topics == (("t", ((number, 0),)),)
            found = fetch(host, partition=number)
            assert found.offset == offset
    told(host)


@pytest.mark.parametrize(("size", "code"), [(LONGEST, 0), (LONGEST + 1, Code.INVALID_GROUP_ID)])
def test_a_group_id_fits_the_log_or_is_refused(size: int, code: int) -> None:
    host = Host()
    group = "g" * size
    assert host.ask(commit(group=group)).topics == (("t", ((0, code),)),)
    member = joined(host, group)
    assert host.answers[member.ticket].error == code
    if not code:
        settle(host, [member])
    told(host)


@pytest.mark.parametrize(
    ("instance", "code"),
    [("i" * (LONGEST - SUFFIX), 0), ("i" * (LONGEST - SUFFIX + 1), Code.INVALID_REQUEST), ("é" * LONGEST, 42)],
)
def test_the_member_id_made_of_an_instance_id_fits_every_answer(instance: str, code: int) -> None:
    host = Host()
    member = joined(host, instance=instance)
    assert host.answers[member.ticket].error == code
    if not code:
        settle(host, [member])
        assert len(member.id.encode()) == LONGEST
        again = Member(host, instance=instance).join().took()
        assert again.beat() == 0
        assert host.ask(leave((again.id, instance))).leavers == ((again.id, instance, 0),)
    told(host)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("size", "code"), [(LONGEST - SUFFIX, 0), (LONGEST - SUFFIX + 1, Code.INVALID_REQUEST)])
def test_the_member_id_made_of_a_client_id_fits_every_answer(size: int, code: int, known: bool) -> None:
    host = Host()
    member = joined(host, client="c" * size, known=known)
    answer = host.answers[member.ticket]
    if code or not known:
        assert answer.error == code
    else:
        assert answer.error == Code.MEMBER_ID_REQUIRED
        member.id = answer.member
        member.join()
        host.advance(0)
    if not code:
        settle(host, [member])
    told(host)


@pytest.mark.parametrize("size", [LONGEST, LONGEST + 1, 8 * MIB])
def test_a_protocol_name_fits_the_log_or_is_refused(size: int) -> None:
    """Compact strings carry longer ones than GroupMetadata, and JoinGroup before version 6, can hold."""
    host = Host()
    member = joined(host, names=("p" * size, "range"), data=b"")
    answer = host.answers[member.ticket]
    assert answer.error == (0 if size == LONGEST else Code.INVALID_REQUEST)
    if not answer.error:
        settle(host, [member])
    told(host)


@pytest.mark.parametrize("size", [LONGEST, LONGEST + 1])
def test_a_protocol_type_fits_the_log_or_is_refused(size: int) -> None:
    host = Host()
    member = joined(host, protocol_type="t" * size)
    answer = host.answers[member.ticket]
    assert answer.error == (0 if size == LONGEST else Code.INVALID_REQUEST)
    if not answer.error:
        member.took()
        told(host)
        plan = ((member.id, b"plan"),)
        assert host.ask(sync(member.id, 1, plan=plan, protocol_type="t" * size)).error == 0
    told(host)


@pytest.mark.parametrize("field", ["member", "instance", "protocol", "protocol_type"])
def test_longer_names_in_questions_about_members_are_answered(field: str) -> None:
    """They name nobody."""
    host = Host()
    (first,) = stable(host, 1)
    long = "x" * (4 * MIB)
    how = {"member": first.id, "instance": None, "protocol": "range", "protocol_type": "consumer", field: long}
    member = str(how.pop("member"))
    assert host.ask(sync(member, 1, **how)).error in (Code.UNKNOWN_MEMBER_ID, Code.INCONSISTENT_GROUP_PROTOCOL)
    if field in ("member", "instance"):
        instance = how["instance"]
        assert host.ask(beat(member, instance=instance)).error == Code.UNKNOWN_MEMBER_ID
        assert host.ask(leave((member, instance))).leavers[0][2] == Code.UNKNOWN_MEMBER_ID
        assert host.ask(commit(member, 1, instance=instance)).topics[0][1][0][1] == Code.UNKNOWN_MEMBER_ID
    assert first.beat() == 0
    told(host)


@pytest.mark.parametrize("rebalance", [I32_MIN, -1, 0, I32_MAX])
@pytest.mark.parametrize("instance", [None, "i"])
def test_any_rebalance_timeout_is_stored(rebalance: int, instance: str | None) -> None:
    host = Host()
    joined(host, rebalance=rebalance, instance=instance).took()
    told(host)


def test_a_plan_at_the_largest_size_is_stored_and_one_above_is_refused() -> None:
    config = shard_config(initial_rebalance_delay_ms=0, group_stored_bytes_max=64 * KIB)
    host = Host(config)
    member = joined(host).took()
    for size, code in ((64 * KIB, Code.UNKNOWN_SERVER_ERROR), (63 * KIB, 0)):
        assert host.ask(sync(member.id, member.generation, plan=((member.id, b"a" * size),))).error == code
        told(host)
        if code:
            host.advance(limits.APPEND_RETRY_MS)
            member.join().took()


def test_the_generation_after_the_last_number_is_the_first_again() -> None:
    """Only another broker's log can bring a group there."""
    host = Host()
    host.seed_generation("g", I32_MAX)
    member = joined(host).took()
    assert member.generation == 1
    told(host)


def test_a_hundred_protocols_of_one_name_are_one_protocol() -> None:
    host = Host()
    asked = join()
    listed = tuple(Protocol("range", bytes([n])) for n in range(100))
    host.advance(0)
    ticket = host.send(replace(asked, protocols=listed))
    host.advance(0)
    assert host.answers[ticket].error == 0
    told(host)
