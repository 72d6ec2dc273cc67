"""The settings of one replica: a properties file with Kafka's names and defaults where Kafka has one (decision 32).

One dataclass field per key; the field's metadata holds the key, its parser and a line for docs/configuration.md. A key
that is unknown, set twice, or out of range ends the start with an error that names it. A key of Kafka's has Kafka's
meaning; `muster.*`, `redis.*`, `topics.mode` and `shutdown.grace.ms` are Muster's own. The text of a key says where its
default differs from Kafka's.
Each default is set here only: the settings that `node_settings` hands to a room have no defaults. A default that must
keep a relation to a room's limits is a constant of that room, used here by its name.
What it does not do: change settings while running, or read the environment, except that `${env:NAME}` in a value is
replaced from the environment that the caller passes in.
"""

# ruff: noqa: RUF009  # a key is a dataclass field with metadata

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from muster_coordinator import connection_settings, sasl_settings
from muster_coordinator.admin_settings import ADMIN_LISTENER, PROBE_LISTENER, AdminKeys
from muster_coordinator.balancer_settings import BalancerKeys
from muster_coordinator.cleaner_settings import CleanerKeys
from muster_coordinator.connection_settings import QuotaKeys
from muster_coordinator.controller.image import PEER_LISTENER
from muster_coordinator.controller.limits import RACK_CHARS_MAX
from muster_coordinator.errors import CallerError
from muster_coordinator.groups import limits as groups_limits
from muster_coordinator.ids import BrokerId
from muster_coordinator.internal_log_settings import InternalLogKeys
from muster_coordinator.limits import (
    HEARTBEAT_MS,
    MIB,
    PROPOSAL_TIMEOUT_MS,
    RAFT_GROUPS_MAX,
    SEGMENT_BYTES,
    WAL_BYTES_MAX,
    WAL_FILE_BYTES,
)
from muster_coordinator.links.peer_auth import Method
from muster_coordinator.properties import PropertiesError, parse_properties, with_environment
from muster_coordinator.quotas.admission import ListenerLimits
from muster_coordinator.raft import limits as raft_limits
from muster_coordinator.redis_settings import RedisKeys
from muster_coordinator.replica import limits as replica_limits
from muster_coordinator.security.limits import CLOCK_SKEW_SECONDS_MAX
from muster_coordinator.security.protocol import SecurityProtocol
from muster_coordinator.security.session import ListenerSasl
from muster_coordinator.security.tls_config import ClientAuth
from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import (
    WILDCARDS,
    Listener,
    boolean,
    folder,
    format_address,
    integer,
    is_loopback,
    one_of,
    optional,
    parse_address,
    parse_cluster_id,
    parse_listeners,
    parse_rack,
    principals,
    quorum_voters,
    security_protocols,
    some_listeners,
)
from muster_coordinator.storage import limits as storage_limits
from muster_coordinator.tls_settings import PeerKeys, TlsKeys, listener_values, shown
from muster_coordinator.topic_settings import TopicKeys
from muster_coordinator.transaction_settings import TransactionKeys
from muster_coordinator.upstream_settings import UpstreamKeys

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's name of it, so that a server.properties of Kafka's means the same here."""


class ConfigError(CallerError):
    """The configuration cannot be used; the message names the key."""


class KeyDoc(NamedTuple):
    """One row of docs/configuration.md."""

    key: str
    default: str | None
    """None: the key must be set."""
    text: str


_PORT_TEXT = "host:port; an empty host is loopback."
_MS = integer(1)


@dataclass(frozen=True, kw_only=True)
class Settings(
    AdminKeys,
    QuotaKeys,
    TransactionKeys,
    CleanerKeys,
    InternalLogKeys,
    PeerKeys,
    TlsKeys,
    BalancerKeys,
    RedisKeys,
    UpstreamKeys,
    TopicKeys,
):
    """The parsed and checked settings. Times in milliseconds, sizes in bytes; addresses are (host, port)."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), None, "This replica's broker id.")
    rack: str = setting(
        "broker.rack",
        parse_rack,
        "",
        f"What fails together with this replica, such as its zone; up to {RACK_CHARS_MAX} characters. Replicas of a "
        "partition are placed in as many racks as can be. Brokers without a rack share one.",
    )
    data_dir: Path = setting("log.dirs", folder, None, "The data folder: one folder, not a list.")
    voters: tuple[tuple[BrokerId, str, int], ...] = setting(
        "controller.quorum.voters",
        quorum_voters,
        "",
        "The replicas that form the cluster, as id@host:port of their peer listeners: 1, 3 or 5. Empty: this replica "
        "alone. A replica that is not among them joins the cluster of `muster.cluster.id`.",
    )
    cluster_id: str | None = setting(
        "muster.cluster.id",
        optional(parse_cluster_id),
        "",
        "22 characters of url-safe base64. Empty: chosen at random when the cluster forms. A data folder of another "
        "cluster is refused.",
    )
    cluster_formed: bool = setting(
        "muster.cluster.formed",
        boolean,
        "false",
        "true: the cluster of `muster.cluster.id` is formed. A replica of `controller.quorum.voters` whose data folder "
        "is empty has lost it then: it forms no cluster, and waits until the others give it its place back.",
    )
    listeners: tuple[Listener, ...] = setting(
        "listeners",
        some_listeners,
        "PLAINTEXT://127.0.0.1:9092",
        "Client listeners, NAME://host:port. An empty host is loopback, not every interface: write 0.0.0.0.",
    )
    advertised: tuple[Listener, ...] = setting(
        "advertised.listeners",
        parse_listeners,
        "",
        "Addresses given to clients, as NAME://host:port for names in `listeners`. A name that is left out has its "
        "address in `listeners`.",
    )
    protocol_map: dict[str, SecurityProtocol] = setting(
        "listener.security.protocol.map",
        security_protocols,
        "",
        "NAME:PROTOCOL of listeners: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; PLAINTEXT where a name is left out.",
    )
    peer_listener: tuple[str, int] | None = setting(
        "muster.peer.listener",
        optional(parse_address),
        "",
        f"Bind address for peers, {_PORT_TEXT} Empty: this replica's address in `controller.quorum.voters`.",
    )
    peer_advertised: tuple[str, int] | None = setting(
        "muster.peer.advertised",
        optional(parse_address),
        "",
        "Address given to peers by a replica that is not in `controller.quorum.voters`. Empty: its bind address.",
    )
    probe_listener: tuple[str, int] = setting(
        "muster.probe.listener", parse_address, "127.0.0.1:8080", f"Address of /livez, /readyz, /metrics, {_PORT_TEXT}"
    )
    admin_listener: tuple[str, int] = setting(
        "muster.admin.listener", parse_address, "127.0.0.1:8081", f"Address of the admin API, {_PORT_TEXT}"
    )
    admin_advertised: tuple[str, int] | None = setting(
        "muster.admin.advertised",
        optional(parse_address),
        "",
        "Admin address of this replica that other replicas name in their 421 answers. Empty: `muster.admin.listener`.",
    )
    admin_token_file: Path | None = setting(
        "muster.admin.token.file",
        optional(folder),
        "",
        "File with the bearer token of the role admin, read again when it changes. Where no token, certificate or "
        "identity provider is configured, there is no admin API.",
    )
    pid_file: Path | None = setting(
        "muster.pid.file", optional(folder), "", "File with the process id, written at start and removed at the end."
    )
    log_level: str = setting(
        "muster.log.level",
        one_of("debug", "info", "warning", "error"),
        "info",
        "debug, info, warning or error: the lowest level of the log lines on standard error.",
    )
    shutdown_grace_ms: int = setting("shutdown.grace.ms", _MS, "60000", "Longest time for draining after SIGTERM.")

    # Groups and offsets.
    offsets_partitions: int = setting(
        "offsets.topic.num.partitions",
        integer(1, 1_000),
        "50",
        "Fixed when the cluster forms: a replica with another number does not start.",
    )
    offsets_replication_factor: int | None = setting(
        "offsets.topic.replication.factor", optional(integer(1, 5)), "", "If set, it must be the number of voters."
    )
    offsets_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        integer(4_096, 2**31 - 1),
        str(SEGMENT_BYTES),
        "Size of a segment file of an offsets partition.",
    )
    offset_metadata_chars_max: int = setting(
        "offset.metadata.max.bytes",
        integer(0, MIB),
        "4096",
        "Longest metadata of a committed offset, counted in characters.",
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        integer(1, 2**31 - 1),
        str(groups_limits.OFFSETS_RETENTION_MS // 60_000),
        "Offsets of an empty group are kept this long.",
    )
    offsets_retention_check_ms: int = setting(
        "offsets.retention.check.interval.ms",
        _MS,
        str(groups_limits.OFFSETS_RETENTION_CHECK_MS),
        "How often offsets are checked for expiry.",
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms",
        _MS,
        str(PROPOSAL_TIMEOUT_MS),
        "A change of a group that is not committed after this time is answered COORDINATOR_NOT_AVAILABLE.",
    )
    group_session_timeout_min_ms: int = setting(
        "group.min.session.timeout.ms",
        _MS,
        str(groups_limits.SESSION_TIMEOUT_MIN_MS),
        "Shortest session timeout that a member may have.",
    )
    group_session_timeout_max_ms: int = setting(
        "group.max.session.timeout.ms", _MS, "1800000", "Longest session timeout that a member may have."
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        integer(0),
        "3000",
        "An empty group waits this long for more members.",
    )
    group_size_max: int = setting(
        "group.max.size",
        integer(1, 2**31 - 1),
        str(groups_limits.GROUP_SIZE_MAX),
        "Most members of a group. Kafka's default: 2147483647.",
    )

    # Connections.
    connections_idle_ms: int = setting(
        "connections.max.idle.ms", _MS, "600000", "A client's connection is closed after it was idle for this time."
    )
    connections_max: int = setting(
        "max.connections", integer(1), "10000", "Most client connections of a replica. Kafka's default: 2147483647."
    )
    connections_per_ip_max: int = setting(
        "max.connections.per.ip",
        integer(1),
        "2147483647",
        "Most client connections from one address. Without bound by default: thousands of clients may share a NAT.",
    )
    accepts_per_second_max: int = setting(
        "max.connection.creation.rate",
        integer(1),
        "2000",
        "Most new client connections a second. Kafka's default: 2147483647.",
    )

    # Raft and storage.
    heartbeat_ms: int = setting(
        "muster.raft.heartbeat.ms",
        integer(10, 10_000),
        str(HEARTBEAT_MS),
        "Time between two heartbeats to a peer; at most a third of the least election timeout.",
    )
    election_timeout_min_ms: int = setting(
        "muster.raft.election.timeout.min.ms",
        integer(50, 60_000),
        str(raft_limits.ELECTION_TIMEOUT_MIN_MS),
        "Least election timeout: each is drawn at random between this and the next.",
    )
    election_timeout_max_ms: int = setting(
        "muster.raft.election.timeout.max.ms",
        integer(100, 120_000),
        str(raft_limits.ELECTION_TIMEOUT_MAX_MS),
        "Greatest election timeout.",
    )
    wal_file_bytes: int = setting(
        "muster.wal.file.bytes",
        integer(65_536),
        str(WAL_FILE_BYTES),
        "Size of a WAL file. A file is larger if the table at its beginning, about 130 bytes a partition, would fill "
        "more than an eighth of it.",
    )
    wal_bytes_max: int = setting(
        "muster.wal.max.bytes",
        integer(262_144),
        str(WAL_BYTES_MAX),
        "Bound on the size of each of the two WALs; at least four times `muster.wal.file.bytes`.",
    )
    disk_low_bytes: int = setting(
        "muster.disk.low.bytes",
        integer(0),
        str(replica_limits.DISK_LOW_BYTES),
        "With less free space on its disk a replica refuses new data and hands its leaderships to others; with less "
        "than a quarter of it free, it refuses data of other leaders too. If three times `muster.wal.file.bytes` is "
        "more, that is used.",
    )
    disk_good_bytes: int | None = setting(
        "muster.disk.good.bytes",
        optional(integer(0)),
        "",
        "With this much free space a replica accepts new data again. Empty: one and a half times the space below which "
        "it refuses them.",
    )
    checkpoint_bytes: int = setting(
        "muster.checkpoint.bytes",
        integer(4_096),
        str(replica_limits.CHECKPOINT_BYTES),
        "A Raft group's state is checkpointed when this many bytes were applied since its last checkpoint.",
    )
    segment_flush_ms: int = setting(
        "muster.segment.flush.ms", _MS, "30000", "Appended data is synced to its segment file after this time, ..."
    )
    segment_flush_bytes: int = setting(
        "muster.segment.flush.bytes",
        integer(1),
        str(64 * MIB),
        "... or when this many bytes of a partition are not synced.",
    )
    takeback_ms: int = setting(
        "muster.leadership.takeback.ms",
        _MS,
        "30000",
        "Leadership of a partition goes back to its preferred leader when that has been caught up for this time.",
    )
    moves_at_once: int = setting(
        "muster.reassignment.max.concurrent",
        integer(1),
        "2",
        "Partitions of the whole cluster whose replicas are moved at a time; each is copied whole.",
    )
    room_timeout_ms: int = setting(
        "muster.reassignment.room.timeout.ms",
        integer(-1),
        "60000",
        "For how long a move may wait for room on the disk of the broker that is to get the replica before it is "
        "cancelled; -1: as long as it takes.",
    )
    balancer_quiet_ms: int = setting(
        "muster.balancer.quiet.ms",
        integer(-1),
        "30000",
        "How long every broker must have been connected and not draining before replicas are moved to level brokers; "
        "-1: they are only moved away from brokers that are decommissioned.",
    )
    decommission_redirect_ms: int = setting(
        "muster.decommission.redirect.ms",
        integer(0),
        "300000",
        "How long a broker that was decommissioned and is empty tells clients where the others are before it leaves; "
        "as long as clients keep what they know of the cluster (their metadata.max.age.ms).",
    )
    feature_finalize_ms: int = setting(
        "muster.feature.finalize.ms",
        integer(-1),
        "3600000",
        "How long all replicas must run a new release before it writes what the previous release cannot read; -1: it "
        "never does.",
    )
    install_rate: int = setting(
        "muster.transfer.bytes.per.second",
        integer(replica_limits.INSTALL_BYTES_PER_SECOND_MIN),
        str(replica_limits.INSTALL_BYTES_PER_SECOND),
        "Bytes a second that a replica sends to all followers that install a snapshot together, at most.",
    )
    # The default costs 0.5 % of a processor with batches of 1 kB, 5 % with batches of 90 B.
    scrub_rate: int = setting(
        "muster.scrub.bytes.per.second",
        integer(0),
        str(2 * MIB),
        "Bytes a second of sealed segments that are checked in the background, at most; 0: none are.",
    )
    trailing_entries: int = setting(
        "muster.raft.trailing.entries",
        integer(0),
        str(replica_limits.TRAILING_ENTRIES),
        "Log entries before a checkpoint that a leader keeps for followers that lag.",
    )
    authorizer: str = setting(
        "authorizer.class.name",
        one_of("", STANDARD_AUTHORIZER),
        "",
        "Who decides what clients may do. Empty: every client may do everything. "
        f"`{STANDARD_AUTHORIZER}`: ACLs do (docs/authorization.md).",
    )
    super_users: frozenset[str] = setting(
        "super.users", principals, "", "Principals that may do everything, whatever the ACLs say: `User:a;User:b`."
    )
    allow_if_no_acl: bool = setting(
        "allow.everyone.if.no.acl.found",
        boolean,
        "false",
        "With an authorizer: may every client do everything to a resource that no ACL names?",
    )
    authorizer_reports_only: bool = setting(
        "muster.authorizer.report.only",
        boolean,
        "false",
        "With an authorizer: nothing is denied, and what would be is logged as `would be denied`.",
    )

    # Who a client is.
    sasl_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        sasl_settings.parse_mechanisms,
        "",
        "What SASL listeners offer, unless `listener.name.NAME.sasl.enabled.mechanisms` says it for one: PLAIN (only "
        "with SASL_SSL; its users are those of `listener.name.NAME.plain.sasl.jaas.config`), SCRAM-SHA-256, "
        "SCRAM-SHA-512, OAUTHBEARER. Kafka's default: GSSAPI.",
    )
    reauth_ms: int = setting(
        "connections.max.reauth.ms",
        sasl_settings.parse_reauth_ms,
        "0",
        "How long a client may go on until it authenticates again; 0: for good. For one listener, or one of its "
        "mechanisms: `listener.name.NAME.connections.max.reauth.ms`, "
        "`listener.name.NAME.MECHANISM.connections.max.reauth.ms`.",
    )

    jwks_url: str = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        sasl_settings.parse_jwks_url,
        "",
        "Where OAUTHBEARER's keys are: https:// or file:///.",
    )
    token_issuer: str = setting("sasl.oauthbearer.expected.issuer", str, "", "`iss` of tokens. Needed for OAUTHBEARER.")
    token_audiences: tuple[str, ...] = setting(
        "sasl.oauthbearer.expected.audience",
        sasl_settings.parse_list,
        "",
        "`aud` of tokens names one of these. Needed likewise.",
    )
    token_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        integer(0, CLOCK_SKEW_SECONDS_MAX),
        "30",
        "How far the clocks of replicas and of who signs tokens may differ.",
    )
    token_subject_claim: str = setting("sasl.oauthbearer.sub.claim.name", str, "sub", "The claim that is the user.")
    jwks_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        integer(10_000),
        "3600000",
        "How often the keys are fetched; also when a token names one that is not known, once in ten seconds at most.",
    )
    jwks_ca_file: Path | None = setting(
        "muster.sasl.oauthbearer.jwks.ca.file", optional(folder), "", "CAs of its server, PEM. Empty: the system's."
    )

    listener_texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Key -> value of keys that begin with `listener.name.`. Some are secrets, so none is in `texts`."""
    listener_limits: Mapping[str, ListenerLimits] = field(default_factory=dict)
    """Of listeners that have limits of connections of their own."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Key -> value in the file's syntax, defaults included, for DescribeConfigs."""
    file_keys: frozenset[str] = frozenset()
    """Keys of `texts` that the file has."""

    def __post_init__(self) -> None:
        for check in (_check_voters, _check_listeners, _check_relations, _check_tls, _check_admin):
            check(self)

    @property
    def peers(self) -> Mapping[BrokerId, tuple[str, int]]:
        """Peer addresses of all voters, this one included."""
        if not self.voters:
            return {BrokerId(self.node_id): self.peer_listener or ("127.0.0.1", 9093)}
        return {voter: (host, port) for voter, host, port in self.voters}

    @property
    def peer_bind(self) -> tuple[str, int]:
        return self.peer_listener or self.peers[BrokerId(self.node_id)]

    @property
    def listens_for_peers(self) -> bool:
        """The only replica of a cluster may be joined by others, if its configuration says where (ADR 45)."""
        return bool(self.voters) or self.peer_listener is not None

    @property
    def peer_address(self) -> tuple[str, int]:
        """Where others dial this replica."""
        return self.peers.get(BrokerId(self.node_id)) or self.peer_advertised or self.peer_bind

    @property
    def peers_open(self) -> bool:
        """May whoever reaches the peer port call itself a replica?"""
        local = is_loopback(self.peer_bind[0])
        return self.listens_for_peers and not local and Method.NONE in self.peer_methods

    @property
    def joins(self) -> bool:
        """This replica joins a cluster that others have formed."""
        return self.node_id not in self.peers

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """One address for each listener, in the order of `listeners`."""
        named = {listener.name: listener for listener in self.advertised}
        return tuple(named.get(listener.name, listener) for listener in self.listeners)

    def security_protocol(self, listener: str) -> SecurityProtocol:
        """Of the listener of this name; PLAINTEXT where the map does not name it."""
        return self.protocol_map.get(listener, SecurityProtocol.PLAINTEXT)

    def sasl(self, listener: str) -> ListenerSasl | None:
        """What the listener of this name offers; None: it asks nobody. Raises `ConfigError`."""
        try:
            said = sasl_settings.by_listener(self.listener_texts, tuple(one.name for one in self.listeners))[listener]
            protocol = self.security_protocol(listener)
            return sasl_settings.of_listener(
                listener,
                protocol,
                said,
                self.sasl_mechanisms,
                self.reauth_ms,
                elsewhere=self.upstream_passes_logins,
                subject_claim=self.token_subject_claim,
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error

    @property
    def upstream_judges(self) -> bool:
        """Are our own ACLs in front of an upstream Kafka, for which all clients are one user?"""
        return bool(self.upstream_servers and self.authorizer) and not self.upstream_passes_logins

    def asks_who(self, listener: str) -> bool:
        """Does every client of this listener show who it is?"""
        protocol = self.security_protocol(listener)
        return protocol.sasl or (protocol.tls and self.tls(listener).client_auth is ClientAuth.REQUIRED)

    @property
    def admin_address(self) -> str:
        return format_address(*(self.admin_advertised or self.admin_listener))

    @property
    def admin_takes_certificates(self) -> bool:
        return self.admin_tls and self.tls(ADMIN_LISTENER).client_auth is not ClientAuth.NONE

    @property
    def admin_is_open(self) -> bool:
        """May anybody call the admin API at all?"""
        by_name = bool(self.admin_roles) and self.admin_takes_certificates
        return bool(self.token_files(self.admin_token_file) or self.oidc_audiences) or by_name

    @property
    def disk_low(self) -> int:
        """Free bytes below which the disk is low. Invariant: not less than the next file of each WAL needs."""
        return max(self.disk_low_bytes, replica_limits.DISK_LOW_WAL_FILES * self.wal_file_bytes)

    @property
    def disk_good(self) -> int:
        """Free bytes at which the disk is no longer low. Invariant: not less than `disk_low`."""
        return max(self.disk_low * 3 // 2 if self.disk_good_bytes is None else self.disk_good_bytes, self.disk_low)

    @property
    def topic_retention_ms(self) -> int:
        if self.retention_ms is not None:
            return self.retention_ms
        if self.retention_minutes is not None:
            return self.retention_minutes * 60_000 if self.retention_minutes >= 0 else -1
        return self.retention_hours * 3_600_000 if self.retention_hours >= 0 else -1

    @property
    def topic_segment_ms(self) -> int:
        return self.segment_ms if self.segment_ms is not None else self.segment_hours * 3_600_000


def _check_voters(settings: Settings) -> None:
    if settings.cluster_formed and settings.cluster_id is None:
        raise ConfigError("muster.cluster.formed=true needs muster.cluster.id")
    if settings.joins and settings.cluster_id is None:
        raise ConfigError(
            f"node.id={settings.node_id} is not among controller.quorum.voters; to join a formed cluster, set "
            "muster.cluster.id"
        )
    if settings.joins and settings.peer_listener is None:
        raise ConfigError(
            f"node.id={settings.node_id} is not among controller.quorum.voters: muster.peer.listener is needed"
        )
    reached = settings.peer_advertised or settings.peer_listener
    if settings.joins and reached is not None and reached[0] in WILDCARDS:
        raise ConfigError(f"muster.peer.advertised: peers cannot connect to {reached[0]}")
    replicas = len(settings.peers)
    if settings.offsets_replication_factor not in (None, replicas):
        raise ConfigError(
            f"offsets.topic.replication.factor={settings.offsets_replication_factor}, but there are {replicas} voters"
        )


def _check_listeners(settings: Settings) -> None:
    names = {listener.name for listener in settings.listeners}
    for listener in settings.advertised:
        if listener.name not in names:
            raise ConfigError(f"advertised.listeners names {listener.name}, which is not in listeners")
    for name in settings.protocol_map:
        if name not in names:
            raise ConfigError(f"listener.security.protocol.map names {name}, which is not in listeners")
    for name in settings.listener_limits:
        if name not in names:
            raise ConfigError(f"listener.name.{name.lower()}.max.connections: {name} is not in listeners")
    for listener in settings.advertised_listeners:
        if listener.host in WILDCARDS:
            raise ConfigError(f"advertised.listeners: clients cannot connect to {listener.host} ({listener.name})")
    for listener in settings.listeners:
        offered = settings.sasl(listener.name)
        lacking = None if offered is None else sasl_settings.lacking_key(offered, settings.texts)
        if problem := settings.passthrough_problem(listener.name, offered):
            raise ConfigError(problem)
        if lacking is not None:
            raise ConfigError(f"listener {listener.name} offers OAUTHBEARER: {lacking} is needed")


def _check_tls(settings: Settings) -> None:
    protocols = {listener.name: settings.security_protocol(listener.name) for listener in settings.listeners}
    encrypts = {name: protocol.tls for name, protocol in protocols.items()}
    if Method.TLS in settings.peer_methods:
        encrypts[PEER_LISTENER.upper()] = True
    for name, on, key in (
        (ADMIN_LISTENER, settings.admin_tls, "muster.admin.tls"),
        (PROBE_LISTENER, settings.probe_tls, "muster.probe.tls"),
    ):
        if on and name in encrypts:
            raise ConfigError(f"{key}: a listener of clients has the name {name}, so give it another")
        if on:
            encrypts[name] = True
    problem = settings.peer_problem() or settings.tls_problem(encrypts)
    if problem is not None:
        raise ConfigError(problem)


def _check_admin(settings: Settings) -> None:
    problem = settings.admin_problem(settings.texts, certificates=settings.admin_takes_certificates)
    if problem is not None:
        raise ConfigError(problem)


def _check_relations(settings: Settings) -> None:
    if settings.group_session_timeout_min_ms > settings.group_session_timeout_max_ms:
        raise ConfigError("group.min.session.timeout.ms is above group.max.session.timeout.ms")
    if settings.election_timeout_min_ms >= settings.election_timeout_max_ms:
        raise ConfigError("muster.raft.election.timeout.min.ms is not below muster.raft.election.timeout.max.ms")
    if settings.heartbeat_ms * 3 > settings.election_timeout_min_ms:
        raise ConfigError("muster.raft.heartbeat.ms is above a third of muster.raft.election.timeout.min.ms")
    if settings.disk_good_bytes is not None and settings.disk_good_bytes < settings.disk_low_bytes:
        raise ConfigError("muster.disk.good.bytes is below muster.disk.low.bytes")
    if problem := settings.cleaner_problem() or settings.redis_problem(settings.topics_mode):
        raise ConfigError(problem)
    if problem := settings.upstream_problem(settings.topics_mode, settings.listeners, settings.asks_who):
        raise ConfigError(problem)
    if 1 + settings.offsets_partitions + settings.num_partitions > RAFT_GROUPS_MAX:
        raise ConfigError(
            f"num.partitions={settings.num_partitions} and offsets.topic.num.partitions={settings.offsets_partitions}: "
            f"with the controller's group they are more than the {RAFT_GROUPS_MAX} Raft groups that a cluster may have"
        )
    if settings.wal_file_bytes * storage_limits.WAL_FILES_MIN > settings.wal_bytes_max:
        raise ConfigError("muster.wal.max.bytes is below four times muster.wal.file.bytes")


def settings_of(values: Mapping[str, str]) -> Settings:
    """The settings in a parsed file. Raises `ConfigError` that names the first wrong key."""
    known = {item.metadata["key"]: item for item in fields(Settings) if item.metadata}
    arguments: dict[str, Any] = {}
    try:
        values, tls_of_listeners = listener_values(values)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    try:
        values, limits_of_listeners = connection_settings.listener_values(values)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    sasl_of_listeners = {key: text for key, text in values.items() if key.startswith(sasl_settings.PREFIX)}
    values = {key: text for key, text in values.items() if key not in sasl_of_listeners}
    for key, text in values.items():
        item = known.get(key)
        if item is None:
            near = difflib.get_close_matches(key, known, n=1)
            raise ConfigError(f"unknown key {key}" + (f" (did you mean {near[0]}?)" if near else ""))
        try:
            arguments[item.name] = item.metadata["parse"](text.strip())
        except ValueError as error:
            raise ConfigError(f"{key}{shown(item.metadata, text)}: {error}") from error
    for item in known.values():
        if item.name not in arguments and item.default_factory is MISSING:
            raise ConfigError(f"{item.metadata['key']} must be set")
    texts = {key: item.metadata["default"] for key, item in known.items()} | dict(values)
    texts = {key: text for key, text in texts.items() if not known[key].metadata.get("secret")}
    return Settings(
        **arguments,
        texts=texts,
        file_keys=frozenset(key for key in values if key in texts),
        listener_texts=sasl_of_listeners,
        of_listeners=tls_of_listeners,
        listener_limits=limits_of_listeners,
    )


def load_settings(path: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Read a properties file; `environment` has the values for `${env:NAME}`. Raises `ConfigError`, also if the file
    cannot be read."""
    try:
        return settings_of(with_environment(parse_properties(path.read_text("utf-8")), environment or {}))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    except (PropertiesError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from error


def key_docs() -> list[KeyDoc]:
    """All keys in the order of the file's sections, for docs/configuration.md."""
    rows = sorted((item.metadata for item in fields(Settings) if item.metadata), key=lambda row: "listener" in row)
    return [KeyDoc(row["key"], row["default"], row["text"]) for row in rows]
