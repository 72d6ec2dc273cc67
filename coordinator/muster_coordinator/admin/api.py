"""The admin API: `/v1/...` for callers with a role (decision 37, ADR 56; contract in docs/admin-api.md and its JSON
schema).

`admin.access` says who a caller is, `admin.routes` what a path needs; both are asked before anything else. Handlers
translate between HTTP and the replica's surface and keep no state but the drain. A request about a group that another
replica leads is answered 421 with the coordinator's id and admin address; the caller asks there. 503 means "cannot be
known now, ask again", never "does not exist".
"""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from aiohttp import web

from muster_coordinator.admin.access import Access, Caller, Stranger, Unknown
from muster_coordinator.admin.balancing import Balancing
from muster_coordinator.admin.calls import CALL_MS_MAX, admin_context, answer_of, next_turn, until
from muster_coordinator.admin.controller_voters import ControllerVoters
from muster_coordinator.admin.drain import Drain, takers
from muster_coordinator.admin.log_levels import LevelControl, LevelPaths
from muster_coordinator.admin.node_groups import in_redis
from muster_coordinator.admin.replacement import Replacement
from muster_coordinator.admin.replication import Replication
from muster_coordinator.admin.routes import Route, RouteTable
from muster_coordinator.admin.status import (
    Json,
    certificate_document,
    group_document,
    names_of_groups,
    partition_document,
    status_document,
)
from muster_coordinator.admin.stopped_entries import StoppedEntries
from muster_coordinator.admin.users import Users
from muster_coordinator.admin.view import AdminReplica, CertificateStatus
from muster_coordinator.controller.commands import CommandResult
from muster_coordinator.controller.image import OFFSETS_TOPIC, ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.events import AUDITED, AUTHENTICATION_FAILED, Event, Tell, untold
from muster_coordinator.groups.requests import (
    DescribeGroup,
    DescribeGroupAnswer,
    GroupAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
)
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import COORDINATOR_LOOKUP_WAIT_MS
from muster_coordinator.replica.partitions.surface import partition_of
from muster_coordinator.security.roles import Role

BODY_BYTES_MAX = 64 * 1024
TRANSFER_MS_MAX = 5_000
TRANSFER_LOOK_MS = 10
BAD_REQUEST = 400
LISTENER = "admin"
"""As events name this port."""
PIECE = 100
"""Raft groups of a document that are encoded in one turn, which takes a millisecond or two."""
_DESCRIBE_GROUPS_KEY, _OFFSET_FETCH_KEY = 15, 9

_log = logging.getLogger(__name__)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminApi:
    """Handlers over one replica. `application()` gives the aiohttp application."""

    def __init__(
        self,
        replica: AdminReplica,
        drain: Drain,
        access: Access,
        levels: LevelControl,
        *,
        version: str,
        certificates: Callable[[], Sequence[CertificateStatus]] = tuple,
        tell: Tell = untold,
    ) -> None:
        self._replica = replica
        self._drain = drain
        self._access = access
        self._version = version
        self._certificates = certificates
        self._tell = tell
        self._stopped_entries = StoppedEntries(replica)
        self._replacement = Replacement(replica)
        self._balancing = Balancing(replica)
        self._controller_voters = ControllerVoters(replica)
        self._replication = Replication(replica)
        self._users = Users(replica)
        self._levels = LevelPaths(levels)
        self._started_ms = replica.loop.monotonic_ms()

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_BYTES_MAX)
        self._table = RouteTable(app, self.routes())
        return app

    def routes(self) -> tuple[Route, ...]:
        """All that this API serves."""
        return (
            Route("GET", "/v1/status", Role.VIEWER, self.status),
            Route("GET", "/v1/partitions", Role.VIEWER, self.partitions),
            Route("GET", "/v1/groups/{group:.+}", Role.VIEWER, self.group),
            Route("POST", "/v1/drain", Role.OPERATOR, self.drain),
            Route("POST", "/v1/undrain", Role.OPERATOR, self.undrain),
            Route("POST", "/v1/transfer", Role.OPERATOR, self.transfer),
            *self._stopped_entries.routes(),
            *self._replacement.routes(),
            *self._balancing.routes(),
            *self._controller_voters.routes(),
            *self._replication.routes(),
            *self._users.routes(),
            *self._levels.routes(),
        )

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Ask first who it is, also for paths that do not exist. What changes something leaves a line of the audit,
        whatever was answered."""
        caller = await self._access.caller(request)
        result = "unknown"
        try:
            answer = await self._answer(caller, request, handler)
            result = "done" if answer.status < BAD_REQUEST else str(answer.status)
        finally:  # also of a request that was given up (`runtime.http_listener`), and may have taken effect
            if request.method not in ("GET", "HEAD", "OPTIONS"):
                self._tell(Event(AUDITED, _audit_of(request, caller, result)))
        return answer

    async def _answer(
        self, caller: Caller | Stranger | Unknown, request: web.Request, handler: _Handler
    ) -> web.StreamResponse:
        if isinstance(caller, Unknown):
            return _error(503, "not_known", caller.value)
        if isinstance(caller, Stranger):
            self._tell(Event(AUTHENTICATION_FAILED, _failure_of(request, caller)))
            return _error(401, "unauthorized", self._access.asks_for, headers={"WWW-Authenticate": "Bearer"})
        if caller.role is None:
            return _error(403, "forbidden", "no role is given to this caller")
        needs = self._table.needs(request)
        if caller.role < needs:
            return _error(403, "forbidden", f"this needs the role {needs}, and the caller's is {caller.role}")
        return await _handled(request, handler)

    async def status(self, request: web.Request) -> web.StreamResponse:
        now_ms = self._replica.loop.monotonic_ms()
        document = status_document(
            self._replica, self._drain, version=self._version, uptime_ms=now_ms - self._started_ms
        )
        document["certificates"] = [certificate_document(one) for one in self._certificates()]
        return web.json_response(document)

    async def partitions(self, request: web.Request) -> web.StreamResponse:
        """All Raft groups with a voter here, by number."""
        names = names_of_groups(self._replica.image())
        parts: list[str] = []
        for group in self._replica.local_groups():
            topic, number = names.get(group.group, (None, None))
            size_bytes = self._replica.log_bytes(group.group)
            parts.append(json.dumps(partition_document(group, topic, number, log_bytes=size_bytes)))
            if len(parts) % PIECE == 0:
                await next_turn()
        text = f'{{"broker": {self._replica.broker}, "partitions": [{", ".join(parts)}]}}'
        return web.Response(text=text, content_type="application/json")

    async def group(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["group"]
        image = self._replica.image()
        if image is None:
            return _error(503, "not_formed", "this replica does not know a cluster yet")
        partition = dict(image.routing.overrides).get(name, partition_of(name, image.routing.offsets_partitions))
        raft_group = image.topics[OFFSETS_TOPIC].partitions[partition].group
        elsewhere = await self._elsewhere(image, raft_group)
        if elsewhere is not None:
            return elsewhere
        description = await self._ask(partition, DescribeGroup(name), _DESCRIBE_GROUPS_KEY)
        assert isinstance(description, DescribeGroupAnswer)
        if description.error not in (Code.NONE, Code.GROUP_ID_NOT_FOUND):
            return await self._refused(image, raft_group, description.error)
        offsets = await self._ask(partition, OffsetFetch(name, None, require_stable=False), _OFFSET_FETCH_KEY)
        assert isinstance(offsets, OffsetFetchAnswer)
        if offsets.error not in (Code.NONE, Code.GROUP_ID_NOT_FOUND):
            return await self._refused(image, raft_group, offsets.error)
        if not description.known:
            return _error(404, "no_such_group", f"no group {name}")
        behind = partial(in_redis, self._replica, image, name)
        return web.json_response(
            group_document(description, offsets, behind, partition=partition, coordinator=self._replica.broker)
        )

    async def drain(self, request: web.Request) -> web.StreamResponse:
        """Start the drain, or join one under way; answers at once. Progress is in /v1/status."""
        self._drain.start()
        return web.json_response({"phase": str(self._drain.phase), "left": self._drain.left()}, status=202)

    async def undrain(self, request: web.Request) -> web.StreamResponse:
        if self._drain.for_good:
            return _error(409, "stopping", "this replica stops; its next start clears the mark")
        result: CommandResult = await answer_of(self._drain.undo)
        if result.error != Code.NONE:
            return _error(503, "not_replicated", f"the draining mark is not cleared yet: {_name(result.error)}")
        return web.json_response({"phase": str(self._drain.phase), "left": self._drain.left()})

    async def transfer(self, request: web.Request) -> web.StreamResponse:
        """Transfer one Raft group's leadership to `target`, or to the voter that a drain would choose. Answers when
        another replica leads, or 503 after TRANSFER_MS_MAX."""
        try:
            body: object = await request.json()
            group_no, target = self._transfer_of(body)
        except (ValueError, RecursionError) as error:
            return _error(400, "bad_request", str(error))
        group = self._replica.group_status(group_no)
        if group is None:
            return _error(404, "no_such_partition", f"no Raft group {group_no} here")
        image = self._replica.image()
        if group.role != "leader":
            return self._misdirected(image, group.leader, group_no)
        if target is None:
            wanted = takers(self._replica, group)
        else:
            wanted = [voter for voter in group.voters if voter == target != self._replica.broker]
        if not any(self._replica.alive(taker) and self._replica.transfer(group_no, taker) for taker in wanted):
            said = "no other voter is reachable and not draining, or a transfer is under way already"
            return _error(409, "nobody_can_take_it", said)
        me = self._replica.broker
        moved = await until(
            self._replica.loop,
            lambda: self._replica.leadership(group_no).leader not in (None, me),
            every_ms=TRANSFER_LOOK_MS,
            within_ms=TRANSFER_MS_MAX,
        )
        if not moved:
            return _error(503, "not_moved", "the transfer did not finish in time; this replica still leads")
        now = self._replica.leadership(group_no)
        return web.json_response({"group": group_no, "leader": now.leader, "term": now.term})

    # -- small parts -----------------------------------------------------------------------------------------------

    def _transfer_of(self, body: object) -> tuple[GroupNo, BrokerId | None]:
        """(Raft group, target) of `{"group": n}` or `{"topic": t, "partition": p}`, with an optional `target`."""
        if not isinstance(body, dict) or not body.keys() <= {"group", "topic", "partition", "target"}:
            raise ValueError("expected an object with group, or with topic and partition, and optionally target")
        target = body.get("target")
        if target is not None and type(target) is not int:
            raise ValueError("target is a broker id")
        broker = None if target is None else BrokerId(target)
        group = body.get("group")
        if group is not None:
            if type(group) is not int:
                raise ValueError("group is a number")
            return GroupNo(group), broker
        image = self._replica.image()
        topic = image.topics.get(body.get("topic", OFFSETS_TOPIC)) if image is not None else None
        index = body.get("partition")
        if topic is None or type(index) is not int or not 0 <= index < len(topic.partitions):
            raise ValueError("no such topic or partition")
        return topic.partitions[index].group, broker

    async def _ask(self, partition: int, request: DescribeGroup | OffsetFetch, api_key: int) -> GroupAnswer:
        context = admin_context(self._replica.loop, api_key)
        return await answer_of(lambda done: self._replica.group_request(partition, request, context, done))

    async def _elsewhere(self, image: ClusterImage, group: GroupNo) -> web.Response | None:
        """None when this replica leads `group`; else the answer 421, or 503 while no leader is known."""

        def ask(done: Callable[[None], None]) -> None:
            self._replica.when_leader_known(group, COORDINATOR_LOOKUP_WAIT_MS, lambda: done(None))

        await answer_of(ask)
        leader = self._replica.leadership(group).leader
        return None if leader == self._replica.broker else self._misdirected(image, leader, group)

    async def _refused(self, image: ClusterImage, group: GroupNo, code: int) -> web.Response:
        """The answer to a refused request: leadership has moved meanwhile, or this replica cannot answer now."""
        if code == Code.NOT_COORDINATOR:
            elsewhere = await self._elsewhere(image, group)
            if elsewhere is not None:
                return elsewhere
        return _error(503, "not_available", _name(code))

    def _misdirected(self, image: ClusterImage | None, leader: BrokerId | None, group: GroupNo) -> web.Response:
        broker = image.brokers.get(leader) if image is not None and leader is not None else None
        if broker is None:
            return _error(503, "no_leader", f"no leader of Raft group {group} is known")
        return _error(421, "misdirected", "another replica leads it", coordinator=broker.broker, admin=broker.admin)


def _name(code: int) -> str:
    return Code(code).name if code in Code._value2member_map_ else str(code)


async def _handled(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """A handler's exception is logged and costs one answer."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _error(error.status, "http", error.reason)
    except Exception:  # noqa: BLE001  # The outermost frame of ours: aiohttp would log it on its own logger only.
        _log.exception("admin request failed", extra={"path": request.path})
        return _error(500, "bug", "the request met an error of this replica, see the log")


def _failure_of(request: web.Request, stranger: Stranger) -> dict[str, object]:
    return {
        "listener": LISTENER,
        "peer": request.remote or "unknown",
        "mechanism": stranger.tried,
        "user": stranger.user,
        "why": stranger.why,
    }


def _audit_of(request: web.Request, caller: Caller | Stranger | Unknown, result: str) -> dict[str, object]:
    """Who has a token of a file is not known; which file it is, is."""
    return {
        "principal": caller.principal if isinstance(caller, Caller) else "unknown",
        "peer": request.remote or "unknown",
        "listener": LISTENER,
        "client": request.headers.get("User-Agent", ""),
        "action": f"{request.method} {request.path}",
        "resources": request.query_string,
        "result": result,
    }


def _error(
    status: int, error: str, message: str, *, headers: dict[str, str] | None = None, **more: object
) -> web.Response:
    document: Json = {"error": error, "message": message, **more}
    return web.Response(
        status=status, text=json.dumps(document), content_type="application/json", headers=headers or {}
    )


assert TRANSFER_MS_MAX < CALL_MS_MAX
