"""Who may be declared gone for good, over the admin API: a lost replica's folder, where the others are a majority."""

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
from muster_coordinator.admin.auth import TokenFile
from muster_coordinator.admin.calls import next_turn
from muster_coordinator.admin.drain import Drain
from muster_coordinator.admin.replacement import gone_of, judge_elsewhere, judge_group, judge_only_replicas
from muster_coordinator.admin.status import partition_document
from muster_coordinator.controller.commands import CommandResult, RegisterBroker, ReplaceReplica, SetDraining
from muster_coordinator.controller.image import EMPTY_ID, Broker, ClusterImage, Move, Partition, Topic
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo, MemberNo, member_no
from muster_coordinator.limits import KIB
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.multiraft.status import GroupStatus
from muster_coordinator.security.roles import Role

from tests.admin import json_schema
from tests.admin.fake_replica import VOTERS, image
from tests.admin.test_admin_api import LEVELS, SCHEMA, TOKEN, Harness, run
from tests.replica.cluster import SimCluster
from tests.sim.loop import World

TEMPLATE = "/v1/replicas/{id}/replace"
FOLDER = bytes([2]) * 16
OTHER = b"n" * 16


def at_level(level: int = 3, **changes: dict[str, Any]) -> ClusterImage:
    formed = image()
    brokers = {n: replace(one, **changes.get(f"of_{n}", {})) for n, one in formed.brokers.items()}
    return replace(formed, feature_level=level, brokers=brokers)


def lost_one(h: Harness, **changes: dict[str, Any]) -> None:
    h.replica.known_image = at_level(**changes)
    h.replica.down = {BrokerId(1)}


async def ask(h: Harness, body: object, broker: int = 1) -> tuple[int, Any]:
    return await h.ask("POST", f"/v1/replicas/{broker}/replace", body, template=TEMPLATE)


def named(uuid: bytes = FOLDER) -> dict[str, str]:
    return {"gone": uuid.hex()}


def test_a_lost_replicas_folder_is_declared_gone(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        lost_one(h)
        h.replica.submit = lambda command, *, deadline_ms, done: (  # type: ignore[method-assign]
            h.replica.commands.append(command), done(CommandResult(0, "", 1)),
        )[1]  # fmt: skip
        assert await ask(h, named()) == (200, {"broker": 1, "gone": FOLDER.hex(), "binding": 1})
        assert h.replica.commands == [ReplaceReplica(broker=BrokerId(1), gone_uuid=FOLDER)]

    run(tmp_path, body)


def test_what_is_left_over_of_a_group_does_not_say_that_nobody_leads_it(tmp_path: Path) -> None:
    """Seed 153: a move back to the controller's leader was wanted, whose copy was no member by then, and waited for the
    replacement that was refused because of it."""

    async def body(h: Harness) -> None:
        lost_one(h)
        h.replica.submit = lambda command, *, deadline_ms, done: done(CommandResult(0, "", 1))  # type: ignore[method-assign]
        h.replica.left_over = {GroupNo(3)}
        h.replica.leaders[GroupNo(3)] = BrokerId(2)
        assert (await ask(h, named()))[0] == 200
        h.replica.leaders[GroupNo(3)] = BrokerId(1)
        assert (await ask(h, named()))[1]["error"] == "no_leader", "by gossip it is led by the lost one"

    run(tmp_path, body)


@pytest.mark.parametrize(
    "asked",
    [
        [],
        "text",
        3,
        {"gone": 7},
        {"gone": "zz" * 16},
        {"gone": "ab" * 15},
        {"gone": "ab " * 16},
        {"gone": "ab  " * 8},
        {"gone": "é" * 32},
        {**named(), "more": 1},
    ],
)
def test_what_names_no_folder_is_not_understood(tmp_path: Path, asked: object) -> None:
    async def body(h: Harness) -> None:
        lost_one(h)
        status, document = await ask(h, asked)
        assert (status, document["error"]) == (400, "bad_request")
        assert h.replica.commands == []

    run(tmp_path, body)


def test_an_empty_or_broken_body() -> None:
    assert gone_of(b"") is gone_of(b" \n") is gone_of(b"{}") is gone_of(b'{"gone": null}') is None
    assert gone_of(json.dumps(named()).encode()) == FOLDER
    for broken in (b"{", b"\xff\xfe\xfa", b'{"gone"', b"[" * 10):
        with pytest.raises(ValueError, match=r"JSON|Expecting|codec|delimiter|expected"):
            gone_of(broken)
    with pytest.raises(RecursionError):
        gone_of(b"[" * 60_000)


def test_who_names_no_folder_is_told_which_one_is_bound(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        lost_one(h)
        for asked in ({}, None):
            status, document = await ask(h, asked)
            assert (status, document["error"]) == (400, "folder_not_named")
            assert FOLDER.hex() in document["message"]
        lost_one(h, of_1={"replica_uuid": EMPTY_ID, "binding": 1, "gone": (FOLDER,)})
        assert "waits for a new data folder" in (await ask(h, {}))[1]["message"]
        assert h.replica.commands == []

    run(tmp_path, body)


def test_each_refusal_says_its_reason(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        async def refused(status: int, error: str, uuid: bytes = FOLDER, broker: int = 1) -> str:
            answered, document = await ask(h, named(uuid), broker)
            assert (answered, document["error"]) == (status, error), document
            return str(document["message"])

        lost_one(h)
        await refused(404, "no_such_replica", broker=7)
        assert FOLDER.hex() in await refused(409, "another_folder", OTHER)
        h.replica.down = set()
        assert "stop it first" in await refused(409, "connected")
        h.replica.down = {BrokerId(1), BrokerId(2)}
        assert "need a vote of what is gone" in await refused(409, "no_majority")
        for level in (1, 2):
            h.replica.known_image = at_level(level)
            assert await refused(409, "feature_level") == (
                f"replacing a replica needs feature level 3; the cluster has {level}"
            )
        lost_one(h, of_2={"replica_uuid": EMPTY_ID, "binding": 1, "gone": (OTHER,)})
        assert "broker 2 waits" in await refused(409, "not_finished")
        lost_one(h, of_1={"replica_uuid": EMPTY_ID, "binding": 1, "gone": (OTHER,)})
        await refused(409, "another_folder")
        lost_one(h)
        del h.replica.leaders[GroupNo(3)]
        assert "Raft group 3" in await refused(503, "not_known"), "its own folder is new, and does not hold all groups"
        h.replica.leaders[GroupNo(3)] = BrokerId(2)
        h.replica.known_image = replace(at_level(), brokers={n: one for n, one in at_level().brokers.items() if n != 1})
        assert FOLDER.hex() in await refused(409, "another_folder", OTHER), "as the cluster was formed"
        h.replica.known_image = None
        await refused(503, "not_formed")
        assert h.replica.commands == []

    run(tmp_path, body)


def test_only_the_controllers_leader_decides(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        lost_one(h)
        h.replica.leaders[CONTROLLER_GROUP] = BrokerId(2)
        status, document = await ask(h, named())
        assert (status, document["coordinator"], document["admin"]) == (421, 2, "127.0.0.1:9394")
        h.replica.leaders[CONTROLLER_GROUP] = None
        assert (await ask(h, named()))[0] == 503
        h.replica.leaders[CONTROLLER_GROUP] = BrokerId(0)
        h.replica.current = False
        status, document = await ask(h, named())
        assert (status, document["error"]) == (503, "not_known"), "a leader that was deposed cannot show a round"
        assert h.replica.commands == []

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Code.NOT_CONTROLLER, (503, "no_leader")),
        (Code.REQUEST_TIMED_OUT, (503, "not_known")),
        (Code.POLICY_VIOLATION, (409, "refused")),
    ],
)
def test_what_apply_or_the_way_there_said(tmp_path: Path, code: Code, expected: tuple[int, str]) -> None:
    async def body(h: Harness) -> None:
        lost_one(h)
        h.replica.submit = lambda command, *, deadline_ms, done: done(CommandResult(code, "why"))  # type: ignore[method-assign]
        status, document = await ask(h, named())
        assert (status, document["error"]) == expected

    run(tmp_path, body)


def test_a_repeated_request_is_answered_as_the_first_even_when_the_new_folder_is_in(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = at_level(of_1={"replica_uuid": OTHER, "binding": 1, "gone": (FOLDER,)})
        status, document = await ask(h, named())
        assert (status, document["gone"]) == (200, FOLDER.hex()), "it is connected, and is not the one that is gone"

    run(tmp_path, body)


def test_the_token_is_needed(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        lost_one(h)
        async with h.client.post("/v1/replicas/1/replace", json=named()) as answer:
            assert answer.status == 401
        assert h.replica.commands == []

    run(tmp_path, body)


def test_the_status_says_which_folder_is_bound(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        lost_one(h, of_1={"replica_uuid": EMPTY_ID, "binding": 2, "gone": (OTHER, FOLDER)})
        _, document = await h.ask("GET", "/v1/status")
        told = [(one["replica_uuid"], one["binding"]) for one in document["brokers"]][1:]
        assert told == [(None, 2), ("03" * 16, 0)]
        assert document["replica_uuid"] == "01" * 16, "its own, whatever is bound to the others"

    run(tmp_path, body)


def group(role: str = "follower", leader: int | None = 2, **fields: Any) -> GroupStatus:
    given = {"voters": VOTERS, "match": {}, **fields}
    given.setdefault("config", Config(given["voters"]))
    who = None if leader is None else BrokerId(leader)
    return GroupStatus(GroupNo(3), role, 4, who, commit=9, applied=9, last_index=9, **given)


NEW_TWO = member_no(BrokerId(2), 1)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (Config((0, 1, 2), (), (NEW_TWO,)), {0: 0, 1: 0, 2: 0}),
        (Config((0, 1, NEW_TWO), (0, 1, 2)), {0: 0, 1: 0, 2: None}),
        (Config((0, 1, NEW_TWO)), {0: 0, 1: 0, 2: 1}),
        (Config((0, 1)), {0: 0, 1: 0}),
        (Config(()), {}),
    ],
    ids=["learns", "changes", "votes", "left", "unknown"],
)
def test_a_group_says_which_folder_of_each_broker_votes(config: Config, told: dict[int, int | None]) -> None:
    """A learner has no vote, and in a joint configuration neither folder has the whole one."""
    status = group(config=config)
    assert status.bindings() == told
    assert partition_document(status, None, None)["bindings"] == {str(one): what for one, what in told.items()}


FIVE = tuple(BrokerId(n) for n in range(5))


@pytest.mark.parametrize(
    ("seen", "down", "error"),
    [
        (group(), {1}, None),
        (group(), {1, 2}, "no_majority"),
        (group(leader=None), {1}, "no_leader"),
        (group(leader=1), {1}, "no_leader"),
        (group(suspended=True), {1}, "no_majority"),
        (group("leader", 0, match={0: 9, 1: 9, 2: 8}), {1}, None),
        (group("leader", 0, match={0: 9, 1: 9, 2: 0}), {1}, "no_majority"),
        (group(voters=FIVE), {1}, None),
        (group(voters=FIVE), {1, 3}, None),
        (group(voters=FIVE), {1, 3, 4}, "no_majority"),
        (group(voters=FIVE, leader=4), {1, 4}, "no_leader"),
        (group("leader", 0, voters=FIVE, match={0: 9, 2: 0, 3: 9, 4: 9}), {1}, None),
        (group("leader", 0, voters=FIVE, match={0: 9, 2: 0, 3: 0, 4: 9}), {1}, "no_majority"),
        (group(voters=(BrokerId(0), BrokerId(2), BrokerId(3)), leader=None), {1, 2}, None),
        (group("leader", 0, voters=VOTERS[:1], match={0: 9}), {0}, "no_majority"),
    ],
)
def test_a_group_needs_a_majority_and_a_leader_without_it(seen: GroupStatus, down: set[int], error: str | None) -> None:
    target = BrokerId(0 if down == {0} else 1)
    refusal = judge_group(seen, target, BrokerId(0), lambda member: member not in down)
    assert (None if refusal is None else refusal.error) == error


NEW = member_no(BrokerId(2), 1)
"""Broker 2 was replaced, and is connected with its new folder."""


@pytest.mark.parametrize(
    ("seen", "lost", "error"),
    [
        (group("leader", 0, match={0: 9, 2: 9}), 1, "no_majority"),
        (group(leader=1), 1, "no_majority"),
        (group("leader", 0, match={0: 9, 2: 9}, config=Config((0, 1, 2), (), (NEW,))), 1, "no_majority"),
        (group("leader", 0, match={0: 9, 2: 9}, config=Config((0, 1, NEW), (0, 1, 2))), 1, "no_majority"),
        (group("leader", 0, match={0: 9, 2: 9}, config=Config((0, 1, NEW))), 1, None),
        (group("leader", 0, match={0: 9, 2: 0}, config=Config((0, 1, NEW))), 1, "no_majority"),
        (group(leader=2, config=Config((0, 1, NEW))), 1, None),
        (group("leader", 0, match={0: 9, 1: 9}, config=Config((0, 1, 2), (), (NEW,))), 2, None),
        (group("leader", 0, match={0: 9, 1: 9}, config=Config((0, 1, NEW), (0, 1, 2))), 2, None),
        (group("leader", 0, match={0: 9, 1: 9}, config=Config((0, 1, NEW))), 2, None),
    ],
)
def test_a_folder_that_a_group_has_not_taken_in_is_no_vote(seen: GroupStatus, lost: int, error: str | None) -> None:
    """Before, brokers were counted: with one folder on its way a second could be declared gone, and nobody was left who
    could decide."""
    present = {BrokerId(0), BrokerId(1), NEW} - {BrokerId(lost)} - ({NEW} if lost == 2 else set())
    refusal = judge_group(seen, BrokerId(lost), BrokerId(0), present.__contains__)
    assert (None if refusal is None else refusal.error) == error


def test_a_second_folder_is_declared_gone_only_when_the_first_one_has_been_replaced() -> None:
    present = {BrokerId(0), NEW}
    for config, error in (
        (Config((0, 1, 2), (), (NEW,)), "no_majority"),
        (Config((0, 1, NEW), (0, 1, 2)), "no_majority"),
        (Config(()), "not_known"),
        (Config((0, 1, NEW)), None),
    ):
        seen = group("leader", 0, match={0: 9, 2: 9}, config=config)
        refusal = judge_group(seen, BrokerId(1), BrokerId(0), present.__contains__)
        assert (None if refusal is None else refusal.error) == error, config


@pytest.mark.parametrize(
    ("move", "leader", "connected", "error"),
    [
        (None, 0, (0, 2), None),
        (None, 2, (0, 2), None),
        (None, 1, (0, 2), "no_leader"),
        (None, None, (0, 2), "no_leader"),
        (None, 0, (0,), "no_majority"),
        (None, 0, (0, 7), "no_majority"),
        (Move((7, 8, 9)), None, (), None),
        (Move((1, 8, 9)), 8, (8, 9), None),
        (Move((1, 8, 9)), 8, (0, 2, 8), "no_majority"),
        (Move((7, 8, 9), (0, 1, 2), (0, 1, 2)), 7, (0, 2, 7, 8), None),
        (Move((7, 8, 9), (0, 1, 2), (0, 1, 2)), 7, (0, 7, 8, 9), "no_majority"),
        (Move((7, 8, 9), (0, 1, 2), (0, 1, 2)), 7, (0, 2, 7), "no_majority"),
        (Move((1,), (0, 1, 2), (0, 2)), 0, (0, 2), "no_majority"),
        (Move((0, 2, 7), (0, 1, 2), (1,)), 0, (0, 2), None),
    ],
)
def test_a_group_on_other_brokers_only_is_judged_by_where_it_is_wanted_and_came_from(
    move: Move | None, leader: int | None, connected: tuple[int, ...], error: str | None
) -> None:
    """A partition that was moved: the controller's leader has no replica, and cannot see its members. Broker 1 is
    lost; 7 to 9 joined later."""
    members = tuple(member_no(BrokerId(broker), 0) for broker in (0, 1, 2))
    partition = Partition(group=GroupNo(5), members=members, move=move)
    known = None if leader is None else BrokerId(leader)
    refusal = judge_elsewhere(partition, BrokerId(1), known, [*map(BrokerId, connected)])
    assert (None if refusal is None else refusal.error) == error


def placed(*partitions: tuple[tuple[int, ...], Move | None]) -> tuple[Partition, ...]:
    return tuple(
        Partition(group=GroupNo(900 + at), members=tuple(map(MemberNo, members)), move=move, placed=True)
        for at, (members, move) in enumerate(partitions)
    )


def with_topics(seen: ClusterImage, places: dict[str, tuple[Partition, ...]]) -> ClusterImage:
    topics = {
        name: Topic(name=name, topic_id=name.encode() * 16, partitions=rows, configs=(), internal=False)
        for name, rows in places.items()
    }
    return replace(seen, topics={**seen.topics, **topics})


def test_the_only_replica_of_a_partition_is_named() -> None:
    alone = ((1,), None)
    lost = {
        "a": placed(((0,), None), alone, ((1, 0, 2), None), ((0, 1, 2), Move((1,)))),
        "wide": placed(*[alone] * 12),
    }
    spared = {"gone": placed(((1,), Move((2,)))), "moving": placed(((1,), Move((0, 1, 2), (1,))))}
    refusal = judge_only_replicas(with_topics(at_level(), lost | spared), BrokerId(1))
    assert refusal is not None
    assert refusal.message == (
        "broker 1 has the only replica of a (partitions 1, 3), wide (partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 "
        "more): their records are gone with its data folder. Delete these topics and ask again, or bring the folder "
        "back"
    )
    assert judge_only_replicas(with_topics(at_level(), spared), BrokerId(1)) is None
    many = {f"t{number:02}": placed(alone) for number in range(12)}
    refusal = judge_only_replicas(with_topics(at_level(), many), BrokerId(1))
    assert refusal is not None
    assert "t09 (partitions 0) and 2 topics more: their" in refusal.message


def test_the_only_replica_of_a_partition_is_not_given_up_unsaid(tmp_path: Path) -> None:
    """Such a group could never take a new member in, and the replacement would wait for it for ever."""

    async def body(h: Harness) -> None:
        lost_one(h)
        assert h.replica.known_image is not None
        h.replica.known_image = with_topics(h.replica.known_image, {"a": placed(((1,), None))})
        status, document = await ask(h, named())
        assert (status, document["error"]) == (409, "only_replica")
        assert h.replica.commands == []

    run(tmp_path, body)


# Real replicas, on virtual time.


class RealCluster(SimCluster):
    """Three replicas, and the admin API of one of them over HTTP."""

    async def post(self, broker: int, path: str, body: object) -> tuple[int, Any]:
        node = self.nodes[broker]
        api = AdminApi(node, Drain(node), self.access, LEVELS, version="1.2.3")
        async with TestClient(TestServer(api.application())) as client:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            asked = asyncio.ensure_future(client.post(path, json=body, headers=headers))
            while not asked.done():
                self.world.run_for(1)
                await next_turn()
            document = await (await asked).json()
            schema = SCHEMA["paths"][f"POST {TEMPLATE}"][str(asked.result().status)]
            assert json_schema.violations(document, schema, SCHEMA) == []
            return asked.result().status, document

    access: Access

    def controller(self) -> int:
        return self.wait_leader(CONTROLLER_GROUP)

    def seen(self, broker: int) -> Broker:
        return self.nodes[self.controller()].image().brokers[BrokerId(broker)]


def real(tmp_path: Path, level: int, body: Callable[[RealCluster], Awaitable[None]]) -> None:
    it = RealCluster(World(11), feature_max=level, checkpoint_bytes=4 * KIB, trailing_entries=1)
    it.start()
    (tmp_path / "token").write_text(TOKEN + "\n")
    it.access = Access(tokens=[(Role.ADMIN, TokenFile(tmp_path / "token", it.loops[0]))], clock=it.loops[0])
    asyncio.run(body(it))


def path_of(broker: int) -> str:
    return f"/v1/replicas/{broker}/replace"


def test_an_emptied_replica_is_replaced_though_its_new_process_is_connected(tmp_path: Path) -> None:
    async def body(it: RealCluster) -> None:
        leader = it.controller()
        victim = next(n for n in range(3) if n != leader)
        gone = it.seen(victim).replica_uuid
        status, document = await it.post(leader, path_of(victim), {"gone": gone.hex()})
        assert (status, document["error"]) == (409, "connected")
        it.kill(victim)
        it.empty_disk(victim)
        it.start_one(victim)
        it.world.run_for(5_000)
        leader = it.controller()
        assert it.nodes[leader].alive(BrokerId(victim)), "with an empty folder, which takes no part"
        assert victim not in it.nodes[leader].host.peers, "though its link came back before it was missed"
        own = it.nodes[victim].own_folder()
        assert own is not None
        assert own != gone, "an emptied replica tells its own new folder, though it stays out"
        status, document = await it.post(leader, path_of(victim), {"gone": gone.hex()})
        assert (status, document) == (200, {"broker": victim, "gone": gone.hex(), "binding": 1})
        status, document = await it.post(leader, path_of(victim), {"gone": gone.hex()})
        assert (status, document["binding"]) == (200, 1)
        other = next(n for n in range(3) if n not in (leader, victim))
        assert (await it.post(other, path_of(victim), {"gone": gone.hex()}))[0] == 421
        it.wait_ready()
        new = it.nodes[victim].identity.replica_uuid
        assert (it.seen(victim).replica_uuid, it.seen(victim).member) == (new, member_no(BrokerId(victim), 1))
        assert it.seen(victim).gone == (gone,)
        it.world.run_for(20_000)
        told = [
            group.bindings() for node in it.nodes.values() for group in node.local_groups() if group.role == "leader"
        ]
        assert told
        assert all(one == {n: int(n == victim) for n in range(3)} for one in told), "every group has taken it in"

    real(tmp_path, 3, body)


def register(it: RealCluster, leader: int, victim: int) -> None:
    """What the new folder's replica will send once it is let in."""
    results: list[CommandResult] = []
    command = RegisterBroker(
        broker=BrokerId(victim), replica_uuid=OTHER, incarnation=1, endpoints=(), admin="new:1", feature_max=3
    )
    deadline_ms = it.loops[leader].monotonic_ms() + 5_000
    it.nodes[leader].submit(command, deadline_ms=deadline_ms, done=results.append)
    it.world.run_until("registered", lambda: bool(results), 6_000)
    assert results[0].error == Code.NONE, results


def test_a_replica_that_starts_from_a_checkpoint_knows_the_bindings(tmp_path: Path) -> None:
    async def body(it: RealCluster) -> None:
        leader = it.controller()
        victim, other = (n for n in range(3) if n != leader)
        gone = it.seen(victim).replica_uuid
        it.kill(victim)
        it.world.run_for(5_000)
        assert (await it.post(leader, path_of(victim), {"gone": gone.hex()}))[0] == 200
        register(it, leader, victim)
        before = it.seen(victim)

        def written() -> bool:
            command = SetDraining(broker=BrokerId(other), draining=it.world.rand.random() < 0.5)
            deadline_ms = it.loops[leader].monotonic_ms() + 5_000
            it.nodes[leader].submit(command, deadline_ms=deadline_ms, done=lambda _: None)
            return any(path.startswith(f"checkpoints/{CONTROLLER_GROUP}/") for path in it.disks[other].files())

        it.world.run_until("a checkpoint of the controller's group", written, 60_000)
        it.world.run_for(1_000)
        it.kill(other)
        it.restart(other)
        it.wait_ready([leader, other])
        image = it.nodes[other].image()
        assert image is not None
        assert image.brokers[BrokerId(victim)] == before
        assert before.gone == (gone,)

    real(tmp_path, 3, body)


def lost(it: RealCluster) -> tuple[int, bytes]:
    """A replica that does not lead the controller's group dies, and is missed: its broker id and its folder's uuid."""
    leader = it.controller()
    victim = next(n for n in range(3) if n != leader)
    gone = it.seen(victim).replica_uuid
    it.kill(victim)
    it.world.run_for(5_000)
    return victim, gone


def test_a_replica_that_was_lost_before_it_had_ever_registered_is_replaced(tmp_path: Path) -> None:
    """Its uuid is in the cluster record alone; before, nobody could replace it."""

    async def body(it: RealCluster) -> None:
        await next_turn()
        leader, other = it.controller(), 2
        gone = it.nodes[leader].recorded_folder(BrokerId(other))
        assert gone is not None
        assert other not in it.nodes[leader].image().brokers
        it.start_one(other)
        it.world.run_for(5_000)
        assert any(gone.hex() in why for why in it.nodes[other].not_ready()), "its new process names it"
        status, document = await it.post(leader, path_of(other), {"gone": OTHER.hex()})
        assert (status, document["error"], gone.hex() in document["message"]) == (409, "another_folder", True)
        status, document = await it.post(it.controller(), path_of(other), {"gone": gone.hex()})
        assert (status, document) == (200, {"broker": other, "gone": gone.hex(), "binding": 1})
        it.wait_ready()
        assert it.seen(other).member == member_no(BrokerId(other), 1)
        assert it.seen(other).endpoints, "it has told its own"

    it = RealCluster(World(3), feature_max=3)
    for broker in it.brokers:
        it.start_one(broker)
    lost = 2
    it.world.run_until("formed", lambda: all(node.formed is not None for node in it.nodes.values()), 10_000)
    it.kill(lost)
    it.empty_disk(lost)
    it.wait_ready([0, 1])
    (tmp_path / "token").write_text(TOKEN + "\n")
    it.access = Access(tokens=[(Role.ADMIN, TokenFile(tmp_path / "token", it.loops[0]))], clock=it.loops[0])
    asyncio.run(body(it))


def test_the_folder_that_is_gone_is_refused_when_it_comes_back(tmp_path: Path) -> None:
    async def body(it: RealCluster) -> None:
        victim, gone = lost(it)
        assert (await it.post(it.controller(), path_of(victim), {"gone": gone.hex()}))[0] == 200
        it.restart(victim)
        it.world.run_for(10_000)
        assert any("declared gone for good and replaced" in why for why in it.nodes[victim].not_ready())
        assert not it.seen(victim).bound

    real(tmp_path, 3, body)


def test_with_another_replica_down_nobody_is_replaced(tmp_path: Path) -> None:
    async def body(it: RealCluster) -> None:
        leader = it.controller()
        one, two = (n for n in range(3) if n != leader)
        gone = it.seen(one).replica_uuid
        it.kill(one)
        it.world.run_for(5_000)
        it.kill(two)
        status, _ = await it.post(leader, path_of(one), {"gone": gone.hex()})
        assert status == 503, "without a majority nobody can show that its image is current"
        it.restart(two)
        it.wait_ready([leader, two])
        assert it.seen(one).bound

    real(tmp_path, 3, body)


def test_in_a_cluster_of_this_release_the_level_refuses_it(tmp_path: Path) -> None:
    async def body(it: RealCluster) -> None:
        victim, gone = lost(it)
        leader = it.controller()
        before = it.nodes[leader].host.groups[CONTROLLER_GROUP].applied
        status, document = await it.post(leader, path_of(victim), {"gone": gone.hex()})
        assert (status, document["error"]) == (409, "feature_level")
        assert it.nodes[leader].host.groups[CONTROLLER_GROUP].applied == before, "and no log holds it"

    real(tmp_path, 2, body)


def test_a_replica_with_another_idea_of_the_level_cannot_have_it_written(tmp_path: Path) -> None:
    """An entry that the release before does not know would stop its controller group for good."""

    async def body(it: RealCluster) -> None:
        leader = it.controller()
        other = next(n for n in range(3) if n != leader)
        command = ReplaceReplica(broker=BrokerId(other), gone_uuid=it.seen(other).replica_uuid)
        results: list[CommandResult] = []
        before = it.nodes[leader].host.groups[CONTROLLER_GROUP].applied
        for asked in (leader, other):
            deadline_ms = it.loops[asked].monotonic_ms() + 5_000
            it.nodes[asked].submit(command, deadline_ms=deadline_ms, done=results.append)
        formed = it.nodes[other].formed
        assert formed is not None
        machine = formed.group_manager.controller.machine
        assert machine.cluster is not None
        machine._cluster = replace(machine.cluster, feature_level=3)
        deadline_ms = it.loops[other].monotonic_ms() + 5_000
        it.nodes[other].submit(command, deadline_ms=deadline_ms, done=results.append)
        it.world.run_until("answered", lambda: len(results) == 3, 6_000)
        assert [result.error for result in results] == [Code.UNSUPPORTED_VERSION] * 3
        assert it.nodes[leader].host.groups[CONTROLLER_GROUP].applied == before

    real(tmp_path, 2, body)
