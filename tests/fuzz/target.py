"""One real replica on virtual time and disk, with real connections, and the questions that every input must survive.

`give(frame)` hands a frame to a connection as a socket would, lets everything settle, and says what became of it. A
contained error (`ports.Notice`), an exception on the loop, or a state that a checkpoint or a restart does not give back
is a failure of the product. Who sends it has shown who it is, by PLAIN, so requests of SASL are about a session that
there is; nobody ever becomes somebody else. It is a super user of the authorizer by ACLs, and there is a transaction
log, so that ACLs and transactions reach the log as groups and topics do. `check` asks everything about everything, and
restores a checkpoint; `restart` replays.

With `quotas` these hold, and those that inputs set: answers throw their clients back, and a muted connection is read
again at once, so that the next input is not held up.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.standard_authorizer import AuthorizerSettings, StandardAuthorizer
from muster_coordinator.api.transactions import Coordinators
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.controller.image import TRANSACTIONS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.events import Event
from muster_coordinator.groups.requests import DescribeGroup, JoinGroup, JoinGroupAnswer, ListGroups, OffsetFetch
from muster_coordinator.groups.requests import Protocol as Listed
from muster_coordinator.groups.shard import GroupShard
from muster_coordinator.ids import CONTROLLER_GROUP
from muster_coordinator.replica.partitions.surface import partition_of
from muster_coordinator.security.quota_entities import QuotaEntity
from muster_coordinator.security.session import ListenerSasl, SaslSession
from muster_coordinator.transactions.requests import AddPartitions, Answer, InitProducer
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.connection_state import State
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.throttling import NOBODY_THROTTLED, Throttling
from muster_coordinator.wire.versions import Api

from tests.fuzz.sane import MEMBERS_META, TOPICS, Known
from tests.made_settings import api_settings, shard_config
from tests.replica.cluster import SimCluster
from tests.sim.loop import World
from tests.wire.kio_entities import encode_request

PARTITIONS = 3
SETTLE_MS = 4
"""A WAL write and its sync, and the answer, on the virtual disk."""
SEATS = 6
CHECK_EVERY = 4_000
OFFERED = ListenerSasl(
    mechanisms=("PLAIN", "SCRAM-SHA-256"), reauth_ms={"PLAIN": 60_000}, plain_users={"bob": "canary-bob"}
)
LOGIN = (
    encode_request(Api.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, 1, "c"),
    encode_request(Api.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0bob\0canary-bob"}, 2, "c"),
)
PRINCIPAL = "User:bob"
RULES = AuthorizerSettings(super_users=frozenset((PRINCIPAL,)), allow_if_no_acl=False, report_only=False)
"""Whoever sends the inputs may do everything, so that ACLs come and go and none is in the way."""
TRANSACTION_PARTITIONS = 2
OF_PRODUCERS = frozenset((Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.END_TXN))
PRODUCERS = 8
Quotas = Mapping[QuotaEntity, tuple[tuple[str, float], ...]]


class Outcome(NamedTuple):
    """What became of one frame."""

    decoded: bool
    """A handler got it."""
    proposed: bool
    """Some Raft group's log grew."""
    answered: bool
    closed: bool


class Agreeing:
    """A coordinator of transactions in which every partition is; so commits of any producer reach the log."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        add: bool,
        deadline_ms: int,
        done: Callable[[Code], None],
    ) -> None:
        done(Code.NONE)


class Target:
    """See the module."""

    def __init__(self, seed: int | str, quotas: Quotas | None = None) -> None:
        """`quotas`: None if none are ever to hold, also of those that inputs set."""
        self.quotas = quotas
        self.throttling = NOBODY_THROTTLED
        self.throttled: Counter[str] = Counter()
        """By quota: answers that threw their client back."""
        self._in_force: object = None
        self._worked_ns = 0
        self.world = World(seed)
        self.cluster = SimCluster(
            self.world,
            replicas=1,
            partitions=PARTITIONS,
            shard=shard_config(initial_rebalance_delay_ms=0, session_timeout_min_ms=6_000),
        )
        self.cluster.notice = self._noticed
        self.known = Known()
        self.notices: list[str] = []
        self._connection: Connection | None = None
        self._seats = 0
        self._producers = 0
        self._frames = 0
        self.cluster.start()
        self._dispatch()
        for number in range(TOPICS):
            name = f"t{number}"
            topic_id = f"{number:016}".encode()
            self.cluster.submit(0, CreateTopic(name=name, topic_id=topic_id, partitions=1, configs=()))
            self.known.topic_ids[name] = topic_id
        looked = {"key_type": 1, "key": "x0", "coordinator_keys": ("x0",)}
        self.give(encode_request(Api.FIND_COORDINATOR, 4, looked, 1, "c"))
        self.world.run_for(1_000)
        image = self.node.image()
        assert image is not None
        assert TRANSACTIONS_TOPIC in image.topics

    def _noticed(self, what: str, details: Mapping[str, object], error: BaseException | None) -> None:
        raise AssertionError(f"{what}: {dict(details)}") from error

    def _dispatch(self) -> None:
        self.node = self.cluster.nodes[0]
        if self.quotas is not None:
            self.throttling = Throttling(self.cluster.loops[0], tell=self._told)
            self._in_force = None
        self.dispatcher = Dispatcher(
            self.node,
            api_settings(transaction_partitions=TRANSACTION_PARTITIONS),
            StandardAuthorizer(self.node.image, RULES),
            throttling=self.throttling,
            verifier=Agreeing(),
        )
        self._connection = None

    def _told(self, event: Event) -> None:
        self.throttled[str(dict(event.fields)["quota"])] += 1

    def _work_ns(self) -> int:
        """On virtual time nothing takes any: here each look at the clock does."""
        self._worked_ns += 50_000
        return self._worked_ns

    def _let_quotas_hold(self) -> None:
        """As `app` does it, twice a second."""
        image = self.node.image()
        if self.quotas is None or image is None or image.quotas is self._in_force:
            return
        self._in_force = image.quotas
        self.throttling.set({**image.quotas, **self.quotas})

    # -- inputs ----------------------------------------------------------------------------------------------------

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.state is not State.READY or self._connection.unanswered > 50:
            if self._connection is not None:
                self._connection.close()
            self._connection = Connection(
                listener="PLAINTEXT",
                connection_id=1,
                client_host="/127.0.0.1",
                clock=self.cluster.loops[0],
                handle=self.dispatcher.handle,
                heartbeat_at_once=self.dispatcher.heartbeat_at_once,
                wake=_nothing,
                notice=self._noticed,
                authenticated=False,
                sasl=SaslSession(OFFERED),
                meter=RequestMeter(self._work_ns),
                throttling=self.throttling,
            )
            for frame in LOGIN:
                self._connection.receive(frame)
            self._connection.take()
            self._connection.note_unsent(0)
            assert self._connection.state is State.READY
        assert self._connection.principal == PRINCIPAL
        return self._connection

    def _written(self) -> int:
        return sum(group.core.last_index for group in self.node.host.groups.values())

    def _controller_index(self) -> int:
        return self.node.host.groups[CONTROLLER_GROUP].core.last_index

    def give(self, frame: bytes) -> Outcome:
        """One frame on a connection that stays open as long as it may."""
        self._let_quotas_hold()
        connection = self._connected()
        connection.unmute()
        served, written = sum(self.dispatcher.served.values()), self._written()
        connection.receive(frame)
        proposed = self._written() > written  # what follows may be of a timer
        controlled = self._controller_index()
        self.world.run_for(SETTLE_MS)
        proposed = proposed or self._controller_index() > controlled
        answers = connection.take()
        connection.note_unsent(0)
        self._frames += 1
        failed = connection.state is State.FAILED
        decoded = sum(self.dispatcher.served.values()) > served
        if failed or connection.buffered_bytes:
            connection.close()
            self._connection = None
        return Outcome(decoded, proposed, bool(answers), failed)

    def prepare(self, api: int) -> None:
        """A group with one member that leads and waits for its plan, for the requests of members; the fetch sessions
        that there are, for those of consumers; a producer that its coordinator knows, for those of transactions; how
        many partitions there are, for those that want more."""
        if api in OF_PRODUCERS:
            self._producer(begun=api == Api.END_TXN)
        if api == Api.CREATE_PARTITIONS and (image := self.node.image()) is not None:
            of_clients = {name: len(t.partitions) for name, t in image.topics.items() if not name.startswith("__")}
            self.known.partitions = of_clients
        if api == Api.FETCH:
            sessions = self.dispatcher.fetch.sessions._sessions.values()
            self.known.fetch_sessions = [(one.id, one.epoch) for one in sessions][-SEATS:]
        if api not in (Api.SYNC_GROUP, Api.HEARTBEAT, Api.LEAVE_GROUP):
            return
        known = self.known
        if len(known.seats) >= SEATS:
            known.seats.pop(0)
        self._seats += 1
        group = f"s{self._seats % (4 * SEATS)}-{self._seats}"
        request = JoinGroup(
            group=group, member="", instance=None, client_id="c", client_host="/h", session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000, protocol_type="consumer", protocols=(Listed("range", MEMBERS_META),),
            reason="", requires_known_member=False, supports_skip_assignment=True,
        )  # fmt: skip
        answer = self.cluster.ask(0, partition_of(group, PARTITIONS), request)
        assert isinstance(answer, JoinGroupAnswer)
        known.seats[:] = [*known.seats, (group, answer.member, answer.generation)]

    def _producer(self, *, begun: bool) -> None:
        """The next incarnation of one of a few, or the one before again; `begun`: a new one, with a partition in its
        transaction. None while the one before it is being ended."""
        self._producers += 1
        if self._producers % 2 and not begun:
            return
        name = f"x{self._producers % PRODUCERS}"
        coordinators, answers = Coordinators(self.dispatcher.services), list[Answer]()
        coordinators.ask(InitProducer(name, 60_000), answers.append)
        self.world.run_until("the coordinator answers", lambda: answers, 5_000)
        if answers[-1].code is not Code.NONE:
            return
        producer_id, epoch = answers[-1].producer_id, answers[-1].producer_epoch
        self.known.producers[:] = [*self.known.producers[1 - PRODUCERS :], (name, producer_id, epoch)]
        if begun:
            answers.clear()
            coordinators.ask(AddPartitions(name, producer_id, epoch, frozenset({("t0", 0)})), answers.append)
            self.world.run_until("the coordinator answers", lambda: answers, 5_000)

    # -- questions -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything is told, and a checkpoint gives it all back."""
        self.world.run_for(100)
        for partition in range(PARTITIONS):
            listing = self.cluster.ask(0, partition, ListGroups((), ()))
            assert listing.error == 0
            for listed in listing.groups:
                described = self.cluster.ask(0, partition, DescribeGroup(listed.group))
                assert described.error == 0, listed
                fetched = self.cluster.ask(0, partition, OffsetFetch(listed.group, None, require_stable=False))
                assert fetched.error == 0, listed
            assert self.node.group_manager is not None
            shard = self.node.group_manager.shards[partition].shard
            restored = GroupShard(shard._core.config, shard._core.rand)
            restored.restore(shard.image().encode())
            assert restored.state_hash() == shard.state_hash()

    def restart(self) -> None:
        """Power loss; the replica comes back to the same state from what it wrote."""
        self.world.run_until("nothing is in flight", lambda: not self._in_flight(), 60_000)
        before = self._states()
        self.cluster.kill(0)
        self.cluster.restart(0)
        self.cluster.wait_ready()
        self._dispatch()
        self.known.seats.clear()
        self.known.producers.clear()
        after = self._states()
        assert after.keys() == before.keys()
        # A new leader's first entry says nothing; a timer that fires at once may have written more.
        still = [group for group in before if after[group][0] == before[group][0] + 1]
        assert still, "every group changed at once"
        assert [group for group in still if after[group][1] != before[group][1]] == []

    def _in_flight(self) -> bool:
        return any(group.applied != group.core.last_index for group in self.node.host.groups.values())

    def _states(self) -> dict[int, tuple[int, str]]:
        """Raft group -> (applied index, state hash); but for the controller's, which notes every start."""
        groups = self.node.host.groups
        return {
            int(number): (group.applied, str(self.node.state_hash(number)))
            for number, group in groups.items()
            if number != CONTROLLER_GROUP
        }


def _nothing() -> None:
    """Answers are taken when the world has settled."""
