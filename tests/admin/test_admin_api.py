"""The admin API over a real aiohttp server: token, shapes as in the schema, redirections, what is refused."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from muster_coordinator.admin.access import Access
from muster_coordinator.admin.api import AdminApi
from muster_coordinator.admin.auth import LOOK_MS, TokenFile
from muster_coordinator.admin.drain import Drain
from muster_coordinator.controller.image import Partition, Topic
from muster_coordinator.errors import Code
from muster_coordinator.events import AUDITED, Event
from muster_coordinator.groups.assignors.consumer_protocol import Assignment, encode_assignment
from muster_coordinator.groups.assignors.membership import TopicPartition
from muster_coordinator.groups.requests import (
    DescribedMember,
    DescribeGroup,
    DescribeGroupAnswer,
    FetchedOffset,
    OffsetFetch,
    OffsetFetchAnswer,
)
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.redis_streams.lag import Quality, Records
from muster_coordinator.replica.multiraft.status import CopyWithoutRoom, DamagedFile, LateMarker, OpenTransactions
from muster_coordinator.replica.partitions.surface import partition_of
from muster_coordinator.runtime.log_levels import LogLevels
from muster_coordinator.runtime.loop import AsyncLoop
from muster_coordinator.security.roles import Role
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG
from yarl import URL

from tests.admin import json_schema
from tests.admin.fake_replica import MEMBERS, OFFSETS_PARTITIONS, FakeReplica, image
from tests.sim.loop import SimLoop, World

SCHEMA = json_schema.load()
TOKEN = "s3cret"
LEVELS = LogLevels("info")


class Harness:
    def __init__(self, replica: FakeReplica, client: TestClient[Any, Any], drain: Drain) -> None:
        self.replica = replica
        self.drain = drain
        self.client = client
        self.told: list[Event] = []
        """The audit."""

    async def ask(self, method: str, path: str, body: Any = None, *, template: str | None = None) -> tuple[int, Any]:
        """(status, document); the document is held against the schema of its path and status."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self.client.request(method, path, json=body, headers=headers) as answer:
            document = await answer.json()
            schema = SCHEMA["paths"][f"{method} {template or path}"]
            assert json_schema.violations(document, schema[str(answer.status)], SCHEMA) == []
            return answer.status, document


def run(tmp_path: Path, body: Callable[[Harness], Awaitable[None]]) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    fatal: list[BaseException] = []
    told: list[Event] = []

    async def main() -> None:
        loop = AsyncLoop(asyncio.get_running_loop(), on_fatal=lambda error, _: fatal.append(error))
        replica = FakeReplica(loop)
        drain = Drain(replica)
        access = Access(tokens=[(Role.ADMIN, TokenFile(tmp_path / "token", loop))], clock=loop)
        api = AdminApi(replica, drain, access, LEVELS, version="1.2.3", tell=told.append)
        async with TestClient(TestServer(api.application())) as client:
            harness = Harness(replica, client, drain)
            harness.told = told
            await body(harness)
        loop.close()

    asyncio.run(main())
    assert not fatal


def describe(state: str = "Stable", *, known: bool = True, error: int = 0) -> DescribeGroupAnswer:
    bytes_of = encode_assignment(Assignment((TopicPartition("flights", 0), TopicPartition("flights", 3)), b""))
    member = DescribedMember("m-1", None, "client", "/127.0.0.1", b"", bytes_of)
    other = DescribedMember("m-2", "static-2", "client", "/127.0.0.1", b"", b"\x00")
    return DescribeGroupAnswer(
        error=error,
        group="g",
        state=state,
        known=known,
        generation=5,
        rebalanced_at_ms=1_700_000_000_000,
        rebalance_reason="left",
        protocol_type="consumer",
        protocol="range",
        members=(member, other),
    )


OFFSETS = OffsetFetchAnswer(0, (("flights", (FetchedOffset(0, 17, 2, "", 0), FetchedOffset(1, -1, -1, "", 0))),))


def test_what_changes_something_is_in_the_audit_and_so_is_who_may_not(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        await h.ask("GET", "/v1/status")
        assert h.told == []
        await h.ask("POST", "/v1/drain")
        async with h.client.post("/v1/drain", headers={"Authorization": "Bearer canary"}) as answer:
            assert answer.status == 401
        lines = [e.fields for e in h.told if e.kind is AUDITED]
        said = [(one["principal"], one["peer"], one["action"], one["result"]) for one in lines]
        assert said == [
            ("admin token", "127.0.0.1", "POST /v1/drain", "done"),
            ("unknown", "127.0.0.1", "POST /v1/drain", "401"),
        ]
        assert "canary" not in str(h.told)
        assert TOKEN not in str(h.told)

    run(tmp_path, body)


def test_status_says_who_and_how_and_conforms(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        status, document = await h.ask("GET", "/v1/status")
        assert status == 200
        assert (document["version"], document["broker"], document["ready"]) == ("1.2.3", 0, True)
        assert document["leaderships"] == 5
        assert [broker["alive"] for broker in document["brokers"]] == [True, True, True]

    run(tmp_path, body)


def test_status_says_how_long_readers_of_committed_data_have_stood_still(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        _, document = await h.ask("GET", "/v1/status")
        told = {"ids": 9, "ongoing": 4, "prepared": 2}
        none = {"markers_late": 0, "partitions_held_back": 0, "oldest_open_ms": None}
        assert document["transactions"] == told | none
        h.replica.transactions = [OpenTransactions(GroupNo(1), 5, 12), OpenTransactions(GroupNo(2), 61_500, 1)]
        h.replica.late = [LateMarker("orders", 0, 10_001)]
        _, document = await h.ask("GET", "/v1/status")
        assert document["transactions"] == told | {
            "markers_late": 1, "partitions_held_back": 2, "oldest_open_ms": 61_500,
        }  # fmt: skip

    run(tmp_path, body)


def test_status_names_the_partitions_that_wait_for_room(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        _, document = await h.ask("GET", "/v1/status")
        assert document["copies_without_room"] == []
        h.replica.without_room = (CopyWithoutRoom(GroupNo(9), "flights-1", "the disk is low"),)
        _, document = await h.ask("GET", "/v1/status")
        waiting = {"raft_group": 9, "partition": "flights-1", "reason": "the disk is low"}
        assert document["copies_without_room"] == [waiting]

    run(tmp_path, body)


def test_status_answers_before_the_cluster_is_formed(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = None
        h.replica.reasons = ("waiting for the initial replicas [1, 2]",)
        _, document = await h.ask("GET", "/v1/status")
        assert document["cluster_id"] is None
        assert (document["ready"], document["not_ready"]) == (False, ["waiting for the initial replicas [1, 2]"])

    run(tmp_path, body)


def test_thousands_of_partitions_are_one_document(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.leaders = {GroupNo(number): BrokerId(number % 3) for number in range(2_050)}
        _, document = await h.ask("GET", "/v1/partitions")
        assert [(row["group"], row["leader"]) for row in document["partitions"]] == [
            (number, number % 3) for number in range(2_050)
        ]

    run(tmp_path, body)


def test_partitions_name_topics_and_the_leaders_view_of_each_voter(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.leaders[GroupNo(2)] = BrokerId(1)
        h.replica.damaged[GroupNo(1)] = (DamagedFile("00000000000000000040.log", "its CRC", "is being fetched"),)
        _, document = await h.ask("GET", "/v1/partitions")
        by_group = {row["group"]: row for row in document["partitions"]}
        assert (by_group[0]["topic"], by_group[0]["partition"]) == (None, None)
        assert (by_group[1]["topic"], by_group[1]["partition"]) == ("__consumer_offsets", 0)
        assert by_group[1]["match"] == {"1": 10, "2": 9}
        assert by_group[1]["damaged"] == [
            {"file": "00000000000000000040.log", "damage": "its CRC", "repair": "is being fetched"}
        ]
        assert by_group[2]["damaged"] == []
        assert [by_group[number]["log_bytes"] for number in (0, 1, 2)] == [None, None, 4_096]
        assert (by_group[2]["role"], by_group[2]["match"]) == ("follower", {})

    run(tmp_path, body)


def test_a_group_comes_with_members_assignments_and_offsets(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.answers = {DescribeGroup: describe(), OffsetFetch: OFFSETS}
        status, document = await h.ask("GET", "/v1/groups/g", template="/v1/groups/{group}")
        assert status == 200
        assert (document["generation"], document["state"], document["coordinator"]) == (5, "Stable", 0)
        assert (document["last_rebalance_ms"], document["last_rebalance_reason"]) == (1_700_000_000_000, "left")
        assert document["members"][0]["assignment"] == [{"topic": "flights", "partitions": [0, 3]}]
        assert document["members"][1]["assignment"] is None, "bytes that are no assignment are shown, not believed"
        assert [(o["partition"], o["offset"]) for o in document["offsets"]] == [(0, 17)]

    run(tmp_path, body)


def test_offsets_in_redis_come_with_the_records_behind_them(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        known = h.replica.known_image
        assert known is not None
        partitions = tuple(Partition(group=GroupNo(90 + n), members=MEMBERS) for n in range(2))
        gaps = ((STORE_CONFIG, REDIS.name),)
        topic = Topic(name="gaps", topic_id=b"r" * 16, partitions=partitions, configs=gaps, internal=False)
        h.replica.known_image = replace(known, topics={**known.topics, "gaps": topic})
        rows = tuple(FetchedOffset(n, 5, -1, "", 0) for n in range(3))
        h.replica.answers = {
            DescribeGroup: describe(), OffsetFetch: OffsetFetchAnswer(0, (("gaps", rows), ("gone", rows[:1]))),
        }  # fmt: skip
        h.replica.behind = {("g", 0): Records(7, Quality.ESTIMATED)}
        _, document = await h.ask("GET", "/v1/groups/g", template="/v1/groups/{group}")
        assert [(one["topic"], one["behind"]) for one in document["offsets"]] == [
            ("gaps", {"records": 7, "quality": "estimated"}),
            ("gaps", {"records": None, "quality": "unknown"}),
            ("gaps", None),
            ("gone", None),
        ]

    run(tmp_path, body)


def test_a_group_name_may_hold_any_characters(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        name = "söme/group %2F?"
        h.replica.answers = {DescribeGroup: describe(), OffsetFetch: OFFSETS}
        asked: list[tuple[int, str]] = []
        original = h.replica.group_request

        def spy(partition: int, request: Any, context: Any, done: Any) -> None:
            asked.append((partition, request.group))
            original(partition, request, context, done)

        h.replica.group_request = spy
        path = "/v1/groups/s%C3%B6me%2Fgroup%20%252F%3F"
        await h.ask("GET", URL(path, encoded=True), template="/v1/groups/{group}")
        assert asked[0] == (partition_of(name, OFFSETS_PARTITIONS), name)

    run(tmp_path, body)


def test_an_unknown_group_is_404(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.answers = {DescribeGroup: describe("Dead", known=False), OffsetFetch: OffsetFetchAnswer(0, ())}
        assert (await h.ask("GET", "/v1/groups/g", template="/v1/groups/{group}"))[0] == 404

    run(tmp_path, body)


def test_the_wrong_replica_says_who_is_right(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.leaders = {GroupNo(n): BrokerId(2) for n in range(5)}
        status, document = await h.ask("GET", "/v1/groups/g", template="/v1/groups/{group}")
        assert (status, document["coordinator"], document["admin"]) == (421, 2, "127.0.0.1:9394")

    run(tmp_path, body)


@pytest.mark.parametrize("code", [Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS])
def test_what_cannot_be_known_is_503_and_never_empty(tmp_path: Path, code: Code) -> None:
    async def body(h: Harness) -> None:
        h.replica.answers = {DescribeGroup: describe(error=code)}
        status, document = await h.ask("GET", "/v1/groups/g", template="/v1/groups/{group}")
        assert (status, document["message"]) == (503, code.name)
        h.replica.answers = {DescribeGroup: describe(), OffsetFetch: OffsetFetchAnswer(code, ())}
        assert (await h.ask("GET", "/v1/groups/g", template="/v1/groups/{group}"))[0] == 503
        h.replica.leaders = {GroupNo(n): None for n in range(5)}
        assert (await h.ask("GET", "/v1/groups/g", template="/v1/groups/{group}"))[0] == 503
        h.replica.known_image = None
        assert (await h.ask("GET", "/v1/groups/g", template="/v1/groups/{group}"))[0] == 503

    run(tmp_path, body)


def test_drain_answers_at_once_and_undrain_clears_it(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        status, document = await h.ask("POST", "/v1/drain")
        assert (status, document["phase"]) == (202, "marking")
        status, document = await h.ask("POST", "/v1/undrain")
        assert (status, document["phase"]) == (200, "idle")
        h.replica.submit = lambda command, *, deadline_ms, done: done(type("R", (), {"error": 41})())
        assert (await h.ask("POST", "/v1/undrain"))[0] == 503
        h.drain.start(for_good=True)
        status, document = await h.ask("POST", "/v1/undrain")
        assert (status, document["error"]) == (409, "stopping")
        assert h.drain.phase == "marking"

    run(tmp_path, body)


def test_transfer_moves_one_partition_and_reports_the_new_leader(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        status, document = await h.ask("POST", "/v1/transfer", {"partition": 2})
        assert (status, document) == (200, {"group": 3, "leader": 1, "term": 3})
        assert h.replica.transfers == [(3, 1)]
        status, document = await h.ask("POST", "/v1/transfer", {"group": 0, "target": 2})
        assert (status, document["leader"]) == (200, 2)

    run(tmp_path, body)


def test_a_transfer_without_a_target_goes_where_a_drain_would_send_it(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.low = {BrokerId(1)}  # the best-matched
        status, document = await h.ask("POST", "/v1/transfer", {"partition": 2})
        assert (status, document["leader"]) == (200, 2)
        h.replica.low = set()
        h.replica.known_image = image(frozenset({1}))
        status, document = await h.ask("POST", "/v1/transfer", {"group": 0})
        assert (status, document["leader"]) == (200, 2)
        h.replica.down = {BrokerId(2)}
        assert (await h.ask("POST", "/v1/transfer", {"group": 1}))[0] == 409, "not to one that is draining"
        status, document = await h.ask("POST", "/v1/transfer", {"group": 1, "target": 1})
        assert (status, document["leader"]) == (200, 1), "unless it is named"

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("request_body", "status"),
    [
        ({"partition": 4}, 400),
        ({"partition": -1}, 400),
        ({"partition": True}, 400),
        ({"topic": "nope", "partition": 0}, 400),
        ({}, 400),
        ([], 400),
        ({"group": "1"}, 400),
        ({"group": 1, "target": "2"}, 400),
        ({"group": 1, "surprise": 2}, 400),
        ({"group": 99}, 404),
        ({"group": 2}, 421),
        ({"group": 1, "target": 9}, 409),
    ],
)
def test_transfers_that_make_no_sense_are_refused(tmp_path: Path, request_body: Any, status: int) -> None:
    async def body(h: Harness) -> None:
        h.replica.leaders[GroupNo(2)] = BrokerId(1)
        assert (await h.ask("POST", "/v1/transfer", request_body))[0] == status
        assert h.replica.transfers == []

    run(tmp_path, body)


@pytest.mark.parametrize("bad", ["[" * 50_000, "{", "", "\ud800", '{"group": 1' + "0" * 5_000 + "}", "nul"])
def test_a_body_that_is_no_json_is_the_callers_fault(tmp_path: Path, bad: str) -> None:
    """Deep nesting is a RecursionError to Python's parser, and a number of 5,000 digits a ValueError."""

    async def body(h: Harness) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = bad.encode("utf-8", "surrogatepass")
        async with h.client.request("POST", "/v1/transfer", data=data, headers=headers) as answer:
            assert answer.status == 400
            assert (await answer.json())["error"] == "bad_request"

    run(tmp_path, body)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"]
)
@pytest.mark.parametrize("path", ["/v1/status", "/v1/nowhere", "/"])
def test_without_the_token_nothing_is_told(tmp_path: Path, header: str | None, path: str) -> None:
    async def body(h: Harness) -> None:
        headers = {} if header is None else {"Authorization": header}
        async with h.client.get(path, headers=headers) as answer:
            assert answer.status == 401
            assert json.loads(await answer.text())["error"] == "unauthorized"

    run(tmp_path, body)


def test_an_unknown_path_and_a_wrong_method_are_json_errors(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        for method, path, status in (("GET", "/v1/nowhere", 404), ("GET", "/v1/drain", 405)):
            async with h.client.request(method, path, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
                assert answer.status == status
                assert json_schema.violations(await answer.json(), SCHEMA["$defs"]["error"], SCHEMA) == []

    run(tmp_path, body)


def test_a_rotated_token_counts_without_a_restart(tmp_path: Path) -> None:
    world = World()
    path = tmp_path / "token"
    path.write_text("old")
    token = TokenFile(path, SimLoop(world))
    assert token.allows("Bearer old")
    path.write_text("newer\n")
    world.run_for(LOOK_MS)
    assert not token.allows("Bearer old")
    assert token.allows("bearer newer")
    path.unlink()
    world.run_for(LOOK_MS)
    assert not token.allows("Bearer newer")


def test_an_empty_or_absent_token_file_lets_nobody_in(tmp_path: Path) -> None:
    loop = SimLoop(World())
    assert not TokenFile(tmp_path / "absent", loop).allows("Bearer ")
    (tmp_path / "empty").write_text("\n")
    assert not TokenFile(tmp_path / "empty", loop).allows("Bearer ")


def test_the_schema_checker_itself_notices_what_is_wrong() -> None:
    good = {"group": 1, "leader": None, "term": 2}
    schema = SCHEMA["$defs"]["transfer"]
    assert json_schema.violations(good, schema, SCHEMA) == []
    for bad in ({"group": 1, "term": 2}, {**good, "more": 1}, {**good, "term": "2"}, {**good, "term": True}, []):
        assert json_schema.violations(bad, schema, SCHEMA)
