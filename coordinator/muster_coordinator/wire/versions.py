"""Which APIs and versions this server speaks (decision 33). Every advertised version is implemented and tested by a
round trip.

The one exception is Produce 0-2: they are advertised, because older librdkafka enables compression only when version 0
lies inside the range (KAFKA-18659), and a request in them closes the connection, as in Kafka 4.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple


class Api(IntEnum):
    """API keys (protocol notes 1.1)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    DESCRIBE_TOPIC_PARTITIONS = 75


class Range(NamedTuple):
    """Versions of one API: first advertised, first served, last, and first flexible (-1: none)."""

    advertised_min: int
    min: int
    max: int
    flexible: int


def _range(low: int, high: int, flexible: int) -> Range:
    return Range(low, low, high, flexible)


VERSIONS: Mapping[int, Range] = MappingProxyType(
    {
        Api.PRODUCE: Range(0, 3, 13, 9),
        Api.FETCH: _range(4, 18, 12),
        Api.LIST_OFFSETS: _range(1, 11, 6),
        Api.METADATA: _range(0, 13, 9),
        Api.OFFSET_COMMIT: _range(2, 10, 8),
        Api.OFFSET_FETCH: _range(1, 10, 6),
        Api.FIND_COORDINATOR: _range(0, 6, 3),
        Api.JOIN_GROUP: _range(0, 9, 6),
        Api.HEARTBEAT: _range(0, 4, 4),
        Api.LEAVE_GROUP: _range(0, 5, 4),
        Api.SYNC_GROUP: _range(0, 5, 4),
        Api.DESCRIBE_GROUPS: _range(0, 6, 5),
        Api.LIST_GROUPS: _range(0, 5, 3),
        Api.SASL_HANDSHAKE: _range(0, 1, -1),
        Api.API_VERSIONS: _range(0, 4, 3),
        Api.CREATE_TOPICS: _range(2, 7, 5),
        Api.DELETE_TOPICS: _range(1, 6, 4),
        Api.DELETE_RECORDS: _range(0, 2, 2),
        Api.INIT_PRODUCER_ID: _range(0, 5, 2),
        Api.OFFSET_FOR_LEADER_EPOCH: _range(2, 4, 4),
        Api.ADD_PARTITIONS_TO_TXN: _range(0, 5, 3),
        Api.ADD_OFFSETS_TO_TXN: _range(0, 4, 3),
        Api.END_TXN: _range(0, 5, 3),
        Api.WRITE_TXN_MARKERS: _range(1, 2, 1),
        Api.TXN_OFFSET_COMMIT: _range(0, 5, 3),
        Api.DESCRIBE_ACLS: _range(1, 3, 2),
        Api.CREATE_ACLS: _range(1, 3, 2),
        Api.DELETE_ACLS: _range(1, 3, 2),
        Api.DESCRIBE_CONFIGS: _range(1, 4, 4),
        Api.ALTER_CONFIGS: _range(0, 2, 2),
        Api.DESCRIBE_LOG_DIRS: _range(1, 4, 2),
        Api.SASL_AUTHENTICATE: _range(0, 2, 2),
        Api.CREATE_PARTITIONS: _range(0, 3, 2),
        Api.DELETE_GROUPS: _range(0, 2, 2),
        Api.ELECT_LEADERS: _range(0, 2, 2),
        Api.INCREMENTAL_ALTER_CONFIGS: _range(0, 1, 1),
        Api.ALTER_PARTITION_REASSIGNMENTS: _range(0, 1, 0),
        Api.LIST_PARTITION_REASSIGNMENTS: _range(0, 0, 0),
        Api.OFFSET_DELETE: _range(0, 0, -1),
        Api.DESCRIBE_CLIENT_QUOTAS: _range(0, 1, 1),
        Api.ALTER_CLIENT_QUOTAS: _range(0, 1, 1),
        Api.DESCRIBE_USER_SCRAM_CREDENTIALS: _range(0, 0, 0),
        Api.ALTER_USER_SCRAM_CREDENTIALS: _range(0, 0, 0),
        Api.DESCRIBE_QUORUM: _range(0, 2, 0),
        Api.UPDATE_FEATURES: _range(0, 2, 0),
        Api.DESCRIBE_CLUSTER: _range(0, 2, 0),
        Api.DESCRIBE_PRODUCERS: _range(0, 0, 0),
        Api.UNREGISTER_BROKER: _range(0, 0, 0),
        Api.DESCRIBE_TRANSACTIONS: _range(0, 0, 0),
        Api.LIST_TRANSACTIONS: _range(0, 1, 0),
        Api.DESCRIBE_TOPIC_PARTITIONS: _range(0, 0, 0),
    }
)

ADVERTISED = tuple(
    {"api_key": int(api), "min_version": versions.advertised_min, "max_version": versions.max}
    for api, versions in sorted(VERSIONS.items())
)
"""The table in the form of an ApiVersions answer."""

BEFORE_AUTHENTICATION = frozenset({Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE})
"""The only APIs that are parsed on a connection that has not authenticated (invariant P6)."""

LARGE_FRAMES = frozenset({Api.PRODUCE, Api.JOIN_GROUP, Api.SYNC_GROUP})
"""APIs whose requests may take `limits.FRAME_BYTES_MAX_LARGE` (decision 24)."""


def is_flexible(api: int, version: int) -> bool:
    """Whether this version uses compact types, tagged fields and request header 2."""
    first = VERSIONS[api].flexible
    return 0 <= first <= version


def response_header_has_tags(api: int, version: int) -> bool:
    """Is it response header 1? ApiVersions always has header 0, since its client does not know our versions yet."""
    return api != Api.API_VERSIONS and is_flexible(api, version)
