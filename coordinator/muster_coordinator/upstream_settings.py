"""The keys of groups beside an existing Kafka, which `settings.Settings` inherits."""

# ruff: noqa: RUF009  # a key is a dataclass field with metadata

from dataclasses import dataclass

from muster_coordinator.setting_field import setting
from muster_coordinator.setting_values import WILDCARDS, Listener, integer, parse_address, parse_listeners
from muster_coordinator.upstream.limits import BOOTSTRAP_MAX
from muster_coordinator.upstream.node_ids import NodeIds, parse_node_ids

KAFKA = "kafka"
_PORT_MAX = 65_535


def _servers(text: str) -> tuple[tuple[str, int], ...]:
    found = tuple(parse_address(part.strip()) for part in text.split(",") if part.strip())
    if len(found) > BOOTSTRAP_MAX:
        raise ValueError(f"more than {BOOTSTRAP_MAX} addresses")
    return found


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

    @property
    def upstream_told(self) -> tuple[Listener, ...]:
        """Where clients are told that each listener's ports begin."""
        named = {listener.name: listener for listener in self.upstream_advertised}
        return tuple(named.get(listener.name, listener) for listener in self.upstream_listeners)

    def upstream_problem(self, mode: str, listeners: tuple[Listener, ...], *, authorizes: bool) -> str:
        """Why these values do not go together; "": they do."""
        if mode != KAFKA:
            given = self.upstream_servers or self.upstream_listeners or self.upstream_advertised
            return "upstream.* need topics.mode=kafka" if given else ""
        if not self.upstream_servers:
            return "topics.mode=kafka needs upstream.bootstrap.servers"
        if authorizes:
            return (
                "authorizer.class.name: with topics.mode=kafka records are passed on unopened, so nobody here can "
                "judge who may read which topic"
            )
        return self._listener_problem(listeners) or self._id_problem()

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

    def _id_problem(self) -> str:
        if max(self.upstream_nodes.ids) >= self.upstream_coordinator_base:
            return "upstream.node.ids reaches upstream.coordinator.node.id.base"
        return ""
