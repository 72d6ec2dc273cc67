"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, Describe-, List-, DeleteGroups: from and to every version."""

from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import (
    DeleteGroup,
    DeleteGroupAnswer,
    DescribedMember,
    DescribeGroup,
    DescribeGroupAnswer,
    GroupAnswer,
    GroupRequest,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    Leaver,
    ListedGroup,
    ListGroups,
    ListGroupsAnswer,
    SyncGroup,
)
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface
from tests.api.kafka_client import KafkaClient, code

JOIN = {
    "group_id": "test", "session_timeout_ms": 9_000, "rebalance_timeout_ms": 60_000, "member_id": "",
    "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"abc"}], "reason": "because",
}  # fmt: skip


def last(surface: FakeSurface) -> GroupRequest:
    return surface.group_requests[-1][1]


@pytest.mark.parametrize("version", range(10))
def test_join_goes_to_the_groups_partition_with_what_the_version_means(version: int) -> None:
    surface = FakeSurface()
    surface.on_group = lambda _: JoinGroupAnswer(error=Code.MEMBER_ID_REQUIRED, member="given")
    answer = KafkaClient(surface).ask(Api.JOIN_GROUP, version, **JOIN)
    partition, request, context = surface.group_requests[0]
    assert isinstance(request, JoinGroup)
    assert partition == 2
    assert (request.client_id, request.client_host) == ("tester", "/10.0.0.9")
    assert (context.api_key, context.api_version) == (11, version)
    assert request.rebalance_timeout_ms == (60_000 if version >= 1 else 9_000)
    assert request.requires_known_member is (version >= 4)
    assert (code(answer.error_code), answer.member_id, answer.generation_id) == (79, "given", -1)


def test_a_parked_join_holds_back_the_heartbeat_behind_it() -> None:
    surface = FakeSurface()
    surface.on_group = lambda r: None if isinstance(r, JoinGroup) else HeartbeatAnswer(0)
    client = KafkaClient(surface)
    client.send(Api.JOIN_GROUP, 5, **JOIN)
    client.send(Api.HEARTBEAT, 3, group_id="test")
    assert client.receive() == []
    surface.parked[0](JoinGroupAnswer(error=0, member="m", generation=1, protocol="range"))
    joined, beat = client.receive()
    assert (joined.generation_id, code(beat.error_code)) == (1, 0)


def test_sync_from_v5_on_must_name_the_protocol() -> None:
    surface = FakeSurface()
    client = KafkaClient(surface)
    for named in (
        {"protocol_type": None, "protocol_name": "range"},
        {"protocol_type": "consumer", "protocol_name": None},
    ):
        answer = client.ask(Api.SYNC_GROUP, 5, group_id="g", **named)
        assert code(answer.error_code) == 23
    assert surface.group_requests == []
    client.ask(Api.SYNC_GROUP, 4, group_id="g")
    request = last(surface)
    assert isinstance(request, SyncGroup)
    assert (request.protocol_type, request.protocol) == (None, None)


@pytest.mark.parametrize("error", [0, 15, 16, 22, 25, 27, 82])
@pytest.mark.parametrize("version", range(5))
def test_heartbeat_passes_the_shards_word_on(version: int, error: int) -> None:
    surface = FakeSurface()
    surface.on_group = lambda _: HeartbeatAnswer(error)
    answer = KafkaClient(surface).ask(Api.HEARTBEAT, version, group_id="test", generation_id=7, member_id="m")
    assert code(answer.error_code) == error
    assert last(surface) == Heartbeat("test", 7, "m", None)


def test_a_repeated_heartbeat_is_asked_for_at_once_in_its_partition_and_counted() -> None:
    surface = FakeSurface()
    surface.on_group = lambda _: HeartbeatAnswer(0)
    surface.on_heartbeat = lambda _: Code.REBALANCE_IN_PROGRESS
    client = KafkaClient(surface)
    answers = [
        client.ask(Api.HEARTBEAT, 4, group_id="test", generation_id=7, member_id="m").error_code for _ in range(3)
    ]
    assert [code(error) for error in answers] == [0, 27, 27]
    assert (len(surface.group_requests), surface.heartbeats_at_once) == (1, 2)
    assert (client.dispatcher.served[Api.HEARTBEAT], client.dispatcher.answered_at_once) == (1, 2)


def test_before_the_cluster_is_formed_no_heartbeat_is_answered_at_once() -> None:
    surface = FakeSurface()
    surface.on_heartbeat = lambda _: Code.NONE
    surface.formed = False
    client = KafkaClient(surface)
    answers = [client.ask(Api.HEARTBEAT, 4, group_id="test").error_code for _ in range(2)]
    assert [code(error) for error in answers] == [15, 15]
    assert surface.lookups == []


@pytest.mark.parametrize("version", range(3))
def test_leave_before_v3_has_one_member_whose_error_is_the_answers(version: int) -> None:
    surface = FakeSurface()
    surface.on_group = lambda _: LeaveGroupAnswer(0, (("m", None, Code.UNKNOWN_MEMBER_ID),))
    answer = KafkaClient(surface).ask(Api.LEAVE_GROUP, version, group_id="g", member_id="m")
    assert code(answer.error_code) == 25
    assert last(surface) == LeaveGroup("g", (Leaver("m", None, ""),))


@pytest.mark.parametrize("version", range(3, 6))
def test_leave_since_v3_has_members_with_errors_of_their_own(version: int) -> None:
    surface = FakeSurface()
    surface.on_group = lambda _: LeaveGroupAnswer(0, (("m", None, 25), ("", "inst", 0)))
    members = [{"member_id": "m", "reason": "done"}, {"member_id": "", "group_instance_id": "inst"}]
    answer = KafkaClient(surface).ask(Api.LEAVE_GROUP, version, group_id="g", members=members)
    assert code(answer.error_code) == 0
    assert [(m.member_id, m.group_instance_id, code(m.error_code)) for m in answer.members] == [
        ("m", None, 25),
        ("", "inst", 0),
    ]
    request = last(surface)
    assert isinstance(request, LeaveGroup)
    assert request.leavers[0].reason == ("done" if version >= 5 else "")


@pytest.mark.parametrize("version", range(6))
def test_a_group_error_of_leave_is_at_the_top_without_members(version: int) -> None:
    surface = FakeSurface()
    answer = KafkaClient(surface).ask(
        Api.LEAVE_GROUP, version, group_id="g", member_id="m", members=[{"member_id": "m"}]
    )
    assert code(answer.error_code) == 16
    if version >= 3:
        assert answer.members == ()


# -- describe


def described(request: GroupRequest) -> GroupAnswer:
    assert isinstance(request, DescribeGroup)
    if request.group == "gone":
        return DescribeGroupAnswer(error=0, group="gone", state="Dead", known=False)
    if request.group == "elsewhere":
        return DescribeGroupAnswer(error=16, group="elsewhere", state="")
    member = DescribedMember("m", "i", "cli", "/1.2.3.4", b"meta", b"mine")
    return DescribeGroupAnswer(
        error=0, group=request.group, state="Stable", protocol_type="consumer", protocol="range", members=(member,)
    )


@pytest.mark.parametrize("version", range(7))
def test_describe_answers_each_group_on_its_own(version: int) -> None:
    surface = FakeSurface()
    surface.on_group = described
    answer = KafkaClient(surface).ask(Api.DESCRIBE_GROUPS, version, groups=["here", "gone", "elsewhere"])
    here, gone, elsewhere = answer.groups
    assert (here.group_id, here.group_state, here.protocol_type, here.protocol_data) == (
        "here", "Stable", "consumer", "range",
    )  # fmt: skip
    (member,) = here.members
    assert (member.member_id, member.client_id, member.client_host) == ("m", "cli", "/1.2.3.4")
    assert (member.member_metadata, member.member_assignment) == (b"meta", b"mine")
    assert (code(gone.error_code), gone.group_state) == (69 if version >= 6 else 0, "Dead")
    assert code(elsewhere.error_code) == 16


def test_describe_tells_operations_only_when_asked() -> None:
    surface = FakeSurface()
    surface.on_group = described
    client = KafkaClient(surface)
    asked = client.ask(Api.DESCRIBE_GROUPS, 3, groups=["here"], include_authorized_operations=True)
    unasked = client.ask(Api.DESCRIBE_GROUPS, 3, groups=["here"])
    assert asked.groups[0].authorized_operations == (1 << 3) | (1 << 6) | (1 << 8)
    assert unasked.groups[0].authorized_operations == -(2**31)


# -- list


def listing(answers: dict[int, ListGroupsAnswer]) -> Any:
    order = iter(sorted(answers))

    def answer(request: GroupRequest) -> GroupAnswer:
        assert isinstance(request, ListGroups)
        return answers[next(order)]

    return answer


@pytest.mark.parametrize("version", range(6))
def test_list_asks_every_partition_that_is_led_here(version: int) -> None:
    surface = FakeSurface()
    surface.led = (0, 2, 3)
    one, two = ListedGroup("a", "consumer", "Stable", "classic"), ListedGroup("b", "", "Empty", "classic")
    surface.on_group = listing(
        {0: ListGroupsAnswer(0, (one,)), 2: ListGroupsAnswer(0, ()), 3: ListGroupsAnswer(0, (two,))}
    )
    answer = KafkaClient(surface).ask(Api.LIST_GROUPS, version, states_filter=["Stable"], types_filter=["Classic"])
    assert code(answer.error_code) == 0
    assert [(g.group_id, g.protocol_type) for g in answer.groups] == [("a", "consumer"), ("b", "")]
    if version >= 4:
        assert [g.group_state for g in answer.groups] == ["Stable", "Empty"]
    assert [p for p, _, _ in surface.group_requests] == [0, 2, 3]
    expected = ListGroups(("stable",) if version >= 4 else (), ("classic",) if version >= 5 else ())
    assert last(surface) == expected


def test_list_says_when_a_partition_could_not_answer() -> None:
    surface = FakeSurface()
    surface.on_group = listing({0: ListGroupsAnswer(14, ()), 2: ListGroupsAnswer(0, ())})
    assert code(KafkaClient(surface).ask(Api.LIST_GROUPS, 4).error_code) == 14


def test_a_partition_that_was_led_here_a_moment_ago_may_be_in_nobodys_list() -> None:
    """The broker that leads it now may have been asked before: 15, and clients ask all of them again."""
    surface = FakeSurface()
    one = ListedGroup("a", "consumer", "Stable", "classic")
    surface.on_group = listing({0: ListGroupsAnswer(0, (one,)), 2: ListGroupsAnswer(16, ())})
    answer = KafkaClient(surface).ask(Api.LIST_GROUPS, 4)
    assert (code(answer.error_code), [g.group_id for g in answer.groups]) == (15, ["a"])


def test_list_where_nothing_is_led_is_empty() -> None:
    surface = FakeSurface()
    surface.led = ()
    answer = KafkaClient(surface).ask(Api.LIST_GROUPS, 4)
    assert (code(answer.error_code), answer.groups) == (0, ())


# -- delete


@pytest.mark.parametrize("version", range(3))
def test_delete_answers_each_group_once(version: int) -> None:
    surface = FakeSurface()
    errors = {"full": 68, "gone": 69, "fine": 0}

    def answer(request: GroupRequest) -> GroupAnswer:
        assert isinstance(request, DeleteGroup)
        return DeleteGroupAnswer(errors[request.group])

    surface.on_group = answer
    said = KafkaClient(surface).ask(Api.DELETE_GROUPS, version, groups_names=["full", "gone", "fine", "full"])
    assert [(r.group_id, code(r.error_code)) for r in said.results] == [("full", 68), ("gone", 69), ("fine", 0)]
