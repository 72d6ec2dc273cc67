"""Observes one ConsumerGroup: its workload, and the state of the group at its coordinator.

Kafka's protocol gives members, offsets and log end offsets, of Muster and Apache Kafka alike; generation and last
rebalance, which only Muster knows, come from the admin API of the cluster in `clusterRef`. Each part may be Unknown on
its own.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from muster_operator import naming
from muster_operator.api.group import GroupSpec, parse_group
from muster_operator.kube.kinds import CLUSTER
from muster_operator.kube.views import owner_view
from muster_operator.plan.rivals import elder_of, workload_elder_of
from muster_operator.ports import Admin, Clock, Kafka
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.keys import OwnerKey
from muster_operator.runtime.logins import Logins
from muster_operator.runtime.observe_cluster import hosts_of, owned_statefulset, speaks_tls
from muster_operator.runtime.own_clusters import OwnClusters
from muster_operator.runtime.referenced import Referenced
from muster_operator.runtime.tokens import Tokens
from muster_operator.world.group import GroupWorld, ObservedGroup
from muster_operator.world.views import Unknown

Object = Mapping[str, Any]


async def observe_group(
    key: OwnerKey,
    live: Object,
    *,
    cache: Cache,
    tokens: Tokens,
    admin: Admin,
    kafka: Kafka,
    clock: Clock,
    referenced: Referenced,
    logins: Logins,
    own_clusters: OwnClusters,
) -> GroupWorld:
    """Raises InvalidObject (the spec), Transient (the workload of `workloadRef` too) or Refused (the cluster's Secret
    could not be read)."""
    owner = owner_view(live)
    spec = parse_group(live)
    reached = await own_clusters.reach(
        key.namespace, spec.cluster_ref.name if spec.cluster_ref else None, spec.access,
        bootstrap=spec.bootstrap_servers,
    )  # fmt: skip
    spec = dataclasses.replace(spec, tls=reached.clients.tls)
    cluster = reached.where
    group: ObservedGroup | Unknown
    if isinstance(cluster, Unknown):
        group = cluster
    else:
        group = await kafka.group(bootstrap=cluster, group_id=spec.group_id, topics=spec.topics)
        logins.distrust(key.namespace, reached.asked_as, group)
        if isinstance(group, ObservedGroup) and spec.cluster_ref is not None:
            group = await _with_facts(group, spec, key.namespace, cache, tokens, admin)
    # After the coordinator's answer: a pod that came back in between must not be taken for gone.
    seen = await referenced.look(key, owner, spec)
    ref = spec.workload_ref
    return GroupWorld(
        owner=owner,
        spec=spec,
        bootstrap=reached.bootstrap,
        asked_at=reached.asked_at,
        login=reached.login,
        statefulset=seen.statefulset if ref else owned_statefulset(key, owner.uid, cache, cache.pods(key)),
        children=cache.children(key, owner.uid),
        group=group,
        now_ms=clock.wall_ms(),
        elder=elder_of(live, cache.groups_with_id(spec.group_id)),
        referenced=seen.referenced,
        workload_elder=(
            workload_elder_of(live, cache.groups_with_workload(key.namespace, ref.kind, ref.name)) if ref else None
        ),
    )


async def _with_facts(
    group: ObservedGroup, spec: GroupSpec, namespace: str, cache: Cache, tokens: Tokens, admin: Admin
) -> ObservedGroup:
    """`group` completed from Muster's admin API; unchanged if that does not answer."""
    name = spec.cluster_ref.name if spec.cluster_ref else ""
    cluster = cache.get(CLUSTER, namespace, name)
    if cluster is None:
        return group
    key = OwnerKey(CLUSTER.kind, namespace, name)
    statefulset = owned_statefulset(key, cluster["metadata"]["uid"], cache, cache.pods(key))
    trust = await tokens.trust_of_cluster(namespace, name) if speaks_tls(statefulset) else None
    hosts = {naming.ordinal_of(pod): host for pod, host in hosts_of(key, statefulset, trust or "").items()}
    if not hosts:
        return group
    token = await tokens.of_cluster(namespace, name)
    if not token:
        return group
    coordinator = _first_number(group.coordinator)
    ordered = dict(sorted(hosts.items(), key=lambda one: one[0] != coordinator))
    facts = await admin.group_facts(hosts=ordered, token=token, group_id=spec.group_id)
    if isinstance(facts, Unknown):
        return group
    return dataclasses.replace(
        group,
        generation=facts.generation,
        last_rebalance_ms=facts.rebalanced_ms,
        last_rebalance_reason=facts.rebalance_reason,
        partitions=tuple(
            dataclasses.replace(one, counted=facts.counted.get((one.topic, one.partition))) for one in group.partitions
        ),
    )


def _first_number(coordinator: str) -> int:
    """The broker id at the start of `1 (host:port)`; -1 without one."""
    head = coordinator.partition(" ")[0]
    return int(head) if head.isdigit() else -1
