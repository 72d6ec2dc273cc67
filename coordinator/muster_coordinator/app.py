"""The composition root: one replica as a process, from settings to exit code.

Everything is created here and passed to its users; no other module obtains a clock, a socket or a setting by itself.
Life:

    lock the folder, open it (blocking, before anything listens)  ->  peers  ->  node  ->  probes, admin  ->  clients
    SIGTERM: not ready; drain; clients closed over two seconds; peers, disk, end.  A second SIGTERM: end at once.

A failure ends the whole process, never a part of it: a broken invariant with a traceback (`exits.BUG`), a failed write
or fsync with `exits.STORAGE`, unreadable data with `exits.CORRUPTION`. A supervisor starts it again, and the replica
continues from its log.
"""

import asyncio
import contextlib
import logging
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector

from muster_coordinator import exits
from muster_coordinator.admin.access import Access, OidcRoles
from muster_coordinator.admin.api import AdminApi
from muster_coordinator.admin.auth import TokenFile
from muster_coordinator.admin.drain import Drain
from muster_coordinator.admin.group_meter import GroupMeter
from muster_coordinator.admin.metrics import ReplicaCollector
from muster_coordinator.admin.node_groups import NodeGroups
from muster_coordinator.admin.probes import Probes
from muster_coordinator.admin.request_metrics import RequestCollector
from muster_coordinator.admin_settings import ADMIN_LISTENER, PROBE_LISTENER
from muster_coordinator.api.authorize import allow_all
from muster_coordinator.api.client_rights import ClientRights, rights_of
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.fetch_sessions import FetchSessionStats
from muster_coordinator.api.standard_authorizer import StandardAuthorizer
from muster_coordinator.api.upstream_addresses import UpstreamAddresses
from muster_coordinator.controller.commands import CommandResult, FirstScramCredentials
from muster_coordinator.controller.image import PEER_LISTENER
from muster_coordinator.errors import Code, Corruption, EnvironmentFault, StorageFailed, UnsupportedFormat
from muster_coordinator.events import PEERS_OPEN, Event
from muster_coordinator.histogram import Histogram
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.limits import LINK_HANDSHAKE_TIMEOUT_MS, LINK_HANDSHAKES_MAX
from muster_coordinator.links.mesh import Mesh
from muster_coordinator.links.peer_auth import NONCE_BYTES, Method, PeerAuth
from muster_coordinator.node_settings import (
    admission_limits,
    api_settings,
    authorizer_settings,
    client_limits,
    mutation_windows,
    node_settings,
    quota_windows,
    upstream_ids,
    upstream_tls,
)
from muster_coordinator.quotas.admission import Admission
from muster_coordinator.redis_streams.server import StreamServer
from muster_coordinator.replica.bootstrap.first_users import load_first_users, remove_first_users
from muster_coordinator.replica.bootstrap.identity import StartRefused
from muster_coordinator.replica.node import Node
from muster_coordinator.runtime.client_arrival import ClientTls
from muster_coordinator.runtime.client_connection import Door
from muster_coordinator.runtime.client_listener import ACCEPT_DELAY_MS_MAX, ClientListener
from muster_coordinator.runtime.client_stats import ClientStats
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.runtime.event_log import EventLog
from muster_coordinator.runtime.folder import FolderLock, PidFile
from muster_coordinator.runtime.gc_policy import GcPolicy, read_resident_bytes
from muster_coordinator.runtime.heap import HeapTrim, set_thresholds
from muster_coordinator.runtime.http_listener import HttpListener
from muster_coordinator.runtime.jwks import JwksSource
from muster_coordinator.runtime.log_levels import LogLevels
from muster_coordinator.runtime.logs import LogPipeline, print_trace, start_logging
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop
from muster_coordinator.runtime.notices import NoticeLog
from muster_coordinator.runtime.peer_secrets import PeerSecrets
from muster_coordinator.runtime.peers import PeerTls, TcpPeers
from muster_coordinator.runtime.tls_connection import Handshakes
from muster_coordinator.runtime.tls_store import TlsStatus, TlsStore
from muster_coordinator.runtime.upstream import Upstream
from muster_coordinator.runtime.upstream_acls import UpstreamAcls
from muster_coordinator.runtime.upstream_dial import UpstreamDialler
from muster_coordinator.runtime.upstream_passage import UpstreamPassage
from muster_coordinator.runtime.watchdog import Watchdog
from muster_coordinator.security.oauth import TokenJudge, TokenRules
from muster_coordinator.security.principal_mapping import principal_rules
from muster_coordinator.security.tls_config import ClientAuth
from muster_coordinator.setting_values import WILDCARDS, Listener, format_address
from muster_coordinator.settings import Settings
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.throttling import ThrottleStats, Throttling

DRAIN_MARGIN_MS = 10_000
"""Part of the grace that is kept for closing connections; the drain is given up before it."""
READINESS_LOOK_MS = 100
FIRST_USERS_MS = 5_000
USERS_LOOK_MS = 500
"""How soon a deleted user is seen; its connections are to be closed within five seconds."""
QUOTAS_LOOK_MS = 500
"""How soon a change of quotas holds; within five seconds, as for rights."""
_log = logging.getLogger(__name__)


def run_replica(settings: Settings, *, supervised: bool) -> int:
    """Run until stopped. Returns the exit code; fatal failures of a running replica end the process directly."""
    set_thresholds(os.environ)  # Before the first thread: its heap is made when it first allocates.
    logs = start_logging(settings.log_level, broker=settings.node_id)
    _raise_descriptor_limit()
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        code = _run(settings, loop, logs, supervised=supervised)
    finally:
        written = logs.stop()
        loop.close()
    if not written:
        os._exit(code)  # The interpreter's exit would wait for the lock of a standard error that is blocked.
    return code


def _run(settings: Settings, loop: asyncio.AbstractEventLoop, logs: LogPipeline, *, supervised: bool) -> int:
    try:
        return loop.run_until_complete(Replica(settings, loop, logs, supervised=supervised).run())
    except (Corruption, StartRefused, UnsupportedFormat) as error:
        return _refuse(str(error), exits.CORRUPTION)
    except StorageFailed as error:
        return _refuse(str(error), exits.STORAGE)
    except (EnvironmentFault, OSError) as error:
        return _refuse(str(error), exits.UNAVAILABLE)


def _raise_descriptor_limit() -> None:
    """Ten thousand clients and the segment files of two thousand groups need more than the usual 1,024 descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _refuse(why: str, code: int) -> int:
    _log.error("cannot run: %s", why)
    return code


class Replica:
    """All parts of one process; also `admin.metrics.ProcessView`."""

    def __init__(
        self, settings: Settings, loop: asyncio.AbstractEventLoop, logs: LogPipeline, *, supervised: bool
    ) -> None:
        self._settings = settings
        self._logs = logs
        self._supervised = supervised
        self._loop = AsyncLoop(loop, on_fatal=self._fatal)
        self._stop_asked = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._stopping = False
        self._http: list[HttpListener] = []
        self._ends: list[Callable[[], None]] = []
        """End functions of the parts that were created, in that order."""
        self._listeners: list[ClientListener] = []
        self._stores: list[TlsStore] = []

    async def run(self) -> int:
        """Lock the folder, start, run until stopped, end. Returns the exit code."""
        settings = self._settings
        lock = FolderLock(settings.data_dir)
        pid_file = PidFile(settings.pid_file) if settings.pid_file is not None else None
        self._watch_signals()
        try:
            self._make()
            await self._listen()
            _log.info("started", extra={"pid": os.getpid(), "version": version("muster")})
            await self._stop_asked.wait()
            return await self._stop()
        finally:
            await self._end()
            if pid_file is not None:
                pid_file.remove()
            lock.release()

    # -- making ----------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        settings, loop = self._settings, self._loop
        rand = random.Random(random.SystemRandom().getrandbits(128))
        broker = BrokerId(settings.node_id)
        run = rand.getrandbits(64)
        self._notices = NoticeLog(loop)
        self._events = EventLog(loop)
        auth = self._peer_auth()
        self._tcp = TcpPeers(
            loop.asyncio_loop,
            settings.peers,
            lambda dialler: Mesh(
                broker,
                settings.peers,
                run=run,
                loop=loop,
                rand=rand,
                dialler=dialler,
                notice=_notice,
                auth=auth,
                nonce=lambda: os.urandom(NONCE_BYTES),
            ),
            self._peer_tls(),
        )
        self._mesh = self._tcp.mesh
        self._ends += (self._tcp.close, self._mesh.stop)
        disk = self._disk = OsDisk(str(settings.data_dir))
        self._first_users = load_first_users(disk)
        streams = self._stream_server()
        self._node = Node(node_settings(settings), loop, disk, self._mesh, rand, self._notices, self._events, streams)
        self._drain = Drain(self._node, self._events)
        self._requests = RequestMeter(time.monotonic_ns)
        self._token_keys = self._key_source()
        rules = authorizer_settings(settings)
        theirs = bool(settings.upstream_servers) and settings.upstream_passes_logins
        upstream_acls = UpstreamAcls(loop.asyncio_loop, self._notices) if theirs and rules is not None else None
        judged_by = self._node.image if upstream_acls is None else upstream_acls.known
        authorize = allow_all if rules is None else StandardAuthorizer(judged_by, rules, self._events)
        windows = quota_windows(settings)
        self._throttling = Throttling(loop, windows, self._events, mutation_windows(settings))
        self._admission = Admission(admission_limits(settings), windows, ACCEPT_DELAY_MS_MAX)
        self._upstream = self._make_upstream(upstream_acls)
        self._dispatcher = Dispatcher(
            self._node,
            api_settings(settings),
            authorize,
            meter=self._requests,
            rand=random.SystemRandom(),
            tell=self._events,
            tokens=self._token_judge(settings.token_audiences),
            throttling=self._throttling,
            verifier=self._node,
            upstream=self._upstream,
        )
        self._watchdog = Watchdog(loop)
        heap = HeapTrim(loop, read_resident_bytes)
        self._gc = GcPolicy(loop, leads_nothing=lambda: self._drain.left() == 0, heap=heap)
        self._meter = GroupMeter(loop, NodeGroups(self._node))
        self._ends += (self._watchdog.stop, self._gc.stop, self._meter.stop)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(ReplicaCollector(self._node, self, self._meter))
        self._registry.register(RequestCollector(self))

    def _stream_server(self) -> StreamServer | None:
        """The Redis of topics in Redis, where one is configured."""
        settings = self._settings
        if not settings.redis_url:
            return None
        try:
            from muster_coordinator.runtime.redis_cluster import RedisCluster
            from muster_coordinator.runtime.redis_connections import RedisSettings
            from muster_coordinator.runtime.redis_server import RedisServer
        except ImportError as error:
            raise EnvironmentFault(f"redis.url needs the extra muster[redis]: {error}") from error
        for key, path in settings.redis_files().items():
            try:
                path.read_bytes()
            except OSError as error:
                raise EnvironmentFault(f"{key}={path}: {error.strerror}") from error
        made = RedisCluster if settings.redis_nodes else RedisServer
        server = made(self._loop.asyncio_loop, RedisSettings.of(settings), self._notices)
        self._ends.append(server.close)
        return server

    def _make_upstream(self, acls: UpstreamAcls | None) -> Upstream | None:
        """The Kafka whose topics are used, where one is configured."""
        servers = self._settings.upstream_servers
        if not servers:
            return None
        loop, tls, account = self._loop.asyncio_loop, upstream_tls(self._settings), self._settings.upstream_login
        for path in () if tls is None else tls.paths():
            try:
                path.read_bytes()
            except OSError as error:
                raise EnvironmentFault(f"{path}: {error.strerror}") from error
        handshakes = Handshakes(loop)
        dialler = UpstreamDialler(loop, handshakes, tls, account)
        upstream = Upstream(
            loop,
            servers,
            dialler,
            self._notices,
            self._events,
            self._loop.wall_ms,
            self._node.topics_gone,
            UpstreamDialler(loop, handshakes, tls, None) if self._settings.upstream_passes_logins else None,
            acls,
            judges=self._settings.upstream_judges,
        )
        upstream.start()
        self._ends.append(upstream.close)
        return upstream

    def _door(self, upstream: Upstream, listener: str, node: int | None) -> Door:
        """At an address of this listener: on to this broker of the upstream; None: to any."""
        loop, ids = self._loop.asyncio_loop, upstream_ids(self._settings)
        ours = UpstreamAddresses(self._node, ids, listener)
        handle = self._dispatcher.handle if node is None else self._dispatcher.handle_at_broker
        authorizer = self._dispatcher.services.authorizer if self._settings.upstream_judges else None

        def passage(client: Connection) -> UpstreamPassage:
            if authorizer is None:
                return UpstreamPassage(loop, upstream, node, ours, client)

            def rights(api: int, version: int) -> ClientRights | None:
                return rights_of(authorizer, client.context_of(api, version), self._dispatcher.audit)

            return UpstreamPassage(loop, upstream, node, ours, client, rights)

        return Door(handle, passage)

    async def _listen_for(self, clients: ClientListener, listener: Listener) -> None:
        """At the listener's address, and beside an upstream at those that stand for its brokers."""
        upstream = self._upstream
        if upstream is None:
            await clients.listen(listener.host, listener.port)
            return
        settings = self._settings
        first = next(one for one in settings.upstream_listeners if one.name == listener.name)
        for place, node in enumerate(settings.upstream_nodes.ids):
            await clients.listen(first.host, first.port + place, self._door(upstream, listener.name, node))
        await clients.listen(listener.host, listener.port, self._door(upstream, listener.name, None))

    def _token_judge(self, audiences: tuple[str, ...]) -> TokenJudge | None:
        """Who judges tokens for one of these audiences, OAUTHBEARER's or the admin API's."""
        settings, source = self._settings, self._token_keys
        if source is None:
            return None
        rules = TokenRules(
            issuer=settings.token_issuer,
            audiences=audiences,
            skew_seconds=settings.token_skew_seconds,
            subject_claim=settings.token_subject_claim,
        )
        return TokenJudge(rules, source)

    def _key_source(self) -> JwksSource | None:
        """The keys of the identity provider, where one is configured."""
        settings, loop = self._settings, self._loop
        if not settings.jwks_url:
            return None
        source = JwksSource(
            loop.asyncio_loop,
            loop,
            settings.jwks_url,
            ca_file=settings.jwks_ca_file,
            refresh_ms=settings.jwks_refresh_ms,
            notice=self._notices,
        )
        source.start()
        self._ends.append(source.close)
        return source

    def _admin_access(self) -> Access:
        settings, loop = self._settings, self._loop
        judge = self._token_judge(settings.oidc_audiences) if settings.oidc_audiences else None
        rules = principal_rules(settings.tls(ADMIN_LISTENER).principal_rules)

        def user_of(certificate: bytes) -> str:
            from muster_coordinator.runtime.tls_files import subject_of

            return rules.user(subject_of(certificate))

        oidc = None
        if judge is not None:
            oidc = OidcRoles(judge=judge, claim=settings.oidc_roles_claim, given=settings.oidc_roles)
        return Access(
            tokens=[(role, TokenFile(path, loop)) for role, path in settings.token_files(settings.admin_token_file)],
            clock=loop,
            users=settings.admin_roles,
            user_of_certificate=user_of if settings.admin_takes_certificates else None,
            oidc=oidc,
        )

    def _peer_auth(self) -> Callable[[], PeerAuth]:
        settings = self._settings
        if settings.peers_open:
            self._events(Event(PEERS_OPEN, {"address": format_address(*settings.peer_bind)}))
        accepts = settings.peer_methods
        if settings.peer_secret_file is None:
            fixed = PeerAuth(settings.peer_security, accepts)
            return lambda: fixed
        secrets = PeerSecrets(self._loop, settings.peer_secret_file, self._events)
        self._ends.append(secrets.stop)
        return lambda: PeerAuth(settings.peer_security, accepts, secrets.current)

    def _peer_tls(self) -> PeerTls | None:
        settings, loop = self._settings, self._loop
        methods = settings.peer_methods
        if Method.TLS not in methods:
            return None
        store = self._tls_store(
            PEER_LISTENER, [settings.peer_address[0]], client_auth=ClientAuth.REQUIRED, both_ways=True
        )
        most, ms = LINK_HANDSHAKES_MAX, LINK_HANDSHAKE_TIMEOUT_MS
        handshakes = Handshakes(loop.asyncio_loop, open_max=most, timeout_ms=ms)
        return PeerTls(
            store,
            handshakes,
            dials=settings.peer_security is Method.TLS,
            plain=methods != {Method.TLS},
            refused=lambda why: _notice("peer_link_refused", None, why),
        )

    def _tls_store(
        self, name: str, hosts: list[str], *, client_auth: ClientAuth | None = None, both_ways: bool = False
    ) -> TlsStore:
        """The files are read before anything is bound; a set that cannot be used ends the start."""
        store = TlsStore(
            self._loop,
            self._settings.tls(name.upper()),
            name=name,
            hosts=hosts,
            tell=self._events,
            client_auth=client_auth,
            both_ways=both_ways,
        )
        store.load()
        store.start()
        self._stores.append(store)
        self._ends.append(store.stop)
        return store

    async def _listen(self) -> None:
        """Peers first, clients last: a client that can connect finds a complete replica."""
        settings, loop = self._settings, self._loop
        if settings.listens_for_peers:
            await self._tcp.listen(*settings.peer_bind)
        probes = Probes(self._node, self._registry, stopping=lambda: self._stopping)
        tls = self._tls_store(PROBE_LISTENER.lower(), []) if settings.probe_tls else None
        await self._serve(probes.application(), settings.probe_listener, "probes", tls)
        self._node.start()
        if settings.admin_is_open:
            told = (settings.admin_advertised or settings.admin_listener)[0]
            hosts = [] if told in WILDCARDS else [told]
            tls = self._tls_store(ADMIN_LISTENER.lower(), hosts) if settings.admin_tls else None
            levels = LogLevels(settings.log_level)
            release = version("muster")
            admin = AdminApi(
                self._node,
                self._drain,
                self._admin_access(),
                levels,
                version=release,
                certificates=self.certificates,
                tell=self._events,
            )
            await self._serve(admin.application(), settings.admin_listener, "the admin API", tls)
        handshakes = Handshakes(loop.asyncio_loop)
        for listener in settings.listeners:
            clients = ClientListener(
                loop.asyncio_loop,
                loop,
                name=listener.name,
                handle=self._dispatcher.handle,
                heartbeat_at_once=self._dispatcher.heartbeat_at_once,
                client_limits=client_limits(settings),
                notice=self._notices,
                tell=self._events,
                meter=self._requests,
                sasl=settings.sasl(listener.name),
                tls=self._tls_of(listener.name, handshakes),
                throttling=self._throttling,
                admission=self._admission,
            )
            self._listeners.append(clients)
            await self._listen_for(clients, listener)
        self._watchdog.start()
        self._watch_users(None)
        self._watch_quotas(None)
        self._watch_readiness(("starting",))
        self._meter.start()
        self._gc.start()

    def _watch_users(self, before: object) -> None:
        """Close the connections of users that were deleted, and make those that the cluster is to begin with."""
        image = self._node.image()
        if self._first_users is not None and image is not None:
            self._make_first_users(self._first_users)
        users = None if image is None else image.scram_users
        if users is not before:
            for listener in self._listeners:
                listener.revoke(self._dispatcher.sasl.holds)
        self._loop.call_at(self._loop.monotonic_ms() + USERS_LOOK_MS, lambda: self._watch_users(users))

    def _watch_quotas(self, before: object) -> None:
        """Hold clients to the quotas that the controller's log has by now."""
        image = self._node.image()
        quotas = None if image is None else image.quotas
        if quotas is not None and quotas is not before:
            self._throttling.set(quotas)
            self._admission.set(quotas)
        self._loop.call_at(self._loop.monotonic_ms() + QUOTAS_LOOK_MS, lambda: self._watch_quotas(quotas))

    def _make_first_users(self, command: FirstScramCredentials) -> None:
        self._first_users = None

        def answered(result: CommandResult) -> None:
            if result.error in (Code.NONE, Code.POLICY_VIOLATION):
                self._loop.submit("folders", lambda: remove_first_users(self._disk), _removed)
                users = sorted({one.user for one in command.credentials})
                done = result.error == Code.NONE
                _log.info("first users are made" if done else "first users are not made", extra={"users": users})
            else:
                self._first_users = command  # and is proposed again at the next look

        deadline_ms = self._loop.monotonic_ms() + FIRST_USERS_MS
        self._node.submit(command, deadline_ms=deadline_ms, done=answered)

    def _tls_of(self, listener: str, handshakes: Handshakes) -> ClientTls | None:
        settings = self._settings
        if not settings.security_protocol(listener).tls:
            return None
        told = (*settings.advertised_listeners, *settings.upstream_told)
        hosts = list(dict.fromkeys(one.host for one in told if one.name == listener))
        rules = principal_rules(settings.tls(listener).principal_rules)
        return ClientTls(self._tls_store(listener, hosts), rules, handshakes)

    def _watch_readiness(self, before: tuple[str, ...]) -> None:
        """Log what this replica waits for, and when it is ready."""
        reasons = self._node.not_ready()
        if reasons != before:
            _log.info("not ready: %s" if reasons else "ready%s", "; ".join(reasons))
        wait_ms = READINESS_LOOK_MS if reasons else 10 * READINESS_LOOK_MS
        self._loop.call_at(self._loop.monotonic_ms() + wait_ms, lambda: self._watch_readiness(reasons))

    async def _serve(
        self, application: web.Application, address: tuple[str, int], what: str, tls: TlsStore | None
    ) -> None:
        listener = HttpListener(application, name=what, notice=self._notices, tls=tls)
        self._http.append(listener)
        await listener.listen(*address)

    # -- stopping --------------------------------------------------------------------------------------------------

    def _watch_signals(self) -> None:
        loop = self._loop.asyncio_loop
        loop.add_signal_handler(signal.SIGTERM, self._ask_to_stop)
        if self._supervised:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            loop.add_reader(sys.stdin.fileno(), self._supervisor_spoke)
        else:
            loop.add_signal_handler(signal.SIGINT, self._ask_to_stop)

    def _supervisor_spoke(self) -> None:
        """Standard input of a supervised replica is never written; its end means that the supervisor has died."""
        if not os.read(sys.stdin.fileno(), 4_096):
            self._loop.asyncio_loop.remove_reader(sys.stdin.fileno())
            self._ask_to_stop()

    def _ask_to_stop(self) -> None:
        if self._stop_asked.is_set():
            self._stop_now.set()
        self._stop_asked.set()

    async def _stop(self) -> int:
        """Drain within the grace (architecture "Drain"), unless a second signal arrives."""
        self._stopping = True
        _log.info("stopping")
        work = asyncio.ensure_future(self._drain_and_close())
        now = asyncio.ensure_future(self._stop_now.wait())
        await asyncio.wait((work, now), return_when=asyncio.FIRST_COMPLETED)
        now.cancel()
        if work.done():
            return work.result()
        work.cancel()
        _log.warning("stopped at once")
        return exits.OK

    async def _drain_and_close(self) -> int:
        code = exits.OK
        if self._has_others():
            drained = self._loop.asyncio_loop.create_future()

            def finished() -> None:
                if not drained.done():
                    drained.set_result(None)

            grace_ms = self._settings.shutdown_grace_ms
            self._drain.start(finished, for_good=True)
            try:
                await asyncio.wait_for(drained, max(grace_ms - DRAIN_MARGIN_MS, grace_ms // 2) / 1_000)
            except TimeoutError:
                code = exits.DEADLINE
                _log.warning("not drained in time", extra={"left": self._drain.left()})
        await asyncio.gather(*(listener.close() for listener in self._listeners))
        return code

    def _has_others(self) -> bool:
        """Are there replicas that could take leaderships: by the configuration, or since some have joined?"""
        image = self._node.image()
        return len(self._settings.peers) > 1 or (image is not None and len(image.brokers) > 1)

    async def _end(self) -> None:
        """End everything that was created, in reverse order; also after a failed start."""
        for listener in reversed(self._http):
            await listener.close()
        for end in reversed(self._ends):
            end()
        self._loop.close()

    def _fatal(self, error: BaseException, where: str) -> None:
        """End the process at once: no clean-up, and no write that might build on broken state."""
        code = fatal_exit_code(error)
        with contextlib.suppress(Exception):
            _log.critical("fatal: %s", where, exc_info=error)
            self._logs.stop()
        if code == exits.BUG:
            print_trace(error)
        os._exit(code)

    # -- admin.metrics.ProcessView ---------------------------------------------------------------------------------

    def longest_turn_ms(self) -> int:
        return self._watchdog.longest_turn_ms()

    def full_collections(self) -> tuple[int, int]:
        return self._gc.collections, self._gc.longest_ms

    def log_records_dropped(self) -> int:
        return self._logs.dropped

    def notices(self) -> Mapping[str, int]:
        return self._notices.counts

    def events(self) -> Mapping[str, int]:
        return self._events.counts

    def storage_jobs(self) -> Mapping[str, Histogram]:
        return self._loop.queue_seconds()

    def certificates(self) -> tuple[TlsStatus, ...]:
        """Of listeners with TLS."""
        return tuple(store.status() for store in self._stores)

    # -- admin.request_metrics.RequestView -------------------------------------------------------------------------

    def clients(self) -> Mapping[str, ClientStats]:
        return {listener.name: listener.stats for listener in self._listeners}

    def served(self) -> Mapping[int, int]:
        return self._dispatcher.served

    def fetch_sessions(self) -> FetchSessionStats:
        return self._dispatcher.fetch.sessions.stats()

    def answered_at_once(self) -> int:
        return self._dispatcher.answered_at_once

    def meter(self) -> RequestMeter:
        return self._requests

    def throttles(self) -> ThrottleStats:
        return self._throttling.stats

    def authentications(self) -> Mapping[tuple[str, str, str], int]:
        return self._dispatcher.sasl.counts


def _removed(result: object) -> None:
    if isinstance(result, BaseException):
        _log.warning("the file of the first users is still there", exc_info=result)


def fatal_exit_code(error: BaseException) -> int:
    """The exit code for a failure of a running replica."""
    if isinstance(error, StorageFailed | OSError):
        return exits.STORAGE
    if isinstance(error, Corruption | StartRefused | UnsupportedFormat):
        return exits.CORRUPTION
    return exits.BUG


def _notice(event: str, peer: BrokerId | None, detail: str) -> None:
    _log.info(event, extra={"peer": peer, "detail": detail})
