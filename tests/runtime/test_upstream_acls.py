"""Looks at an upstream's ACLs over real sockets: known, changed, refused, nonsense, gone; and who is judged by them."""

import asyncio
from typing import Any

import pytest
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.standard_authorizer import AuthorizerSettings, StandardAuthorizer
from muster_coordinator.context import RequestContext
from muster_coordinator.runtime import upstream_acls
from muster_coordinator.runtime.upstream_acls import UpstreamAcls
from muster_coordinator.security.acl import Acl
from muster_coordinator.upstream import limits
from muster_coordinator.wire.versions import Api

from tests.runtime.test_upstream import FakeBroker, World, run

READ_G = Acl(3, "g", 3, "User:alice", "*", 3, 3)


def answer(*acls: Acl, code: int = 0) -> dict[str, Any]:
    resources = [
        {
            "resource_type": acl.resource_type, "resource_name": acl.name, "pattern_type": acl.pattern,
            "acls": [
                {
                    "principal": acl.principal, "host": acl.host, "operation": acl.operation,
                    "permission_type": acl.permission,
                }
            ],
        }
        for acl in acls
    ]  # fmt: skip
    return {"error_code": code, "error_message": None, "resources": resources}


def context_of(user: str) -> RequestContext:
    return RequestContext(
        principal=f"User:{user}", listener="INSIDE", connection_id=1, client_id="c", client_host="/10.0.0.9",
        api_key=Api.JOIN_GROUP, api_version=5, deadline_ms=1,
    )  # fmt: skip


class Judged(World):
    """A replica whose groups are judged by the upstream's ACLs."""

    def __init__(self, broker: FakeBroker) -> None:
        super().__init__(broker.address)
        self.told: list[object] = []
        self.acls = UpstreamAcls(asyncio.get_running_loop(), lambda _, details, __: self.told.append(details["why"]))
        self.upstream._acls = self.acls
        rules = AuthorizerSettings(super_users=frozenset(("User:root",)), allow_if_no_acl=False, report_only=False)
        self.authorize = StandardAuthorizer(self.acls.known, rules)

    def may_read(self, user: str, group: str = "g") -> bool:
        return self.authorize(context_of(user), Operation.READ, Resource(ResourceType.GROUP, group))


def test_who_may_what_follows_each_look() -> None:
    async def test() -> None:
        broker = await FakeBroker(1).start()
        world = Judged(broker)
        assert not world.authorize.knows(context_of("alice")), "nobody is denied before anything is known"
        assert world.authorize.knows(context_of("root"))
        broker.acls = answer(READ_G)
        assert await world.look()
        assert world.authorize.knows(context_of("alice"))
        assert (world.may_read("alice"), world.may_read("bob"), world.may_read("alice", "h")) == (True, False, False)
        broker.acls = answer(READ_G, READ_G._replace(permission=2))
        assert await world.look()
        assert not world.may_read("alice"), "a DENY"
        broker.acls = answer()
        assert await world.look()
        assert (world.may_read("alice"), world.may_read("root")) == (False, True)
        await broker.stop()

    run(test())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (answer(code=31), "has no right to describe the cluster"),
        (answer(code=54), "it has no authorizer"),
        (answer(READ_G._replace(pattern=9)), "not known here"),
        (b"\0\0\0\5\0\0\0\4\0", "ends early"),
        (b"\x7f\0\0\0\0\0\0\4", "an answer of"),
    ],
)
def test_what_tells_none_is_told_and_changes_nothing(said: dict[str, Any] | bytes, why: str) -> None:
    async def test() -> None:
        broker = await FakeBroker(1).start()
        world = Judged(broker)
        broker.acls = said
        assert await world.look(), "the upstream itself was reached"
        assert world.upstream.advertised() is not None
        assert not world.authorize.knows(context_of("alice"))
        broker.acls = answer(READ_G)
        assert await world.look()
        assert world.may_read("alice")
        broker.acls = said
        assert await world.look()
        assert world.may_read("alice"), "what was known stays"
        assert len(world.told) == 2
        assert all(why in str(one) for one in world.told)
        await broker.stop()

    run(test())


def test_a_broker_without_the_api_is_told() -> None:
    async def test() -> None:
        broker = await FakeBroker(1).start()
        del broker.rows[Api.DESCRIBE_ACLS]
        world = Judged(broker)
        assert await world.look()
        assert world.told == ["it does not serve DescribeAcls"]
        await broker.stop()

    run(test())


def test_a_broker_that_hangs_costs_its_time_and_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOOK_TIMEOUT_MS", 300)

    async def test() -> None:
        broker = await FakeBroker(1).start()
        broker.acls = b""
        world = Judged(broker)
        assert await world.look()
        assert world.told == ["TimeoutError"]
        await broker.stop()

    run(test())


def test_the_same_bytes_are_not_read_again_and_many_are_asked_for_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    real = upstream_acls.read_acls
    monkeypatch.setattr(upstream_acls, "read_acls", lambda told: (read.append(told), real(told))[1])

    async def test() -> None:
        broker = await FakeBroker(1).start()
        world = Judged(broker)
        broker.acls = answer(READ_G)
        await world.look()
        before = broker.asked
        await world.look()
        assert (len(read), broker.asked - before) == (1, 3), "versions, brokers, ACLs"
        monkeypatch.setattr(limits, "FEW_TOPICS_BYTES_MAX", 10)
        await world.look()
        before = broker.asked
        await world.look()
        assert broker.asked - before < 3
        await broker.stop()

    run(test())
