"""The balancer over the admin API: its plan, a pause, and who is to leave."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.admin.balancing import PLANNED_MAX, flag_of
from muster_coordinator.controller.commands import Command, CommandResult, DecommissionBroker, PauseBalancer
from muster_coordinator.controller.image import ClusterImage, Partition, Topic
from muster_coordinator.controller.weighing import Decision, Held, Verdict
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo, MemberNo
from muster_coordinator.replica.maintenance.balancer import Weighed

from tests.admin.fake_replica import broker, image
from tests.admin.test_admin_api import Harness, run

DECOMMISSION = "/v1/replicas/{id}/decommission"


def uneven(partitions: int) -> ClusterImage:
    """Two more brokers without anything, and partitions on the first three."""
    formed = image()
    more = {BrokerId(number): broker(number) for number in (3, 4)}
    topic = Topic(
        name="orders",
        topic_id=b"t" * 16,
        partitions=tuple(
            Partition(group=GroupNo(10 + at), members=tuple(map(MemberNo, (0, 1, 2))), placed=True)
            for at in range(partitions)
        ),
        configs=(),
        internal=False,
    )
    return replace(
        formed, brokers={**formed.brokers, **more}, topics={**formed.topics, "orders": topic}, feature_level=3
    )


def answering(h: Harness, result: CommandResult) -> None:
    """The controller's log answers each command so."""

    def submit(command: Command, *, deadline_ms: int, done: Callable[[CommandResult], None]) -> None:
        h.replica.commands.append(command)
        done(result)

    h.replica.submit = submit  # type: ignore[method-assign]


async def leave(h: Harness, body: Any, number: int = 1) -> tuple[int, Any]:
    return await h.ask("POST", f"/v1/replicas/{number}/decommission", body, template=DECOMMISSION)


def test_the_plan_of_the_controllers_leader_is_shown(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = uneven(3)
        status, document = await h.ask("GET", "/v1/balancer")
        assert status == 200
        assert (document["state"], document["reason"]) == ("quiet", "broker 2 is not connected")
        assert (document["paused"], document["moving"], document["more"], document["stuck"]) == (False, 1, False, [])
        first = document["planned"][0]
        assert first == {
            "topic": "__consumer_offsets",
            "partition": 0,
            "replicas": [3, 1, 2],
            "copies": True,
            "reason": "broker 0 has 7 replicas, broker 3 0",
        }
        nothing = {"bytes": None, "load": None, "brokers": [], "exchanges": 0}
        assert document["weights"] == nothing, "it has not looked yet"
        known = Held(BrokerId(0), 7, 2, 2**63, None)
        h.replica.weighed = Weighed((Decision(Verdict.KEPT, "b"), Decision(Verdict.UNKNOWN, "l")), (known,), 4)
        assert (await h.ask("GET", "/v1/balancer"))[1]["weights"] == {
            "bytes": {"decision": "kept", "reason": "b"},
            "load": {"decision": "unknown", "reason": "l"},
            "brokers": [
                {"broker": 0, "replicas": 7, "preferred": 2, "bytes": 2**63, "led_bytes_per_second": None},
            ],
            "exchanges": 4,
        }
        h.replica.known_image = replace(uneven(0), balancer_paused=True)
        assert (await h.ask("GET", "/v1/balancer"))[1]["paused"]

    run(tmp_path, body)


def test_a_long_plan_is_cut(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = uneven(PLANNED_MAX)
        _, document = await h.ask("GET", "/v1/balancer")
        assert (len(document["planned"]), document["more"]) == (PLANNED_MAX, True)

    run(tmp_path, body)


def test_what_cannot_leave_is_told(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        known = uneven(1)
        brokers = {number: one for number, one in known.brokers.items() if number < 3}
        brokers[BrokerId(2)] = replace(brokers[BrokerId(2)], departing=True)
        h.replica.known_image = replace(known, brokers=brokers)
        _, document = await h.ask("GET", "/v1/balancer")
        told = "stays on broker 2: every broker that can be reached has it"
        named = [*(f"__consumer_offsets-{number}" for number in range(4)), "orders-0"]
        assert document["stuck"] == [f"{name} {told}" for name in named]
        _, document = await h.ask("GET", "/v1/status")
        assert [one["departing"] for one in document["brokers"]] == [False, False, True]

    run(tmp_path, body)


def test_another_replica_sends_to_the_controllers_leader(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.leaders[CONTROLLER_GROUP] = BrokerId(2)
        status, document = await h.ask("GET", "/v1/balancer")
        assert (status, document["coordinator"], document["admin"]) == (421, 2, "127.0.0.1:9394")
        h.replica.leaders[CONTROLLER_GROUP] = None
        assert (await h.ask("GET", "/v1/balancer"))[0] == 503
        h.replica.known_image = None
        assert (await h.ask("GET", "/v1/balancer"))[1]["error"] == "not_formed"

    run(tmp_path, body)


@pytest.mark.parametrize("paused", [True, False])
def test_a_pause_is_committed_through_any_replica(tmp_path: Path, paused: bool) -> None:
    async def body(h: Harness) -> None:
        h.replica.leaders[CONTROLLER_GROUP] = BrokerId(2)
        answering(h, CommandResult(0))
        assert await h.ask("POST", "/v1/balancer", {"paused": paused}) == (200, {"paused": paused})
        assert h.replica.commands == [PauseBalancer(paused=paused)]

    run(tmp_path, body)


@pytest.mark.parametrize("departing", [True, False])
def test_a_broker_is_to_leave_or_to_stay(tmp_path: Path, departing: bool) -> None:
    async def body(h: Harness) -> None:
        answering(h, CommandResult(0))
        assert await leave(h, {"departing": departing}) == (200, {"broker": 1, "departing": departing})
        uuid = bytes([2]) * 16
        assert h.replica.commands == [DecommissionBroker(broker=BrokerId(1), replica_uuid=uuid, departing=departing)]

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("result", "status", "error"),
    [
        (CommandResult(Code.POLICY_VIOLATION, "orders-0 has 3 replicas"), 409, "refused"),
        (CommandResult(Code.INVALID_REQUEST, "another folder"), 409, "refused"),
        (CommandResult(Code.UNSUPPORTED_VERSION, "needs feature level 3"), 409, "feature_level"),
        (CommandResult(Code.NOT_CONTROLLER), 503, "no_leader"),
        (CommandResult(Code.REQUEST_TIMED_OUT), 503, "not_known"),
    ],
)
def test_each_refusal_says_its_reason(tmp_path: Path, result: CommandResult, status: int, error: str) -> None:
    async def body(h: Harness) -> None:
        answering(h, result)
        for answered, document in (
            await leave(h, {"departing": True}),
            await h.ask("POST", "/v1/balancer", {"paused": True}),
        ):
            assert (answered, document["error"]) == (status, error)
            assert result.message in document["message"]

    run(tmp_path, body)


def test_nothing_is_asked_for_by_an_image_that_may_be_late(tmp_path: Path) -> None:
    """A broker that it does not know may have joined since."""

    async def body(h: Harness) -> None:
        h.replica.current = False
        assert (await leave(h, {"departing": True}, 9))[1]["error"] == "not_known"
        h.replica.current = True
        assert (await leave(h, {"departing": True}, 9))[1]["error"] == "no_such_replica"
        h.replica.known_image = None
        assert (await leave(h, {"departing": True}))[1]["error"] == "not_formed"
        assert h.replica.commands == []

    run(tmp_path, body)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"{", b"\xff", b'{"departing": 1}', b'{"departing": true, "more": 1}', b'"departing"']
)
def test_what_is_no_such_object_is_not_understood(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected|Expecting|codec|delimiter|property name"):
        flag_of(body, "departing")


def test_a_body_that_is_not_understood_changes_nothing(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        for wrong in ({}, [], {"departing": "yes"}):
            assert (await leave(h, wrong))[1]["error"] == "bad_request"
            assert (await h.ask("POST", "/v1/balancer", wrong))[1]["error"] == "bad_request"
        assert h.replica.commands == []

    run(tmp_path, body)
