"""Executes a plan: the only module in which the operator changes anything outside. In order; the first failure ends the
pass.

Four failures do not end it, and are reported beside what the rest of the plan did: a volume claim that may not grow
(`Done.refused`, asked again after BACKOFF_MAX_MS: `claim_growth`), a Certificate that cert-manager cannot be asked for
(`Done.not_issued`: whoever has a certificate goes on with it), and a lost replica that may not be replaced now, or a
coordinator that may not leave, or more replicas that there may not be (`Done.not_replaced`, `Done.not_left`, asked
again after a back-off: `replacing`).

Invariants that hold here whatever was planned:

* Nothing is written for an owner that is gone, is being deleted or was replaced by another object: before the first
  write of a pass the owner is read from the API server, since a server-side apply would create a child of a deleted
  owner.
* An object of a wanted name that belongs to another owner is left alone (`NameTaken`): an apply with force would take
  it over.
* A manifest that the live object already covers is not sent.
* Evictions and deletions carry the uid that the plan was made for.
* In a workload of `workloadRef`, only the replica count and the restart field are written.
* Members are removed from a group only after the API server itself, not the cache, has said that their pods are gone
  and that the owner still has the generation that was planned for.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_operator.drift import drifted, with_hash
from muster_operator.errors import Conflict, OperatorError, Refused, Transient
from muster_operator.kube.kinds import CERTIFICATE, POD, SECRET, STATEFULSET, WATCHED, kind_of
from muster_operator.kube.views import controller_uid
from muster_operator.naming import HELD_ANNOTATION, ordinal_of
from muster_operator.plan.actions import (
    Action,
    Apply,
    ChangeAuthority,
    ChangeKafka,
    Decommission,
    DeleteChild,
    DeleteClaim,
    DeletePod,
    DeleteUserSecret,
    Drain,
    EnsureSecret,
    EvictPod,
    GrowClaim,
    HoldRollout,
    IssueCertificate,
    Plan,
    PublishTrust,
    RaiseReplication,
    RemoveMembers,
    ReplaceReplica,
    Restart,
    RotateSecret,
    Scale,
    SetFinalizer,
    Undrain,
    WriteUserSecret,
)
from muster_operator.ports import Admin, Clock, Kafka, Kube, Rand
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.certificate_work import CertificateWork
from muster_operator.runtime.claim_growth import ClaimGrowth
from muster_operator.runtime.failure import not_issued
from muster_operator.runtime.kafka_actions import KafkaActions, subject
from muster_operator.runtime.keys import OwnerKey, api_version_of
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.observe_cluster import Access
from muster_operator.runtime.own_secrets import OwnSecrets
from muster_operator.runtime.replacing import Replacing
from muster_operator.runtime.settled import Settled
from muster_operator.world.admin_at import AdminAt
from muster_operator.world.login import Where

_log = logging.getLogger("muster.operator.execute")
Object = Mapping[str, Any]


class OwnerGone(Exception):
    """The object of the plan does not exist any more: nothing is left to do or to report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object that a plan is executed for."""

    key: OwnerKey
    uid: str
    generation: int
    access: Access | None = None
    bootstrap: Where | None = None
    deleting: bool = False
    """Planned for an object that is being deleted: what it has made outside is removed."""


@dataclass(slots=True)
class Done:
    """Result of a pass: action names in order, whether an eviction was forbidden for now, the first volume claim that
    may not grow, the first Certificate that could not be asked for, why a lost replica was not replaced, and why a
    coordinator may not leave."""

    actions: list[str] = field(default_factory=list)
    blocked: bool = False
    refused: Refused | None = None
    not_issued: OperatorError | None = None
    not_replaced: OperatorError | None = None
    not_left: OperatorError | None = None


class Executor:
    def __init__(
        self,
        *,
        kube: Kube,
        admin: Admin,
        kafka: Kafka,
        cache: Cache,
        clock: Clock,
        rand: Rand,
        metrics: Metrics,
        settled: Settled,
    ) -> None:
        self._kube = kube
        self._growth = ClaimGrowth(kube=kube, clock=clock, metrics=metrics)
        self._replacing = Replacing(kube=kube, admin=admin, clock=clock, metrics=metrics)
        self._of_kafka = KafkaActions(kube=kube, kafka=kafka, rand=rand, clock=clock)
        self._secrets = OwnSecrets(kube, rand)
        self._certificates = CertificateWork(kube, clock)
        self._admin = admin
        self._kafka = kafka
        self._cache = cache
        self._rand = rand
        self._metrics = metrics
        self._settled = settled

    async def execute(self, plan: Plan, target: Target) -> Done:
        """Raises OwnerGone, Transient or Refused; completed actions stay."""
        done = Done()
        handlers: dict[type, Callable[[Any, Target, Done], Awaitable[bool]]] = {
            Apply: self._apply, EnsureSecret: self._ensure_secret, DeleteChild: self._delete_child, Drain: self._drain,
            Undrain: self._undrain, EvictPod: self._evict, DeletePod: self._delete_pod,
            RemoveMembers: self._remove_members, GrowClaim: self._grow_claim, HoldRollout: self._hold_rollout,
            ReplaceReplica: self._replace_replica, DeleteClaim: self._delete_claim,
            Decommission: self._decommission, RaiseReplication: self._raise_replication,
            Scale: self._scale, Restart: self._restart,
            SetFinalizer: self._set_finalizer, ChangeKafka: self._change_kafka,
            WriteUserSecret: self._write_user_secret, DeleteUserSecret: self._delete_user_secret,
            RotateSecret: self._rotate_secret, ChangeAuthority: self._change_authority,
            PublishTrust: self._publish_trust, IssueCertificate: self._issue,
        }  # fmt: skip
        checked = False
        for action in plan.actions:
            if not checked and self._writes(action, target):
                await self._check_owner(target)
                checked = True
            name = type(action).__name__
            try:
                acted = await handlers[type(action)](action, target, done)
            except (Transient, Refused):
                self._metrics.action(name, "failed")
                raise
            if acted:
                done.actions.append(name)
                self._metrics.action(name, "done")
                _log.info("acted", extra={"object": "/".join(target.key), "action": name, "on": _subject(action)})
        return done

    def _writes(self, action: Action, target: Target) -> bool:
        return not isinstance(action, Apply) or self._why_apply(action.manifest, target) is not None

    async def _check_owner(self, target: Target) -> None:
        key = target.key
        live = await self._kube.get(
            api_version=api_version_of(key), kind=key.kind, namespace=key.namespace, name=key.name
        )
        if live is None or live["metadata"]["uid"] != target.uid:
            raise OwnerGone
        if live["metadata"].get("deletionTimestamp") and not target.deleting:
            raise OwnerGone
        if int(live["metadata"].get("generation", 0)) != target.generation:
            raise Conflict("SpecChanged", "the spec changed while it was being acted upon")

    def _live(self, manifest: Object, target: Target) -> Object | None:
        return self._cache.get(
            kind_of(manifest["apiVersion"], manifest["kind"]), target.key.namespace, manifest["metadata"]["name"]
        )

    def _why_apply(self, manifest: Object, target: Target) -> str | None:
        """Why the manifest must be sent; None if the live object already has its content."""
        live = self._live(manifest, target)
        if live is None or controller_uid(live) != target.uid:
            return "it is not there, as far as we know"
        return drifted(self._settled.as_intended(live), manifest)

    async def _apply(self, action: Apply, target: Target, done: Done) -> bool:
        if kind_of(action.manifest["apiVersion"], action.manifest["kind"]) != CERTIFICATE:
            return await self._apply_now(action, target)
        try:
            return await self._apply_now(action, target)
        except (Transient, Refused) as error:
            self._metrics.action(type(action).__name__, "failed")
            done.not_issued = done.not_issued or not_issued(action.manifest["metadata"]["name"], error)
            return False

    async def _apply_now(self, action: Apply, target: Target) -> bool:
        manifest = action.manifest
        why = self._why_apply(manifest, target)
        if why is None:
            return False
        known = kind_of(manifest["apiVersion"], manifest["kind"])
        name = manifest["metadata"]["name"]
        live = self._live(manifest, target)
        if live is None or controller_uid(live) != target.uid:
            found = await self._kube.get(
                api_version=known.api_version, kind=known.kind, namespace=target.key.namespace, name=name
            )
            self._check_ours(found, known.kind, name, target)
        applied = await self._kube.apply(with_hash(manifest))
        if known in WATCHED:
            self._cache.observe(known, "MODIFIED", applied)
        self._settled.applied(manifest, applied)
        _log.info("applied", extra={"object": "/".join(target.key), "on": f"{known.kind} {name}", "why": why})
        return True

    def _check_ours(self, found: Object | None, kind: str, name: str, target: Target) -> None:
        if found is None or controller_uid(found) == target.uid:
            return
        references = (found["metadata"].get("ownerReferences")) or ()
        former = any(one.get("kind") == target.key.kind and one.get("name") == target.key.name for one in references)
        if former:
            raise Transient("FormerOwner", f"{kind} {name} still belongs to a deleted {target.key.kind} of this name")
        raise Refused("NameTaken", f"{kind} {name} exists and belongs to another owner; rename it or remove it")

    async def _ensure_secret(self, action: EnsureSecret, target: Target, _: Done) -> bool:
        found = await self._kube.get(
            api_version=SECRET.api_version, kind=SECRET.kind, namespace=action.namespace, name=action.name
        )
        if found is not None:
            return False
        return await self._kube.create(
            {
                "apiVersion": SECRET.api_version,
                "kind": SECRET.kind,
                "metadata": {
                    "name": action.name,
                    "namespace": action.namespace,
                    "labels": dict(action.labels),
                    "ownerReferences": [dict(action.owner_reference)],
                },
                "type": "Opaque",
                "stringData": {**action.beside, action.key: self._rand.token()},
            }
        )

    async def _rotate_secret(self, action: RotateSecret, target: Target, _: Done) -> bool:
        return await self._secrets.rotate(action, namespace=target.key.namespace, owner_uid=target.uid)

    async def _change_authority(self, action: ChangeAuthority, target: Target, _: Done) -> bool:
        return await self._certificates.change_authority(action, owner_uid=target.uid)

    async def _publish_trust(self, action: PublishTrust, target: Target, _: Done) -> bool:
        return await self._certificates.publish_trust(action, owner_uid=target.uid)

    async def _issue(self, action: IssueCertificate, target: Target, _: Done) -> bool:
        return await self._certificates.issue(action, owner_uid=target.uid)

    async def _delete_child(self, action: DeleteChild, target: Target, _: Done) -> bool:
        return await self._kube.delete(
            api_version=action.api_version, kind=action.kind, namespace=target.key.namespace, name=action.name,
            uid=action.uid,
        )  # fmt: skip

    async def _drain(self, action: Drain, target: Target, _: Done) -> bool:
        host, token = _reach(target, action.pod)
        await self._admin.drain(host=host, token=token)
        return True

    async def _undrain(self, action: Undrain, target: Target, _: Done) -> bool:
        host, token = _reach(target, action.pod)
        await self._admin.undrain(host=host, token=token)
        return True

    async def _evict(self, action: EvictPod, target: Target, done: Done) -> bool:
        if await self._kube.evict(namespace=target.key.namespace, pod=action.name, uid=action.uid):
            return True
        done.blocked = True
        return False

    async def _delete_pod(self, action: DeletePod, target: Target, _: Done) -> bool:
        return await self._kube.delete(
            api_version=POD.api_version, kind=POD.kind, namespace=target.key.namespace, name=action.name,
            uid=action.uid, at_once=action.at_once,
        )  # fmt: skip

    async def _replace_replica(self, action: ReplaceReplica, target: Target, done: Done) -> bool:
        access = target.access
        token = access.token if access is not None else None
        if access is None or token is None:
            raise Transient("ReplicaUnreachable", "the coordinators' admin API has no known address or token")
        hosts = {ordinal_of(pod): host for pod, host in access.hosts.items()}
        refused = await self._replacing.replace(action, hosts=hosts, token=token)
        done.not_replaced = done.not_replaced or refused
        return refused is None

    async def _delete_claim(self, action: DeleteClaim, target: Target, done: Done) -> bool:
        found = await self._replacing.delete_claim(action, target.key.namespace)
        if isinstance(found, OperatorError):
            if action.of_lost:
                done.not_replaced = done.not_replaced or found
            else:
                done.not_left = done.not_left or found
            return False
        return found

    async def _decommission(self, action: Decommission, target: Target, done: Done) -> bool:
        access = target.access
        if access is None or access.token is None:
            raise Transient("ReplicaUnreachable", "the coordinators' admin API has no known address or token")
        refused = await self._replacing.decommission(
            action, owner=target.uid, hosts=tuple(access.hosts.values()), token=access.token
        )
        done.not_left = done.not_left or refused
        return refused is None

    async def _raise_replication(self, action: RaiseReplication, target: Target, done: Done) -> bool:
        access = target.access
        if access is None or access.token is None:
            raise Transient("ReplicaUnreachable", "the coordinators' admin API has no known address or token")
        hosts = {ordinal_of(pod): host for pod, host in access.hosts.items()}
        refused = await self._replacing.raise_replication(action, owner=target.uid, hosts=hosts, token=access.token)
        done.not_left = done.not_left or refused
        return refused is None

    async def _grow_claim(self, action: GrowClaim, target: Target, done: Done) -> bool:
        refused = await self._growth.grow(action, target.key.namespace)
        if isinstance(refused, Refused):
            done.refused = done.refused or refused
            return False
        return refused

    async def _hold_rollout(self, action: HoldRollout, target: Target, _: Done) -> bool:
        annotation = None if action.before is None else str(action.before)
        return await self._kube.patch(
            {
                "apiVersion": STATEFULSET.api_version,
                "kind": STATEFULSET.kind,
                "metadata": {
                    "name": action.name,
                    "namespace": target.key.namespace,
                    "uid": action.uid,
                    "annotations": {HELD_ANNOTATION: annotation},
                },
                "spec": {"updateStrategy": {"rollingUpdate": {"partition": action.partition}}},
            }
        )

    async def _scale(self, action: Scale, target: Target, _: Done) -> bool:
        return await self._kube.scale(
            api_version=action.api_version, kind=action.kind, namespace=target.key.namespace, name=action.name,
            replicas=action.replicas,
        )  # fmt: skip

    async def _restart(self, action: Restart, target: Target, _: Done) -> bool:
        return await self._kube.restart(
            api_version=action.api_version, kind=action.kind, namespace=target.key.namespace, name=action.name,
            at=action.at,
        )  # fmt: skip

    async def _remove_members(self, action: RemoveMembers, target: Target, _: Done) -> bool:
        if target.bootstrap is None:
            raise Transient("NoBootstrap", "the group's cluster has no address now")
        for instance in (one.instance_id for one in action.members):
            pod = await self._kube.get(
                api_version=POD.api_version, kind=POD.kind, namespace=target.key.namespace, name=instance
            )
            if pod is not None:
                raise Conflict("PodExists", f"pod {instance} exists, so its member stays in the group")
        await self._kafka.remove_members(bootstrap=target.bootstrap, group_id=action.group_id, members=action.members)
        return True

    async def _set_finalizer(self, action: SetFinalizer, target: Target, _: Done) -> bool:
        return await self._of_kafka.set_finalizer(action, target.key, target.uid)

    async def _change_kafka(self, action: ChangeKafka, target: Target, _: Done) -> bool:
        return await self._of_kafka.change(action, target.bootstrap, target.key.namespace)

    async def _write_user_secret(self, action: WriteUserSecret, target: Target, _: Done) -> bool:
        return await self._of_kafka.write_secret(action, target.key, target.uid)

    async def _delete_user_secret(self, action: DeleteUserSecret, target: Target, _: Done) -> bool:
        return await self._of_kafka.delete_secret(action, target.key, target.uid)


def _reach(target: Target, pod: str) -> tuple[AdminAt, str]:
    access = target.access
    host = access.hosts.get(pod) if access else None
    if access is None or host is None or access.token is None:
        raise Transient("ReplicaUnreachable", f"the admin API of {pod} has no known address or token")
    return host, access.token


def _subject(action: Action) -> str:
    """The object of an action, for the log; never the content of a manifest."""
    match action:
        case Apply():
            return f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
        case EnsureSecret() | RotateSecret():
            return f"Secret {action.name}"
        case ChangeAuthority() | PublishTrust() | IssueCertificate():
            return f"Secret {action.secret.name}"
        case DeleteChild():
            return f"{action.kind} {action.name}"
        case Drain() | Undrain():
            return f"Pod {action.pod}"
        case ReplaceReplica():
            return f"Pod {action.pod}: data folder {action.folder}"
        case Decommission():
            return f"Pod {action.pod}: {'to leave' if action.departing else 'to stay'}"
        case RaiseReplication():
            return f"{action.factor} replicas of every Raft group"
        case DeleteClaim() | GrowClaim() | EvictPod() | DeletePod():
            return f"{'Pod' if isinstance(action, EvictPod | DeletePod) else 'PersistentVolumeClaim'} {action.name}"
        case HoldRollout():
            return f"StatefulSet {action.name}: partition {action.partition}"
        case Scale() | Restart():
            told = action.at if isinstance(action, Restart) else f"{action.replicas} replicas"
            return f"{action.kind} {action.name}: {told}"
        case SetFinalizer() | ChangeKafka() | WriteUserSecret() | DeleteUserSecret():
            return subject(action)
        case RemoveMembers():
            return f"group {action.group_id}: {', '.join(one.instance_id for one in action.members)}"
