"""The keys of groups beside an existing Kafka, which `settings.Settings` inherits."""

# ruff: noqa: RUF009  # a key is a dataclass field with metadata

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from muster_coordinator.security.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from muster_coordinator.security.protocol import SecurityProtocol
from muster_coordinator.security.session import OAUTHBEARER, PLAIN, SCRAM_SHA_512, ListenerSasl
from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import (
    WILDCARDS,
    Listener,
    Parser,
    boolean,
    integer,
    is_loopback,
    one_of,
    parse_address,
    parse_listeners,
)
from muster_coordinator.upstream.account import MECHANISMS, Account
from muster_coordinator.upstream.limits import BOOTSTRAP_MAX
from muster_coordinator.upstream.node_ids import NodeIds, parse_node_ids

KAFKA = "kafka"
_MODULES = {PLAIN_MODULE: PLAIN, SCRAM_MODULE: SCRAM_SHA_512}
_PORT_MAX = 65_535


def _servers(text: str) -> tuple[tuple[str, int], ...]:
    found = tuple(parse_address(part.strip()) for part in text.split(",") if part.strip())
    if len(found) > BOOTSTRAP_MAX:
        raise ValueError(f"more than {BOOTSTRAP_MAX} addresses")
    return found


def _protocol(text: str) -> SecurityProtocol:
    if text not in SecurityProtocol.__members__:
        raise ValueError(f"not one of {', '.join(SecurityProtocol.__members__)}")
    return SecurityProtocol[text]


def _location(text: str) -> Path | None:
    return Path(text) if text else None


def _jaas(text: str) -> Account | None:
    if not text:
        return None
    login = parse_jaas(text)
    if login.module not in _MODULES:
        raise ValueError(f"the login module is neither {PLAIN_MODULE} nor {SCRAM_MODULE}")
    if not login.options.keys() >= {"username", "password"}:
        raise ValueError("username and password are needed")
    return Account(_MODULES[login.module], login.options["username"], login.options["password"])


def _unshown(name: str, parse: Parser, text: str) -> Any:  # noqa: ANN401  # typed where it is assigned
    """A key whose value is shown nowhere, and that may be left out."""
    metadata = {"key": name, "parse": parse, "default": "", "text": text, "secret": True}
    return field(default_factory=lambda: parse(""), repr=False, metadata=metadata)


_SHOWING = {PLAIN: "password", OAUTHBEARER: "token"}
"""Mechanism -> what it sends as it is."""


@dataclass(frozen=True, kw_only=True)
class UpstreamKeys:
    """The part of `Settings` that is about an upstream Kafka."""

    upstream_servers: tuple[tuple[str, int], ...] = setting(
        "upstream.bootstrap.servers",
        _servers,
        "",
        "Some brokers of the Kafka whose topics are used with `topics.mode=kafka`, as host:port,...; all replicas need "
        "the same Kafka.",
    )
    upstream_nodes: NodeIds = setting(
        "upstream.node.ids",
        parse_node_ids,
        "0-8",
        "Ids that brokers of that Kafka have or may get, as 0-8,1001-1003, in an order that never changes: each has a "
        "port here. A broker with another id cannot be reached by clients.",
    )
    upstream_listeners: tuple[Listener, ...] = setting(
        "upstream.listeners",
        parse_listeners,
        "",
        "For each of `listeners` the first port of those that stand for the brokers of that Kafka, as "
        "NAME://host:port: the next ids have the next ports.",
    )
    upstream_advertised: tuple[Listener, ...] = setting(
        "upstream.advertised.listeners",
        parse_listeners,
        "",
        "The same as clients reach them; empty: `upstream.listeners`.",
    )
    upstream_coordinator_base: int = setting(
        "upstream.coordinator.node.id.base",
        integer(1_000, 2_000_000_000),
        "1000000",
        "Clients know this cluster's replicas by their ids and this number, so that they are none of that Kafka's.",
    )

    upstream_protocol: SecurityProtocol = setting(
        "upstream.security.protocol",
        _protocol,
        "PLAINTEXT",
        "How that Kafka is spoken to: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Certificate and name of its brokers "
        "are always verified.",
    )
    upstream_truststore: Path | None = setting(
        "upstream.ssl.truststore.location",
        _location,
        "",
        "PEM file of authorities of which one has issued its brokers' certificates; empty: those of the system. The "
        "files are looked at for each new connection.",
    )
    upstream_keystore: Path | None = setting(
        "upstream.ssl.keystore.location",
        _location,
        "",
        "PEM file of the private key and certificate chain that replicas show to it; empty: none.",
    )
    upstream_key: Path | None = setting(
        "upstream.ssl.key.location",
        _location,
        "",
        "PEM file of that private key, if it is not in `upstream.ssl.keystore.location`.",
    )
    upstream_key_password: str = _unshown(
        "upstream.ssl.key.password",
        lambda text: text,
        "Password of that private key, if it is encrypted.",
    )
    upstream_mechanism: str = setting(
        "upstream.sasl.mechanism", one_of("", *MECHANISMS), "", f"With SASL: {', '.join(MECHANISMS)}."
    )
    upstream_account: Account | None = _unshown(
        "upstream.sasl.jaas.config",
        _jaas,
        "User and password that replicas have there, as Kafka's clients write them: a login module, `required`, "
        "username and password. All clients have the rights of this user.",
    )

    upstream_passes_logins: bool = setting(
        "upstream.sasl.passthrough.enable",
        boolean,
        "false",
        "Each client logs in at that Kafka itself: what it sends is passed on, and its user has his own rights there. "
        "Nobody here judges who may log in then, and `upstream.sasl.jaas.config` is for the replicas alone. Of tokens "
        "(OAUTHBEARER) `sasl.oauthbearer.sub.claim.name` must name the claim that that Kafka takes for the user.",
    )

    @property
    def upstream_told(self) -> tuple[Listener, ...]:
        """Where clients are told that each listener's ports begin."""
        named = {listener.name: listener for listener in self.upstream_advertised}
        return tuple(named.get(listener.name, listener) for listener in self.upstream_listeners)

    def upstream_problem(self, mode: str, listeners: tuple[Listener, ...], asks: Callable[[str], bool]) -> str:
        """Why these values do not go together; "": they do. `asks`: does this listener ask its clients who they are?"""
        if mode != KAFKA:
            named = self.upstream_servers or self.upstream_listeners or self.upstream_advertised
            return "upstream.* need topics.mode=kafka" if named or self.upstream_passes_logins else ""
        if not self.upstream_servers:
            return "topics.mode=kafka needs upstream.bootstrap.servers"
        if problem := self._security_problem():
            return problem
        return self._listener_problem(listeners) or self._open_problem(asks) or self._id_problem()

    @property
    def upstream_login(self) -> Account | None:
        """Who replicas are there by SASL."""
        account = self.upstream_account
        return None if account is None else replace(account, mechanism=self.upstream_mechanism)

    @property
    def upstream_knows_us(self) -> bool:
        """Are replicas somebody there, whose rights all clients have?"""
        return self.upstream_protocol.sasl or self.upstream_keystore is not None

    def passthrough_problem(self, listener: str, offered: ListenerSasl | None) -> str:
        """Why clients of this listener cannot log in at the upstream themselves; "": they can, or are not to."""
        if not self.upstream_passes_logins:
            return ""
        if offered is None:
            return (
                f"listener {listener} has no SASL, so with upstream.sasl.passthrough.enable its clients have no login "
                "that could be passed on"
            )
        for mechanism, shows in _SHOWING.items():
            if mechanism in offered.mechanisms and not self.upstream_protocol.tls:
                return (
                    f"listener {listener} offers {mechanism}, which shows the {shows}: with "
                    "upstream.sasl.passthrough.enable it needs upstream.security.protocol=SASL_SSL"
                )
        return ""

    def _security_problem(self) -> str:
        protocol, account = self.upstream_protocol, self.upstream_account
        if self.upstream_passes_logins and not protocol.sasl:
            return "upstream.sasl.passthrough.enable needs upstream.security.protocol=SASL_SSL or SASL_PLAINTEXT"
        if not protocol.tls and (self.upstream_truststore or self.upstream_keystore or self.upstream_key):
            return "upstream.ssl.* need upstream.security.protocol=SSL or SASL_SSL"
        if self.upstream_key and not self.upstream_keystore:
            return "upstream.ssl.key.location needs upstream.ssl.keystore.location"
        if protocol.sasl != bool(self.upstream_mechanism):
            return "upstream.sasl.mechanism belongs to upstream.security.protocol=SASL_SSL or SASL_PLAINTEXT"
        if protocol.sasl != (account is not None):
            return "upstream.sasl.jaas.config belongs to upstream.security.protocol=SASL_SSL or SASL_PLAINTEXT"
        if account is None:
            return ""
        if (account.mechanism == PLAIN) != (self.upstream_mechanism == PLAIN):
            return "upstream.sasl.jaas.config has the login module of another mechanism"
        if not protocol.tls and account.mechanism == PLAIN:
            return "upstream.sasl.mechanism=PLAIN shows the password: it needs upstream.security.protocol=SASL_SSL"
        return ""

    def _listener_problem(self, listeners: tuple[Listener, ...]) -> str:
        names, given = {one.name for one in listeners}, {one.name for one in self.upstream_listeners}
        if names != given:
            odd = min(names ^ given)
            return f"upstream.listeners: {odd} must be in it and in listeners, or in neither"
        for listener in self.upstream_advertised:
            if listener.name not in given:
                return f"upstream.advertised.listeners names {listener.name}, which is not in upstream.listeners"
        for listener in self.upstream_told:
            if listener.host in WILDCARDS:
                return f"upstream.advertised.listeners: clients cannot connect to {listener.host} ({listener.name})"
        for key, told in (
            ("upstream.listeners", self.upstream_listeners),
            ("upstream.advertised.listeners", self.upstream_told),
        ):
            for listener in told:
                if listener.port == 0 or listener.port + len(self.upstream_nodes.ids) - 1 > _PORT_MAX:
                    return f"{key}: {listener.name} has no port for each of upstream.node.ids"
        return ""

    def _open_problem(self, asks: Callable[[str], bool]) -> str:
        """Whoever reaches a listener has the rights of the replicas' user there, so it is to ask who that is."""
        for listener in self.upstream_listeners if self.upstream_knows_us else ():
            if not asks(listener.name) and not is_loopback(listener.host):
                return (
                    f"listener {listener.name} asks nobody who he is, and all of its clients would have the rights of "
                    "the user that upstream.sasl.jaas.config or upstream.ssl.keystore.location names: give it SASL or "
                    "ssl.client.auth=required, or let it listen on loopback only"
                )
        return ""

    def _id_problem(self) -> str:
        if max(self.upstream_nodes.ids) >= self.upstream_coordinator_base:
            return "upstream.node.ids reaches upstream.coordinator.node.id.base"
        return ""
