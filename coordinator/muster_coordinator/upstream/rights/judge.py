"""What of a request for the upstream goes there, by our own ACLs (ADR 101).

Problem: where the replicas are one user at the upstream, its ACLs tell no client from another. Mechanism: each request
is read, and judged by what it names, with Kafka's operations and codes (the other modules of this room). A version that
names topics by ids, which only the upstream knows, is not offered, and neither is what nothing but a broker asks, or
what a client can do without. What this does not do: judge requests about groups, users and ACLs, which are answered by
the coordinator itself.
"""

from muster_coordinator.upstream.apis import JUDGED
from muster_coordinator.upstream.rights.fetched import judge_fetch
from muster_coordinator.upstream.rights.listed import LISTED, judge_listed
from muster_coordinator.upstream.rights.metadata import judge_cluster, judge_metadata
from muster_coordinator.upstream.rights.produced import judge_produced
from muster_coordinator.upstream.rights.verdict import Rights, Verdict
from muster_coordinator.upstream.rights.whole import (
    WHOLE,
    judge_added,
    judge_coordinator,
    judge_end,
    judge_producer_id,
    judge_transactions,
    judge_whole,
)
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import Api


def is_judged(api: int, version: int) -> bool:
    """False for a version that names topics by id, and for what is not offered."""
    offered = JUDGED.get(api)
    return api == Api.FIND_COORDINATOR or (offered is not None and offered.low <= version <= offered.high)


def judge(api: int, version: int, request: Value, rights: Rights) -> Verdict:
    """Of a request as it was read, of a version that `is_judged`."""
    if api == Api.FIND_COORDINATOR:
        return judge_coordinator(version, request, rights)
    if api == Api.PRODUCE:
        return judge_produced(request, rights)
    if api in LISTED:
        return judge_listed(api, request, rights)
    if api in WHOLE:
        return judge_whole(api, request, rights)
    return _others(api, version, request, rights)


def _others(api: int, version: int, request: Value, rights: Rights) -> Verdict:
    if api == Api.FETCH:
        return judge_fetch(request, rights)
    if api == Api.METADATA:
        return judge_metadata(version, request, rights)
    if api == Api.DESCRIBE_CLUSTER:
        return judge_cluster(request)
    if api == Api.INIT_PRODUCER_ID:
        return judge_producer_id(request, rights)
    if api == Api.ADD_PARTITIONS_TO_TXN:
        return judge_added(request, rights)
    if api == Api.END_TXN:
        return judge_end(request, rights)
    assert api == Api.LIST_TRANSACTIONS, f"nobody knows who may ask API {api}"
    return judge_transactions(rights)
