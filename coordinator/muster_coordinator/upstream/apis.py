"""Which APIs are ours beside an upstream Kafka, which are passed on, and in which versions.

Problem: a client must never learn an address of the upstream's, because it would ask there for its coordinator. Some
versions tell addresses in the middle of an answer that we do not open. Mechanism: each API is in one of these tables,
and a version that tells addresses where we do not look is not offered.

| table | what happens |
|---|---|
| FORWARDED | the frame goes to the broker as it is, and the answer comes back as it is |
| READDRESSED | the same, and addresses in the answer become ours (`upstream.brokers`) |
| OURS | the coordinator answers |
| USERS | the coordinator answers, or they are forwarded where clients log in at the broker themselves (ADR 100) |
| REFUSED | transactions with a group's offsets: those are in another log, so the two cannot be decided together |

What this does not do: know what the upstream itself speaks (`versions_of`).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from muster_coordinator.wire.versions import VERSIONS, Api


class Offered(NamedTuple):
    """Versions of an API, as ApiVersions tells them."""

    low: int
    high: int


_LOWERED: Mapping[int, int] = MappingProxyType(
    {
        # From 10 on a partition's answer tells its new leader's address (KIP-951); a Fetch's from 16 on.
        Api.PRODUCE: 9,
        Api.FETCH: 15,
        # 2 tells the addresses of controllers.
        Api.DESCRIBE_QUORUM: 1,
        # What is above is for brokers, or for a feature of which our ApiVersions tells nothing.
        Api.ADD_PARTITIONS_TO_TXN: 3,
        Api.END_TXN: 4,
        Api.WRITE_TXN_MARKERS: 1,
        Api.ADD_OFFSETS_TO_TXN: 3,
        Api.TXN_OFFSET_COMMIT: 3,
        # From 10 on they name topics by id, which only the upstream knows.
        Api.OFFSET_COMMIT: 9,
        Api.OFFSET_FETCH: 9,
    }
)
"""API → its highest version here, where that is not the highest that we know."""


def _highest(*apis: Api) -> Mapping[int, int]:
    """API → the highest version that is offered."""
    return MappingProxyType({int(api): _LOWERED.get(api, VERSIONS[api].max) for api in apis})


FORWARDED = _highest(
    Api.PRODUCE,
    Api.FETCH,
    Api.LIST_OFFSETS,
    Api.CREATE_TOPICS,
    Api.DELETE_TOPICS,
    Api.DELETE_RECORDS,
    Api.INIT_PRODUCER_ID,
    Api.OFFSET_FOR_LEADER_EPOCH,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.END_TXN,
    Api.WRITE_TXN_MARKERS,
    Api.DESCRIBE_ACLS,
    Api.CREATE_ACLS,
    Api.DELETE_ACLS,
    Api.DESCRIBE_CONFIGS,
    Api.ALTER_CONFIGS,
    Api.DESCRIBE_LOG_DIRS,
    Api.CREATE_PARTITIONS,
    Api.ELECT_LEADERS,
    Api.INCREMENTAL_ALTER_CONFIGS,
    Api.ALTER_PARTITION_REASSIGNMENTS,
    Api.LIST_PARTITION_REASSIGNMENTS,
    Api.DESCRIBE_CLIENT_QUOTAS,
    Api.ALTER_CLIENT_QUOTAS,
    Api.DESCRIBE_QUORUM,
    Api.UPDATE_FEATURES,
    Api.DESCRIBE_PRODUCERS,
    Api.UNREGISTER_BROKER,
    Api.DESCRIBE_TRANSACTIONS,
    Api.LIST_TRANSACTIONS,
    Api.DESCRIBE_TOPIC_PARTITIONS,
)
READDRESSED = _highest(Api.METADATA, Api.DESCRIBE_CLUSTER)
OURS = _highest(
    Api.OFFSET_COMMIT,
    Api.OFFSET_FETCH,
    Api.FIND_COORDINATOR,
    Api.JOIN_GROUP,
    Api.HEARTBEAT,
    Api.LEAVE_GROUP,
    Api.SYNC_GROUP,
    Api.DESCRIBE_GROUPS,
    Api.LIST_GROUPS,
    Api.DELETE_GROUPS,
    Api.OFFSET_DELETE,
    Api.SASL_HANDSHAKE,
    Api.SASL_AUTHENTICATE,
    Api.API_VERSIONS,
)
"""FIND_COORDINATOR is ours for groups; for transactions it is as one of READDRESSED."""
USERS = _highest(Api.DESCRIBE_USER_SCRAM_CREDENTIALS, Api.ALTER_USER_SCRAM_CREDENTIALS)
"""Who may log in is known to whoever judges it."""
REFUSED = _highest(Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT)
"""Offered, so that a client asks and is told."""

ACLS = frozenset((Api.DESCRIBE_ACLS, Api.CREATE_ACLS, Api.DELETE_ACLS))
"""With our ACLs in front (ADR 101) the coordinator answers these of FORWARDED: the ACLs that hold are its own."""
_BY_NAME: Mapping[int, int] = MappingProxyType({Api.FETCH: 12, Api.METADATA: 11, Api.DELETE_TOPICS: 5})
"""API → its highest version without topics by id. What only the upstream knows cannot be judged."""
_NOT_JUDGED = ACLS | {Api.WRITE_TXN_MARKERS, Api.DESCRIBE_TOPIC_PARTITIONS}
"""Besides ACLs what only brokers ask, and what clients ask by Metadata where it is not offered."""
JUDGED: Mapping[int, Offered] = MappingProxyType(
    {
        api: Offered(VERSIONS[api].min, _BY_NAME.get(api, high))
        for api, high in {**FORWARDED, **READDRESSED}.items()
        if api not in _NOT_JUDGED
    }
)
"""With our ACLs in front: API → the versions that go on, if its client may (`upstream.rights`)."""


_PASSED_ON: Mapping[int, int] = MappingProxyType({**FORWARDED, **READDRESSED})
_OFFERED: Mapping[int, int] = MappingProxyType({**_PASSED_ON, **OURS, **USERS, **REFUSED})


def is_offered(api: int, version: int) -> bool:
    """False for a version that may tell addresses, or that needs what is not here. A client that goes by our
    ApiVersions asks for none."""
    return version <= _OFFERED[api]


def advertised(
    upstream: Mapping[int, Offered], *, passes_logins: bool = False, judges: bool = False
) -> tuple[Mapping[str, int], ...]:
    """The rows of our ApiVersions answer, of what the upstream's brokers all speak. `passes_logins`: do clients log in
    there? `judges`: are our ACLs in front?"""
    assert not (passes_logins and judges)
    rows: dict[int, Offered] = {}
    ours, theirs_as_well = {**OURS, **REFUSED}, dict(_PASSED_ON)
    if judges:
        ours.update({api: FORWARDED[api] for api in ACLS})
        theirs_as_well = {api: judged.high for api, judged in JUDGED.items()}
    (theirs_as_well if passes_logins else ours).update(USERS)
    for api, high in ours.items():
        rows[api] = Offered(VERSIONS[api].advertised_min, high)
    for api, high in theirs_as_well.items():
        theirs = upstream.get(api)
        if theirs is None:
            continue
        both = Offered(max(theirs.low, VERSIONS[api].advertised_min), min(theirs.high, high))
        if both.low <= both.high:
            rows[api] = both
    return tuple(
        {"api_key": api, "min_version": offered.low, "max_version": offered.high}
        for api, offered in sorted(rows.items())
    )


def versions_of(rows: Iterable[tuple[int, int, int]]) -> dict[int, Offered]:
    """Of the rows of a broker's ApiVersions answer."""
    return {api: Offered(low, high) for api, low, high in rows}


def common(one: Mapping[int, Offered], other: Mapping[int, Offered]) -> dict[int, Offered]:
    """What two brokers both speak."""
    found: dict[int, Offered] = {}
    for api in one.keys() & other.keys():
        both = Offered(max(one[api].low, other[api].low), min(one[api].high, other[api].high))
        if both.low <= both.high:
            found[api] = both
    return found
