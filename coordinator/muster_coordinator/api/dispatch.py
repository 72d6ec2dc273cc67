"""From API key to handler: the table of all handlers, and the interface of this room.

    dispatcher = Dispatcher(surface, ApiSettings(...), authorize=allow_all)
    wire.connection.Connection(..., handle=dispatcher.handle, heartbeat_at_once=dispatcher.heartbeat_at_once)

`handle(context, request, reply)` never blocks and never raises because of a client's input. `reply` is called once,
now or later, on the same thread, with the answer in the form that the API's encoder takes. Every handler has the form
`(context, version, request, reply)`; `request` has one form for all versions of its API (`wire.schema`, `wire.hot`).
"""

from collections.abc import Callable, Mapping

from muster_coordinator.api.acls import Acls
from muster_coordinator.api.alter_configs import AlterConfigs
from muster_coordinator.api.api_versions import ApiVersions
from muster_coordinator.api.audit import Audit
from muster_coordinator.api.authorize import Authorize, allow_all
from muster_coordinator.api.commits import Commits
from muster_coordinator.api.configs import Configs
from muster_coordinator.api.coordinator import FindCoordinator
from muster_coordinator.api.create_partitions import CreatePartitions
from muster_coordinator.api.create_topics import CreateTopics
from muster_coordinator.api.delete_records import DeleteRecords
from muster_coordinator.api.delete_topics import DeleteTopics
from muster_coordinator.api.describe_cluster import DescribeCluster
from muster_coordinator.api.describe_list_delete import DescribeListDelete
from muster_coordinator.api.describe_producers import DescribeProducers
from muster_coordinator.api.elections import Elections
from muster_coordinator.api.features import Features
from muster_coordinator.api.fetch import Fetch
from muster_coordinator.api.heartbeat_leave import HeartbeatLeave
from muster_coordinator.api.join_sync import JoinSync
from muster_coordinator.api.leader_epochs import LeaderEpochs
from muster_coordinator.api.list_offsets import ListOffsets
from muster_coordinator.api.log_dirs import LogDirs
from muster_coordinator.api.metadata import Metadata
from muster_coordinator.api.offset_fetch import OffsetFetches
from muster_coordinator.api.produce import Produce
from muster_coordinator.api.producer_ids import ProducerIds
from muster_coordinator.api.quorum import Quorum
from muster_coordinator.api.quotas import Quotas
from muster_coordinator.api.reassignments import Reassignments
from muster_coordinator.api.sasl import Sasl
from muster_coordinator.api.scram_users import ScramUsers
from muster_coordinator.api.services import ApiSettings, Services
from muster_coordinator.api.transaction_listing import ListTransactions
from muster_coordinator.api.transaction_verifier import TransactionVerifier
from muster_coordinator.api.transactions import Transactions
from muster_coordinator.api.txn_commits import TxnCommits
from muster_coordinator.api.txn_partitions import AddPartitionsToTxn
from muster_coordinator.api.unregister import Unregister
from muster_coordinator.api.write_markers import WriteTxnMarkers
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.events import Tell, untold
from muster_coordinator.groups.requests import Heartbeat
from muster_coordinator.ports import Rand
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.security.oauth import TokenJudge
from muster_coordinator.upstream.view import UpstreamView
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.request_meter import RequestMeter
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.throttling import NOBODY_THROTTLED, Throttling
from muster_coordinator.wire.versions import BEFORE_AUTHENTICATION, VERSIONS, Api

Handler = Callable[[RequestContext, int, Value, Exchange], None]


class Dispatcher:
    """All handlers of one replica."""

    def __init__(
        self,
        surface: Surface,
        settings: ApiSettings,
        authorize: Authorize = allow_all,
        meter: RequestMeter | None = None,
        rand: Rand | None = None,
        tell: Tell = untold,
        tokens: TokenJudge | None = None,
        throttling: Throttling = NOBODY_THROTTLED,
        verifier: TransactionVerifier | None = None,
        upstream: UpstreamView | None = None,
    ) -> None:
        """`rand` makes nonces and salts: one that nobody can predict, or that of the surface."""
        self._meter = meter or RequestMeter(lambda: 0)
        services = Services(surface, settings, authorize, verifier=verifier, upstream=upstream)
        self.services = services
        self.audit = Audit(tell, resets=not services.open)
        self.fetch = Fetch(services, throttling)
        self._heartbeats = HeartbeatLeave(services)
        self.sasl = Sasl(services, rand or surface.rand, tell, tokens)
        users = ScramUsers(services, rand or surface.rand)
        self._handlers = {**_table(services, self.fetch, self._heartbeats), **_of_users(self.sasl, users)}
        assert self._handlers.keys() == VERSIONS.keys(), "every advertised API has a handler, and no other"
        self.served = dict.fromkeys(VERSIONS, 0)
        """Number of requests passed to each API's handler."""
        self.answered_at_once = 0
        """Heartbeats that took the fast path; `served` does not count them."""

    def handle(self, context: RequestContext, request: Value, reply: Exchange) -> None:
        """Handle one decoded request; see the module."""
        self.served[context.api_key] += 1
        audited = self.audit.of(context, request)
        if audited is not None:
            reply.on_answer(audited)
        authorizer = self.services.authorizer
        if authorizer is not None and context.api_key not in BEFORE_AUTHENTICATION and not authorizer.knows(context):
            self.services.refuse_later(reply, "this replica does not know yet who may do what")
            return
        self._handlers[context.api_key](context, context.api_version, request, reply)

    def handle_at_broker(self, context: RequestContext, request: Value, reply: Exchange) -> None:
        """As `handle`, at an address that stands for a broker of the upstream: groups are listed by our replicas."""
        if context.api_key == Api.LIST_GROUPS:
            self.served[context.api_key] += 1
            reply({"error_code": Code.NONE, "groups": ()})
            return
        self.handle(context, request, reply)

    def heartbeat_at_once(self, request: Heartbeat, times: int) -> Code | None:
        """See `wire.repeated_heartbeat.HeartbeatAtOnce`."""
        code = self._heartbeats.heartbeat_at_once(request, times)
        if code is not None:
            self.answered_at_once += times
            if code:
                self._meter.note_error(Api.HEARTBEAT, code, times)
        return code


def _of_users(sasl: Sasl, users: ScramUsers) -> Mapping[int, Handler]:
    return {
        Api.SASL_HANDSHAKE: sasl.handshake,
        Api.SASL_AUTHENTICATE: sasl.authenticate,
        Api.DESCRIBE_USER_SCRAM_CREDENTIALS: users.describe,
        Api.ALTER_USER_SCRAM_CREDENTIALS: users.alter,
    }


def _table(services: Services, fetch: Fetch, heartbeat_leave: HeartbeatLeave) -> Mapping[int, Handler]:
    join_sync = JoinSync(services)
    commits = Commits(services)
    groups = DescribeListDelete(services)
    cluster = DescribeCluster(services)
    alter_configs = AlterConfigs(services)
    acls = Acls(services)
    reassignments = Reassignments(services)
    transactions = Transactions(services)
    quotas = Quotas(services)
    return {
        Api.PRODUCE: Produce(services).handle,
        Api.FETCH: fetch.handle,
        Api.LIST_OFFSETS: ListOffsets(services).handle,
        Api.METADATA: Metadata(services).handle,
        Api.OFFSET_COMMIT: commits.commit,
        Api.OFFSET_FETCH: OffsetFetches(services).handle,
        Api.FIND_COORDINATOR: FindCoordinator(services).handle,
        Api.JOIN_GROUP: join_sync.join,
        Api.HEARTBEAT: heartbeat_leave.heartbeat,
        Api.LEAVE_GROUP: heartbeat_leave.leave,
        Api.SYNC_GROUP: join_sync.sync,
        Api.DESCRIBE_GROUPS: groups.describe,
        Api.LIST_GROUPS: groups.list,
        Api.API_VERSIONS: ApiVersions(services).handle,
        Api.CREATE_TOPICS: CreateTopics(services).handle,
        Api.DELETE_TOPICS: DeleteTopics(services).handle,
        Api.DELETE_RECORDS: DeleteRecords(services).handle,
        Api.INIT_PRODUCER_ID: ProducerIds(services).handle,
        Api.OFFSET_FOR_LEADER_EPOCH: LeaderEpochs(services).handle,
        Api.TXN_OFFSET_COMMIT: TxnCommits(services).handle,
        Api.DESCRIBE_ACLS: acls.describe,
        Api.CREATE_ACLS: acls.create,
        Api.DELETE_ACLS: acls.delete,
        Api.DESCRIBE_CONFIGS: Configs(services).describe,
        Api.ALTER_CONFIGS: alter_configs.replacing,
        Api.DESCRIBE_LOG_DIRS: LogDirs(services).handle,
        Api.CREATE_PARTITIONS: CreatePartitions(services).handle,
        Api.DELETE_GROUPS: groups.delete,
        Api.ELECT_LEADERS: Elections(services).handle,
        Api.INCREMENTAL_ALTER_CONFIGS: alter_configs.incremental,
        Api.ALTER_PARTITION_REASSIGNMENTS: reassignments.alter,
        Api.LIST_PARTITION_REASSIGNMENTS: reassignments.list,
        Api.OFFSET_DELETE: commits.delete,
        Api.DESCRIBE_CLIENT_QUOTAS: quotas.describe,
        Api.ALTER_CLIENT_QUOTAS: quotas.alter,
        Api.DESCRIBE_QUORUM: Quorum(services).handle,
        Api.UPDATE_FEATURES: Features(services).handle,
        Api.DESCRIBE_CLUSTER: cluster.cluster,
        Api.UNREGISTER_BROKER: Unregister(services).handle,
        Api.DESCRIBE_PRODUCERS: DescribeProducers(services).handle,
        Api.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxn(services).handle,
        Api.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
        Api.END_TXN: transactions.end,
        Api.WRITE_TXN_MARKERS: WriteTxnMarkers(services).handle,
        Api.DESCRIBE_TRANSACTIONS: transactions.describe,
        Api.LIST_TRANSACTIONS: ListTransactions(services).handle,
        Api.DESCRIBE_TOPIC_PARTITIONS: cluster.topic_partitions,
    }
