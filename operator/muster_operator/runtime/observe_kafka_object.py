"""Observes one Topic or User: its cluster's address and login, what the cluster has, its Secret.

Few requests a pass: one or two to the cluster for a topic, one for each of credentials, ACLs and quotas that a user
has; for a user one to the API server for each of its Secrets. None are sent for the younger of two objects of one name.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from muster_operator import naming
from muster_operator.api.topic import TopicSpec, parse_topic
from muster_operator.api.user import UserSpec, parse_user
from muster_operator.errors import OperatorError
from muster_operator.kube.kinds import CLUSTER, SECRET
from muster_operator.kube.views import controller_uid, owner_view
from muster_operator.plan.rivals import namesake_elder_of
from muster_operator.plan.user import secret_name, user_name
from muster_operator.ports import Clock, Kafka, Kube
from muster_operator.runtime.cache import Cache
from muster_operator.runtime.kafka_actions import version_of
from muster_operator.runtime.keys import OwnerKey
from muster_operator.runtime.logins import Logins
from muster_operator.runtime.observe_certificates import AUTHORITY_KEYS, authority_view, certificate_of
from muster_operator.runtime.own_clusters import OwnClusters, Reached
from muster_operator.runtime.x509 import Unreadable
from muster_operator.world.certificates import AuthorityView, CertificateView, Damaged
from muster_operator.world.kafka_object import SecretView, TopicView, TopicWorld, UserView, UserWorld
from muster_operator.world.views import Unknown

Object = Mapping[str, Any]


class _Issuing(NamedTuple):
    """The CA of a user's certificate, its owner's uid, and how long certificates live."""

    authority: AuthorityView | Damaged | Unknown | None = None
    owner: str = ""
    days: int = 0


_NOT_ASKED = Unknown(reason="NotObserved", message="it was not asked")


class KafkaObjects:
    def __init__(
        self, *, kube: Kube, kafka: Kafka, cache: Cache, clock: Clock, logins: Logins, own_clusters: OwnClusters
    ) -> None:
        self._kube, self._kafka, self._cache, self._clock, self._logins = kube, kafka, cache, clock, logins
        self._own_clusters = own_clusters

    async def topic(self, key: OwnerKey, live: Object) -> TopicWorld:
        """Raises InvalidObject, Transient or Refused."""
        spec = parse_topic(live)
        name = spec.topic_name or key.name
        elder = namesake_elder_of(live, self._cache.namesakes(live))
        reached = await self._reach(key, spec)
        cluster = reached.where
        topic: TopicView | Unknown | None = _NOT_ASKED
        if elder is None and not isinstance(cluster, Unknown):
            topic = await self._kafka.topic(where=cluster, name=name)
            self._logins.distrust(key.namespace, reached.asked_as, topic)
        return TopicWorld(
            owner=owner_view(live), spec=spec, name=name, bootstrap=reached.bootstrap, where=cluster, topic=topic,
            elder=elder, cluster_gone=await self._gone(key, spec, live), now_ms=self._clock.wall_ms(),
        )  # fmt: skip

    async def user(self, key: OwnerKey, live: Object) -> UserWorld:
        """Raises InvalidObject, Transient or Refused."""
        spec, owner = parse_user(live), owner_view(live)
        name = user_name(spec, key.name)
        elder = namesake_elder_of(live, self._cache.namesakes(live))
        reached = await self._reach(key, spec, spec.authentication.type)
        cluster = reached.where
        authorities = await self._own_clusters.authorities(key.namespace, reached.clients)
        status = owner.status
        user: UserView | Unknown = _NOT_ASKED
        if elder is None and not isinstance(cluster, Unknown):
            user = await self._kafka.user(
                where=cluster, name=name, principal=f"User:{name}",
                credentials=bool(spec.authentication.mechanism or status.get("mechanism")),
                acls=bool(spec.acls or status.get("acls")),
                quotas=bool(spec.quotas.by_key or status.get("quotas")),
            )  # fmt: skip
            self._logins.distrust(key.namespace, reached.asked_as, user)
        source = spec.authentication.password_secret
        issuing = await self._authority(key, spec)
        own = secret_name(spec, key.name, issued=issuing.authority is not None)
        lives = not owner.deleting
        return UserWorld(
            owner=owner, spec=dataclasses.replace(spec, tls=reached.clients.tls), name=name,
            bootstrap=reached.bootstrap, where=cluster, user=user, elder=elder,
            cluster_gone=await self._gone(key, spec, live), now_ms=self._clock.wall_ms(),
            secret=await self._secret(key.namespace, own, owner.uid) if own and lives else None,
            password=await self._secret(key.namespace, source.name, owner.uid) if source and lives else None,
            authorities=authorities, authority=issuing.authority, authority_owner=issuing.owner,
            certificate_days=issuing.days,
        )  # fmt: skip

    async def _authority(self, key: OwnerKey, spec: UserSpec) -> _Issuing:
        """Of the user's certificate, if the operator issues it."""
        if spec.authentication.type != "tls" or spec.cluster_ref is None:
            return _Issuing()
        found = self._own_clusters.clients_authority(key.namespace, spec.cluster_ref.name)
        if found is None or isinstance(found, Unknown):
            return _Issuing(found)
        (uid, cluster), name = found, naming.clients_ca(spec.cluster_ref.name)
        try:
            live = await self._kube.get(
                api_version=SECRET.api_version, kind=SECRET.kind, namespace=key.namespace, name=name
            )
        except OperatorError as error:
            return _Issuing(Unknown(reason=error.reason, message=f"Secret {name}: {error.message}"))
        if live is None:
            return _Issuing(Unknown(reason="SecretNotFound", message=f"Secret {name} is not made yet"))
        if controller_uid(live) != uid:
            return _Issuing(Damaged(name=name, problem="it belongs to another owner"))
        return _Issuing(authority_view(live), uid, cluster.certificates.certificate_days)

    async def _reach(self, key: OwnerKey, spec: TopicSpec | UserSpec, kind: str | None = None) -> Reached:
        return await self._own_clusters.reach(
            key.namespace, spec.cluster_ref.name if spec.cluster_ref else None, spec.access,
            bootstrap=spec.bootstrap_servers, kind=kind,
        )  # fmt: skip

    async def _gone(self, key: OwnerKey, spec: TopicSpec | UserSpec, live: Object) -> bool:
        """The API server itself says that the CoordinatorCluster does not exist. Asked only when it decides something:
        for an object that is being deleted, of a cluster that the cache does not have."""
        if spec.cluster_ref is None or not live["metadata"].get("deletionTimestamp"):
            return False
        name = spec.cluster_ref.name
        if self._cache.get(CLUSTER, key.namespace, name) is not None:
            return False
        found = await self._kube.get(
            api_version=CLUSTER.api_version, kind=CLUSTER.kind, namespace=key.namespace, name=name
        )
        return found is None

    async def _secret(self, namespace: str, name: str, owner_uid: str) -> SecretView | Unknown | None:
        try:
            found = await self._kube.get(
                api_version=SECRET.api_version, kind=SECRET.kind, namespace=namespace, name=name
            )
        except OperatorError as error:
            return Unknown(reason=error.reason, message=f"Secret {name}: {error.message}")
        if found is None:
            return None
        annotations = found["metadata"].get("annotations") or {}
        return SecretView(
            name=name,
            version=version_of(found),
            owned=controller_uid(found) == owner_uid,
            settings_hash=str(annotations.get(naming.SETTINGS_HASH_ANNOTATION) or ""),
            certificate=_held(found),
        )


def _held(secret: Object) -> CertificateView | None:
    """What cannot be used is as good as none: the operator issues another one."""
    try:
        return certificate_of(secret, *AUTHORITY_KEYS)
    except Unreadable:
        return None
