"""What `spec.topics` makes of the settings file and of the pods: keys, the password's variable, files of certificates.

The file holds no password: `${env:REDIS_PASSWORD}` stands in it, and the pod's variable is the Secret's key; so it is
with that of Sentinels. Keys are written for every release, since one that does not know topics in Redis must not start
without them.
"""

from collections.abc import Iterator
from typing import Final

from muster_operator import naming
from muster_operator.api.cluster import ClusterSpec
from muster_operator.api.topic_store import RedisLogin, RedisStore
from muster_operator.resources.owned import Manifest
from muster_operator.resources.secured import Mounted

PASSWORD_VARIABLE: Final = "REDIS_PASSWORD"
SENTINEL_PASSWORD_VARIABLE: Final = "REDIS_SENTINEL_PASSWORD"
TLS_DIR: Final = "/etc/muster-redis/tls"
TRUST_DIR: Final = "/etc/muster-redis/trust"


def settings(spec: ClusterSpec) -> dict[str, str]:
    """Nothing without `spec.topics`: what stands in `spec.config`, or the coordinator's default, holds then."""
    if spec.topics is None:
        return {}
    found = {"topics.mode": spec.topics.mode}
    redis = spec.topics.redis
    if redis is None:
        return found
    told = {
        "redis.url": redis.url,
        "redis.cluster.nodes": redis.cluster_nodes,
        "redis.prefix": redis.prefix,
        "redis.durability": redis.durability,
        "redis.wait.replicas": None if redis.wait_replicas is None else str(redis.wait_replicas),
    }
    found |= {key: value for key, value in told.items() if value is not None}
    if redis.sentinels is not None:
        found["redis.sentinels"] = redis.sentinels.addresses
    for prefix, (variable, login) in _logins(redis).items():
        if login.username is not None:
            found[f"{prefix}.username"] = login.username
        found[f"{prefix}.password"] = f"${{env:{variable}}}"
    if redis.tls is not None and redis.tls.trusted_secret_name is not None:
        found["redis.ssl.ca.location"] = f"{TRUST_DIR}/ca.crt"
    if redis.tls is not None and redis.tls.secret_name is not None:
        found["redis.ssl.certificate.location"] = f"{TLS_DIR}/tls.crt"
        found["redis.ssl.key.location"] = f"{TLS_DIR}/tls.key"
    return found


def _logins(redis: RedisStore) -> dict[str, tuple[str, RedisLogin]]:
    """How settings of a login begin → the variable of its password, and the login."""
    found = {}
    if redis.authentication is not None:
        found["redis"] = (PASSWORD_VARIABLE, redis.authentication)
    if redis.sentinels is not None and redis.sentinels.authentication is not None:
        found["redis.sentinel"] = (SENTINEL_PASSWORD_VARIABLE, redis.sentinels.authentication)
    return found


def environment(spec: ClusterSpec) -> list[Manifest]:
    """Variables of every container that reads the settings file."""
    redis = None if spec.topics is None else spec.topics.redis
    if redis is None:
        return []
    return [
        {
            "name": variable,
            "valueFrom": {"secretKeyRef": {"name": login.password_secret_name, "key": naming.PASSWORD_KEY}},
        }
        for variable, login in _logins(redis).values()
    ]


def mounted(spec: ClusterSpec) -> Iterator[Mounted]:
    tls = None if spec.topics is None or spec.topics.redis is None else spec.topics.redis.tls
    if tls is None:
        return
    if tls.trusted_secret_name is not None:
        yield Mounted("redis-trust", tls.trusted_secret_name, TRUST_DIR, {naming.CA_KEY: "ca.crt"})
    if tls.secret_name is not None:
        files = {naming.CERTIFICATE_KEY: "tls.crt", naming.PRIVATE_KEY: "tls.key"}
        yield Mounted("redis-tls", tls.secret_name, TLS_DIR, files)
