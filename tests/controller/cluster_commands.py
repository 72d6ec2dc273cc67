"""Commands and a small driver for the controller's tests."""

from muster_coordinator.controller.codec import encode_command
from muster_coordinator.controller.commands import Command, CommandResult, CreateTopic, FormCluster, RegisterBroker
from muster_coordinator.controller.image import ClusterImage, Endpoint
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.ids import BrokerId

CLUSTER_ID = "AbCdEfGhIjKlMnOpQrStUv"
OFFSETS_TOPIC_ID = b"o" * 16
VOTERS = (BrokerId(0), BrokerId(1), BrokerId(2))


def topic_id(n: int) -> bytes:
    return n.to_bytes(16, "big")


def form(*, voters: tuple[BrokerId, ...] = VOTERS, partitions: int = 4, feature_level: int = 1) -> FormCluster:
    return FormCluster(
        cluster_id=CLUSTER_ID,
        voters=voters,
        offsets_partitions=partitions,
        offsets_topic_id=OFFSETS_TOPIC_ID,
        feature_level=feature_level,
    )


def register(
    broker: int, *, uuid: bytes | None = None, incarnation: int = 1, feature_max: int = 1, host: str = "localhost"
) -> RegisterBroker:
    return RegisterBroker(
        broker=BrokerId(broker),
        replica_uuid=uuid or bytes([broker + 1]) * 16,
        incarnation=incarnation,
        endpoints=(Endpoint(listener="PLAINTEXT", host=host, port=9092 + broker),),
        admin=f"{host}:{8081 + broker}",
        feature_max=feature_max,
    )


def create(name: str, *, n: int = 1, partitions: int = 1, configs: tuple[tuple[str, str], ...] = ()) -> CreateTopic:
    return CreateTopic(name=name, topic_id=topic_id(n), partitions=partitions, configs=configs)


class Log:
    """A machine that gets each command as the next entry of its log."""

    def __init__(self, *commands: Command) -> None:
        self.machine = ControllerMachine()
        self.entries: list[bytes] = []
        for command in commands:
            assert self.apply(command).error == 0, command

    def apply(self, command: Command) -> CommandResult:
        data = encode_command(command)
        self.entries.append(data)
        return self.machine.apply_command(len(self.entries), data)

    @property
    def cluster(self) -> ClusterImage:
        cluster = self.machine.cluster
        assert cluster is not None
        return cluster


def formed() -> Log:
    """A cluster of three registered brokers and four offsets partitions."""
    return Log(form(), register(0), register(1), register(2))
