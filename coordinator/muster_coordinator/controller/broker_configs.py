"""Settings of brokers that are in the controller's log: how fast copies of partitions may be made (ADR 46). Pure.

Problem: `kafka-reassign-partitions --throttle` sets two rates on each broker that takes part in a move, and takes them
away when it is complete. They have to outlive restarts and to be known to both sides of a copy. Mechanism: a table of
what may be set, as `topic_configs` has it for topics, and the overrides of each broker in the image. `EVERY_BROKER`
stands for the defaults of all brokers, Kafka's resource without a name. What this does not do: keep to the rates
(`replica.multiraft.throttle`), or change what stands in a broker's configuration file.
"""

from collections.abc import Mapping
from dataclasses import replace

from muster_coordinator.controller.commands import AlterBrokerConfigs
from muster_coordinator.controller.image import EVERY_BROKER, ClusterImage
from muster_coordinator.controller.limits import THROTTLE_BYTES_PER_SECOND_MIN
from muster_coordinator.controller.misfit import MisfitError, require, with_, without
from muster_coordinator.controller.topic_configs import LONG_MAX, integer_error
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
BROKER_CONFIGS: Mapping[str, str] = {
    FOLLOWER_RATE: "Bytes a second that this broker takes in all to copy replicas, at most.",
    LEADER_RATE: "Bytes a second that this broker sends in all to replicas that are copied from it, at most.",
}
"""Name -> what it does. Each is a whole number, and there is no limit while it is not set."""


def broker_config_error(name: str, value: str) -> str | None:
    """Why `value` is not valid as the setting `name` (error 40), or None."""
    if name not in BROKER_CONFIGS:
        return f"{name} is not changed while a broker runs"
    error = integer_error(value, THROTTLE_BYTES_PER_SECOND_MIN, LONG_MAX)
    return None if error is None else f"{name}: {error}"


def alter_broker_configs(cluster: ClusterImage, command: AlterBrokerConfigs) -> ClusterImage:
    """The image with the broker's new settings; the same object if it has them already. Raises `MisfitError`."""
    broker = command.broker
    if broker != EVERY_BROKER and broker not in cluster.brokers:
        raise MisfitError(Code.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    configs = tuple(sorted(command.configs))
    require(len(dict(configs)) == len(configs), Code.INVALID_CONFIG, "a config is given twice")
    known = cluster.broker_configs.get(broker, ())
    require(
        known == tuple(sorted(command.expected)),
        Code.INVALID_REQUEST,
        f"the configs of {named(broker)} were changed meanwhile",
    )
    if configs == known:
        return cluster
    changed = with_(cluster.broker_configs, broker, configs) if configs else without(cluster.broker_configs, broker)
    return replace(cluster, broker_configs=changed)


def named(broker: BrokerId) -> str:
    """For people."""
    return "all brokers" if broker == EVERY_BROKER else f"broker {broker}"


def rate_of(cluster: ClusterImage | None, broker: BrokerId, name: str) -> int | None:
    """Bytes a second that hold for the broker: its own, else that of all brokers. None: there is no limit."""
    if cluster is None:
        return None
    for one in (broker, EVERY_BROKER):
        for known, value in cluster.broker_configs.get(one, ()):
            if known == name:
                return int(value)
    return None
