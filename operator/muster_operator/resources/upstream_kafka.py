"""What `spec.topics.kafka` makes of the settings file and of the pods: keys, ports, the login's variables, files.

Problem: each listener needs a port for each broker that the Kafka may have, in every pod the same, and a change of
something else must not move them, because clients keep addresses. Mechanism: ports from 20000 on are blocks of 200, as
many as there may be brokers. Each listener has a block, in the order of `spec.listeners`; a block with the port of a
listener of its own is left out. So neither more `nodeIds` nor a listener that is added at the end moves a port. They
stay below 24000, beneath node ports and what the kernel gives to connections.

The settings file holds neither user nor password: `${env:UPSTREAM_PASSWORD}` stands in it, and the pod's variable is
the Secret's key. Keys are written for every release; which one does not know them is judged in `plan.refused_image`.

What this does not do: publish the ports in a Service. Clients are told the pods' own names, which lead to all of their
ports.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from muster_operator import naming
from muster_operator.api.cluster import ClusterSpec, Listener
from muster_operator.api.upstream_kafka import NODES_MAX, KafkaStore
from muster_operator.resources.client_login import LOGIN_MODULES
from muster_operator.resources.owned import Manifest
from muster_operator.resources.secured import Mounted

FIRST_PORT: Final = 20_000
END_PORT: Final = 24_000
"""Twenty blocks. At most eight listeners have one, and the ports of the eight are in at most eight others."""
PASSWORD_VARIABLE: Final = "UPSTREAM_PASSWORD"
TLS_DIR: Final = "/etc/muster-upstream/tls"
TRUST_DIR: Final = "/etc/muster-upstream/trust"


def _kafka(spec: ClusterSpec) -> KafkaStore | None:
    return None if spec.topics is None else spec.topics.kafka


def ports(spec: ClusterSpec) -> Mapping[str, range]:
    """Name of each listener → its ports for the brokers, in the order of `nodeIds`. {} without an existing Kafka."""
    kafka = _kafka(spec)
    if kafka is None:
        return {}
    used = {listener.port for listener in spec.listeners}
    free = (
        first for first in range(FIRST_PORT, END_PORT, NODES_MAX) if used.isdisjoint(range(first, first + NODES_MAX))
    )
    count = len(kafka.ids)
    return {listener.name: range(first, first + count) for listener, first in zip(spec.listeners, free, strict=False)}


def settings(spec: ClusterSpec, *, host: str) -> dict[str, str]:
    """`host`: as clients reach the pod. Nothing without an existing Kafka."""
    kafka = _kafka(spec)
    if kafka is None:
        return {}
    firsts = {name.upper(): numbers[0] for name, numbers in ports(spec).items()}
    found = {
        "upstream.bootstrap.servers": kafka.bootstrap_servers,
        "upstream.node.ids": kafka.node_ids,
        "upstream.listeners": ",".join(f"{name}://0.0.0.0:{first}" for name, first in firsts.items()),
        "upstream.advertised.listeners": ",".join(f"{name}://{host}:{first}" for name, first in firsts.items()),
        "upstream.security.protocol": kafka.protocol,
    }
    who, tls = kafka.authentication, kafka.tls
    if who is not None:
        found["upstream.sasl.mechanism"] = who.mechanism
        found["upstream.sasl.jaas.config"] = (
            f'{LOGIN_MODULES[who.type]} required username="${{env:{naming.UPSTREAM_USERNAME}}}"'
            f' password="${{env:{PASSWORD_VARIABLE}}}";'
        )
    if kafka.pass_logins_on:
        found["upstream.sasl.passthrough.enable"] = "true"
    if tls is not None and tls.trusted_secret_name is not None:
        found["upstream.ssl.truststore.location"] = f"{TRUST_DIR}/ca.crt"
    if tls is not None and tls.certificate_secret_name is not None:
        found["upstream.ssl.keystore.location"] = f"{TLS_DIR}/tls.crt"
        found["upstream.ssl.key.location"] = f"{TLS_DIR}/tls.key"
    return found


def environment(spec: ClusterSpec) -> list[Manifest]:
    """Variables of every container that reads the settings file."""
    kafka = _kafka(spec)
    if kafka is None or kafka.authentication is None:
        return []
    secret = kafka.authentication.secret.name
    keys = {naming.UPSTREAM_USERNAME: naming.USERNAME_KEY, PASSWORD_VARIABLE: naming.PASSWORD_KEY}
    return [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for variable, key in keys.items()
    ]


def mounted(spec: ClusterSpec) -> Iterator[Mounted]:
    kafka = _kafka(spec)
    tls = None if kafka is None else kafka.tls
    if tls is None:
        return
    if tls.trusted_secret_name is not None:
        yield Mounted("upstream-trust", tls.trusted_secret_name, TRUST_DIR, {naming.CA_KEY: "ca.crt"})
    if tls.certificate_secret_name is not None:
        files = {naming.CERTIFICATE_KEY: "tls.crt", naming.PRIVATE_KEY: "tls.key"}
        yield Mounted("upstream-tls", tls.certificate_secret_name, TLS_DIR, files)


def container_ports(spec: ClusterSpec) -> list[Manifest]:
    """Without names, which would have to be of at most 15 characters."""
    return [{"containerPort": number, "protocol": "TCP"} for numbers in ports(spec).values() for number in numbers]


def policy_ports(spec: ClusterSpec, listeners: tuple[Listener, ...]) -> list[Manifest]:
    """The ports of these listeners, in a NetworkPolicy: a range each."""
    found = ports(spec)
    chosen = [found[listener.name] for listener in listeners if listener.name in found]
    return [{"port": numbers[0], "endPort": numbers[-1], "protocol": "TCP"} for numbers in chosen]
