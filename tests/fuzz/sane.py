"""Requests that make sense for the cluster as it is, one maker an API: what `extremes` starts from.

Names come from small pools, so that the state stays bounded while requests meet groups, members and topics that exist.
A maker fills every field that some version of its API has; a version takes its own.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from muster_coordinator.records.batch import encode_batch
from muster_coordinator.wire.schema import Entity, Field, zero_of
from muster_coordinator.wire.versions import Api

GROUPS = 24
TOPICS = 6
NEW_TOPICS = 4
PARTITIONS_FEW = 5
UNMARKED = (1_001, 1_002, 1_003, 1_004)
"""Producers whose transactions nobody ends: no marker raises their epochs."""
FRESH_GROUPS = 4_000
COMMITS_KEPT = 32
MEMBERS_META = b"\0\1\0\0\0\1\0\2t0\xff\xff\xff\xff"


class Known:
    """What a client would have learned: set by the target."""

    def __init__(self) -> None:
        self.topic_ids: dict[str, bytes] = {}
        self.seats: list[tuple[str, str, int]] = []
        """(group, member id, generation) of groups with one member that leads and waits for SyncGroup."""
        self.fetch_sessions: list[tuple[int, int]] = []
        """(id, epoch that comes next) of fetch sessions."""
        self.partitions: dict[str, int] = {}
        """How many each topic of clients has."""
        self.commits: list[tuple[str, str]] = []
        """(group, topic) of commits that are probably there."""
        self.producers: list[tuple[str, int, int]] = []
        """(transactional id, producer id, epoch) as their coordinator gave them, the newest last."""
        self.wall_ms = 1_700_000_000_000


def _group(rand: Random) -> str:
    return f"g{rand.randrange(GROUPS)}"


def _topic(rand: Random) -> str:
    return f"t{rand.randrange(TOPICS)}"


def _named(rand: Random, known: Known) -> dict[str, Any]:
    name = _topic(rand)
    return {"name": name, "topic": name, "topic_id": known.topic_ids.get(name, bytes(16))}


def _seat(rand: Random, known: Known) -> dict[str, Any]:
    group, member, generation = rand.choice(known.seats) if known.seats else ("g0", "", -1)
    return {
        "group_id": group,
        "member_id": member,
        "generation_id": generation,
        "generation_id_or_member_epoch": generation,
        "group_instance_id": None,
    }


def produce(rand: Random, known: Known) -> dict[str, Any]:
    records = encode_batch(tuple((None, b"v") for _ in range(rand.randrange(1, 4))), timestamp_ms=known.wall_ms)
    part = {"index": 0, "records": records}
    return {
        "transactional_id": None, "acks": rand.choice((-1, -1, 1)), "timeout_ms": 1_000,
        "topic_data": ({**_named(rand, known), "partition_data": (part,)},),
    }  # fmt: skip


def fetch(rand: Random, known: Known) -> dict[str, Any]:
    part = {
        "partition": 0, "fetch_offset": rand.choice((0, 0, 1, 5)), "partition_max_bytes": 1_000,
        "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1,
    }  # fmt: skip
    session, epoch = rand.choice(((0, -1), (0, 0), *known.fetch_sessions))
    forgotten = ({**_named(rand, known), "partitions": (0,)},) if rand.random() < 0.3 else ()
    return {
        "replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10_000, "isolation_level": rand.randrange(2),
        "session_id": session, "session_epoch": epoch, "rack_id": "",
        "topics": ({**_named(rand, known), "partitions": (part,)},), "forgotten_topics_data": forgotten,
    }  # fmt: skip


def list_offsets(rand: Random, known: Known) -> dict[str, Any]:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": rand.choice((-1, -2, -3, known.wall_ms))}
    return {
        "replica_id": -1, "isolation_level": 0, "timeout_ms": 100,
        "topics": ({**_named(rand, known), "partitions": (part,)},),
    }  # fmt: skip


def metadata(rand: Random, known: Known) -> dict[str, Any]:
    named = _named(rand, known)
    by_id = rand.random() < 0.3
    topic = {"name": named["name"], "topic_id": named["topic_id"] if by_id else bytes(16)}
    return {"topics": (topic,), "allow_auto_topic_creation": True}


def offset_commit(rand: Random, known: Known) -> dict[str, Any]:
    part = {
        "partition_index": 0, "committed_offset": rand.randrange(100), "committed_leader_epoch": -1,
        "committed_metadata": rand.choice(("", "note", None)),
    }  # fmt: skip
    group, named = f"c{rand.randrange(GROUPS)}", _named(rand, known)
    known.commits[:] = [*known.commits[-COMMITS_KEPT:], (group, named["name"])]
    return {
        "group_id": group, "generation_id_or_member_epoch": -1, "generation_id": -1,
        "member_id": "", "group_instance_id": None, "retention_time_ms": -1,
        "topics": ({**named, "partitions": (part,)},),
    }  # fmt: skip


def offset_fetch(rand: Random, known: Known) -> dict[str, Any]:
    group = f"c{rand.randrange(GROUPS)}"
    topics = ({**_named(rand, known), "partition_indexes": (0,)},)
    asked = {"group_id": group, "topics": topics, "member_id": None, "member_epoch": -1}
    return {"group_id": group, "topics": topics, "groups": (asked,), "require_stable": rand.random() < 0.5}


def find_coordinator(rand: Random, known: Known) -> dict[str, Any]:
    """Of a transactional id only where there is a transaction log: else the question makes one, of fifty partitions."""
    kind, key = (1, f"x{rand.randrange(8)}") if known.producers and rand.random() < 0.5 else (0, _group(rand))
    return {"key": key, "key_type": kind, "coordinator_keys": (key,)}


def join_group(rand: Random, known: Known) -> dict[str, Any]:
    del known
    group = _group(rand) if rand.random() < 0.6 else f"j{rand.randrange(FRESH_GROUPS)}"
    return {
        "group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "member_id": "",
        "group_instance_id": rand.choice((None, None, "i1", "i2")), "protocol_type": "consumer", "reason": None,
        "protocols": ({"name": "range", "metadata": MEMBERS_META},),
    }  # fmt: skip


def sync_group(rand: Random, known: Known) -> dict[str, Any]:
    seat = _seat(rand, known)
    plan = ({"member_id": seat["member_id"], "assignment": b"plan"},)
    return {**seat, "protocol_type": "consumer", "protocol_name": "range", "assignments": plan}


def heartbeat(rand: Random, known: Known) -> dict[str, Any]:
    return _seat(rand, known)


def leave_group(rand: Random, known: Known) -> dict[str, Any]:
    seat = _seat(rand, known)
    leaver = {"member_id": seat["member_id"], "group_instance_id": None, "reason": None}
    return {**seat, "members": (leaver,)}


def groups_named(rand: Random, known: Known) -> dict[str, Any]:
    del known
    names = tuple(f"c{rand.randrange(GROUPS)}" for _ in range(rand.randrange(1, 3)))
    return {"groups": names, "groups_names": names, "include_authorized_operations": True}


def list_groups(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"states_filter": rand.choice(((), ("Stable",))), "types_filter": rand.choice(((), ("classic",)))}


def api_versions(rand: Random, known: Known) -> dict[str, Any]:
    del rand, known
    return {"client_software_name": "fuzz", "client_software_version": "1"}


def create_topics(rand: Random, known: Known) -> dict[str, Any]:
    del known
    topic = {
        "name": f"new{rand.randrange(NEW_TOPICS)}", "num_partitions": 1, "replication_factor": 1,
        "assignments": (), "configs": (),
    }  # fmt: skip
    return {"topics": (topic,), "timeout_ms": 1_000, "validate_only": False}


def delete_topics(rand: Random, known: Known) -> dict[str, Any]:
    del known
    name = f"new{rand.randrange(NEW_TOPICS)}"
    return {"topics": ({"name": name, "topic_id": bytes(16)},), "topic_names": (name,), "timeout_ms": 1_000}


def delete_records(rand: Random, known: Known) -> dict[str, Any]:
    part = {"partition_index": 0, "offset": -1}
    return {"topics": ({**_named(rand, known), "partitions": (part,)},), "timeout_ms": 1_000}


def producer_id(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {
        "transactional_id": rand.choice((None, None, "x1", "x2")), "transaction_timeout_ms": rand.choice((1, 60_000)),
        "producer_id": -1, "producer_epoch": -1,
    }  # fmt: skip


def leader_epochs(rand: Random, known: Known) -> dict[str, Any]:
    part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": rand.randrange(3)}
    return {"replica_id": -1, "topics": ({**_named(rand, known), "partitions": (part,)},)}


def resource(rand: Random) -> dict[str, Any]:
    return {"resource_type": 2, "resource_name": _topic(rand)}


def describe_configs(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {
        "resources": ({**resource(rand), "configuration_keys": rand.choice((None, ("retention.ms",)))},),
        "include_synonyms": True, "include_documentation": True,
    }  # fmt: skip


def alter_configs(rand: Random, known: Known) -> dict[str, Any]:
    del known
    config = {"name": "retention.ms", "config_operation": 0, "value": str(rand.randrange(10**6, 10**9))}
    return {"resources": ({**resource(rand), "configs": (config,)},), "validate_only": False}


def create_partitions(rand: Random, known: Known) -> dict[str, Any]:
    """One more, mostly, for a topic that has few."""
    few = sorted(name for name, count in known.partitions.items() if count < PARTITIONS_FEW)
    name = rand.choice(few) if few else _topic(rand)
    more = known.partitions.get(name, 1) + rand.choice((1, 1, 1, 0))
    topic = {"name": name, "count": more, "assignments": None}
    return {"topics": (topic,), "timeout_ms": 1_000, "validate_only": False}


def offset_delete(rand: Random, known: Known) -> dict[str, Any]:
    group, topic = known.commits.pop() if known.commits else ("c0", "t0")
    return {"group_id": group, "topics": ({"name": topic, "partitions": ({"partition_index": 0},)},)}


def _acl(rand: Random) -> dict[str, Any]:
    """The fields of a filter and of a creation; what they have in common is named alike."""
    kind, name = rand.choice((2, 2, 3)), rand.choice(("t0", "t1", "*"))
    return {
        "resource_type_filter": kind, "resource_name_filter": rand.choice((name, None)), "pattern_type_filter": 3,
        "principal_filter": rand.choice(("User:a", None)), "host_filter": None,
        "resource_type": kind, "resource_name": name, "resource_pattern_type": 3,
        "principal": rand.choice(("User:a", "User:b")), "host": "*",
        "operation": rand.choice((2, 3, 4, rand.randrange(1, 13))), "permission_type": rand.choice((2, 3)),
    }  # fmt: skip


def _acl_filter(rand: Random) -> dict[str, Any]:
    """Most find something: of any operation and permission."""
    some = _acl(rand)
    return some if rand.random() < 0.3 else {**some, "operation": 1, "permission_type": 1}


def describe_acls(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return _acl(rand)


def change_acls(rand: Random, known: Known) -> dict[str, Any]:
    del known
    count = rand.randrange(1, 4)
    return {
        "creations": tuple(_acl(rand) for _ in range(count)),
        "filters": tuple(_acl_filter(rand) for _ in range(count)),
    }


def sasl_handshake(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"mechanism": rand.choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"))}


def sasl_authenticate(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"auth_bytes": rand.choice((b"\0user\0word", b"n,,n=user,r=nonce", b""))}


def alter_quotas(rand: Random, known: Known) -> dict[str, Any]:
    """None that holds anybody: a default of a byte a second would mute the fuzzer's own connections for hours."""
    del known
    if rand.random() < 0.3:
        kinds = rand.sample(("user", "client-id", "ip"), rand.randrange(1, 3))
        keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate", "made_up")
    else:
        kinds = rand.sample(("user", "client-id"), rand.randrange(1, 3))
        keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    entity = tuple({"entity_type": kind, "entity_name": rand.choice((None, "a", "10.0.0.1"))} for kind in kinds)
    bad = rand.random() < 0.2
    value = rand.choice((1e9 + 0.5, 1e18, 0.0, -1.0, float("inf")) if bad else (1e9, 2e9, 3e9, 1e12, 1e15))
    ops = tuple({"key": key, "value": value, "remove": rand.random() < 0.3} for key in rand.sample(keys, 2))
    return {"entries": ({"entity": entity, "ops": ops},), "validate_only": rand.random() < 0.1}


def _some_partitions(rand: Random) -> dict[str, Any]:
    return {"topic": _topic(rand), "partitions": tuple(range(rand.randrange(1, 4)))}


def describe_log_dirs(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"topics": rand.choice((None, (_some_partitions(rand),)))}


def describe_producers(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"topics": ({"name": _topic(rand), "partition_indexes": (0, rand.randrange(-1, 3))},)}


def elect_leaders(rand: Random, known: Known) -> dict[str, Any]:
    del known
    asked = rand.choice((None, (_some_partitions(rand),)))
    return {"election_type": 0, "topic_partitions": asked, "timeout_ms": 1_000}


def reassignments(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"timeout_ms": 1_000, "topics": rand.choice((None, ({"name": _topic(rand), "partition_indexes": (0,)},)))}


def alter_reassignments(rand: Random, known: Known) -> dict[str, Any]:
    del known
    replicas = rand.choice(((0,), (0,), (0,), None, (0, 1, 2), (2, 1, 0)))
    part = {"partition_index": rand.choice((0, 0, 0, 1)), "replicas": replicas}
    return {
        "timeout_ms": 1_000, "allow_replication_factor_change": rand.random() < 0.5,
        "topics": ({"name": _topic(rand), "partitions": (part,)},),
    }  # fmt: skip


def unregister_broker(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"broker_id": rand.choice((0, 1, 7))}


def update_features(rand: Random, known: Known) -> dict[str, Any]:
    del known
    part = {
        "feature": rand.choice(("muster.feature.level", "metadata.version")), "max_version_level": rand.randrange(5),
        "allow_downgrade": rand.random() < 0.5, "upgrade_type": rand.randrange(4),
    }  # fmt: skip
    return {"timeout_ms": 1_000, "feature_updates": (part,), "validate_only": rand.random() < 0.5}


def describe_quotas(rand: Random, known: Known) -> dict[str, Any]:
    del known
    match_type = rand.randrange(3)
    kind = rand.choice(("user", "client-id", "ip"))
    part = {"entity_type": kind, "match_type": match_type, "match": "a" if match_type == 0 else None}
    return {"components": (part,), "strict": rand.random() < 0.5}


def describe_users(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"users": rand.choice((None, (), ({"name": "u0"},), ({"name": "u0"}, {"name": "u0"})))}


def alter_users(rand: Random, known: Known) -> dict[str, Any]:
    del known
    mechanism = rand.choice((1, 1, 2, 2, 3))
    user = {"name": f"u{rand.randrange(3)}", "mechanism": mechanism}
    word = bytes(64 if mechanism == 2 else 32)
    more = {"iterations": rand.choice((4_096, 4_096, 4_096, 1)), "salt": b"salt", "salted_password": word}
    made = ({**user, **more},)
    return {"deletions": rand.choice(((), (), (user,))), "upsertions": rand.choice(((), made, made))}


def describe_quorum(rand: Random, known: Known) -> dict[str, Any]:
    del known
    name = rand.choice(("__cluster_metadata", _topic(rand)))
    return {"topics": ({"topic_name": name, "partitions": ({"partition_index": 0},)},)}


def describe_cluster(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {
        "include_cluster_authorized_operations": rand.random() < 0.5, "endpoint_type": rand.choice((1, 1, 2)),
        "include_fenced_brokers": rand.random() < 0.5,
    }  # fmt: skip


def list_transactions(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {
        "state_filters": rand.choice(((), ("Ongoing",), ("Empty", "CompleteCommit"))),
        "producer_id_filters": rand.choice(((), (0, 1))), "duration_filter": -1,
    }  # fmt: skip


def _producer(rand: Random, known: Known) -> dict[str, Any]:
    """The newest that is known, mostly."""
    name, producer_id, epoch = f"x{rand.randrange(8)}", rand.randrange(40), rand.randrange(3)
    if known.producers and rand.random() < 0.9:
        name, producer_id, epoch = known.producers[-1]
    return {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}


def describe_transactions(rand: Random, known: Known) -> dict[str, Any]:
    del known
    return {"transactional_ids": tuple(f"x{rand.randrange(8)}" for _ in range(rand.randrange(1, 4)))}


def add_partitions_to_txn(rand: Random, known: Known) -> dict[str, Any]:
    producer = _producer(rand, known)
    topics = ({**_named(rand, known), "partitions": (0,)},)
    return {
        **{f"v3_and_below_{name}": value for name, value in producer.items()}, "v3_and_below_topics": topics,
        "transactions": ({**producer, "verify_only": rand.random() < 0.15, "topics": topics},),
    }  # fmt: skip


def add_offsets_to_txn(rand: Random, known: Known) -> dict[str, Any]:
    return {**_producer(rand, known), "group_id": _group(rand)}


def end_txn(rand: Random, known: Known) -> dict[str, Any]:
    return {**_producer(rand, known), "committed": rand.random() < 0.5}


def write_txn_markers(rand: Random, known: Known) -> dict[str, Any]:
    marker = {
        "producer_id": rand.randrange(40), "producer_epoch": rand.randrange(3),
        "transaction_result": rand.random() < 0.5, "coordinator_epoch": rand.randrange(3),
        "transaction_version": rand.choice((0, 2)),
        "topics": ({**_named(rand, known), "partition_indexes": (0,)},),
    }  # fmt: skip
    return {"markers": (marker,)}


def describe_topic_partitions(rand: Random, known: Known) -> dict[str, Any]:
    del known
    cursor = rand.choice((None, {"topic_name": _topic(rand), "partition_index": 0}))
    return {"topics": ({"name": _topic(rand)},), "response_partition_limit": rand.choice((1, 2_000)), "cursor": cursor}


def txn_offset_commit(rand: Random, known: Known) -> dict[str, Any]:
    """Of producers without a group's member, mostly: seats are taken and lost in a long life."""
    part = {
        "partition_index": 0, "committed_offset": rand.randrange(50), "committed_leader_epoch": -1,
        "committed_metadata": rand.choice((None, "", "note")),
    }  # fmt: skip
    no_member = {"group_id": f"c{rand.randrange(GROUPS)}", "member_id": "", "generation_id": -1}
    seat = _seat(rand, known) if rand.random() < 0.3 else {**no_member, "group_instance_id": None}
    return {
        **seat, "transactional_id": f"x{rand.randrange(4)}",
        "producer_id": rand.choice((rand.randrange(8), *UNMARKED)), "producer_epoch": rand.choice((0, 1, 2, 2, 2)),
        "topics": ({**_named(rand, known), "partitions": (part,)},),
    }  # fmt: skip


MAKERS: dict[int, Callable[[Random, Known], dict[str, Any]]] = {
    Api.PRODUCE: produce,
    Api.FETCH: fetch,
    Api.LIST_OFFSETS: list_offsets,
    Api.METADATA: metadata,
    Api.OFFSET_COMMIT: offset_commit,
    Api.OFFSET_FETCH: offset_fetch,
    Api.FIND_COORDINATOR: find_coordinator,
    Api.JOIN_GROUP: join_group,
    Api.SYNC_GROUP: sync_group,
    Api.HEARTBEAT: heartbeat,
    Api.LEAVE_GROUP: leave_group,
    Api.DESCRIBE_GROUPS: groups_named,
    Api.DELETE_GROUPS: groups_named,
    Api.LIST_GROUPS: list_groups,
    Api.API_VERSIONS: api_versions,
    Api.CREATE_TOPICS: create_topics,
    Api.DELETE_TOPICS: delete_topics,
    Api.DELETE_RECORDS: delete_records,
    Api.INIT_PRODUCER_ID: producer_id,
    Api.OFFSET_FOR_LEADER_EPOCH: leader_epochs,
    Api.DESCRIBE_CONFIGS: describe_configs,
    Api.INCREMENTAL_ALTER_CONFIGS: alter_configs,
    Api.CREATE_PARTITIONS: create_partitions,
    Api.OFFSET_DELETE: offset_delete,
    Api.TXN_OFFSET_COMMIT: txn_offset_commit,
    Api.SASL_HANDSHAKE: sasl_handshake,
    Api.SASL_AUTHENTICATE: sasl_authenticate,
    Api.DESCRIBE_ACLS: describe_acls,
    Api.CREATE_ACLS: change_acls,
    Api.DELETE_ACLS: change_acls,
    Api.ALTER_CONFIGS: alter_configs,
    Api.DESCRIBE_LOG_DIRS: describe_log_dirs,
    Api.ELECT_LEADERS: elect_leaders,
    Api.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments,
    Api.LIST_PARTITION_REASSIGNMENTS: reassignments,
    Api.DESCRIBE_CLIENT_QUOTAS: describe_quotas,
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_users,
    Api.ALTER_USER_SCRAM_CREDENTIALS: alter_users,
    Api.ALTER_CLIENT_QUOTAS: alter_quotas,
    Api.DESCRIBE_QUORUM: describe_quorum,
    Api.DESCRIBE_CLUSTER: describe_cluster,
    Api.UNREGISTER_BROKER: unregister_broker,
    Api.UPDATE_FEATURES: update_features,
    Api.DESCRIBE_PRODUCERS: describe_producers,
    Api.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    Api.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    Api.END_TXN: end_txn,
    Api.WRITE_TXN_MARKERS: write_txn_markers,
    Api.DESCRIBE_TRANSACTIONS: describe_transactions,
    Api.LIST_TRANSACTIONS: list_transactions,
    Api.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}
"""One for each API that is served."""


def plain(entity: Entity) -> dict[str, Any]:
    """Every field at its default, or as near to nothing as it can be; arrays hold one such element."""
    return {field.name: _plain(field) for field in (*entity.fields, *entity.tagged)}


def _plain(field: Field) -> Any:
    if field.tag is not None:
        return None
    value = plain(field.entity) if field.entity is not None else zero_of(field)
    if field.array:
        one = value if field.entity is not None else {"string": "t0", "bytes": b""}.get(field.kind, 0)
        return (one,)
    return value
