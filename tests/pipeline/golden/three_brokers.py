"""Three real Kafka brokers with a controller of their own, so that any two of them may be away."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka_broker import KafkaBroker

COUNT = 3


class _Controller(KafkaBroker):
    """It has no listener for clients."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = self.controller_port
        self._properties |= {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{self.port}"}
        del self._properties["advertised.listeners"]


class _Broker(KafkaBroker):
    def __init__(self, folder: Path, node: int, controller: KafkaBroker, properties: Mapping[str, str]) -> None:
        super().__init__(folder, properties)
        self.cluster_id = controller.cluster_id
        voter = f"127.0.0.1:{controller.controller_port}"
        self._properties |= {
            "process.roles": "broker",
            "node.id": str(node),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.quorum.voters": f"1@{voter}",
            "controller.quorum.bootstrap.servers": voter,
        }


class ThreeBrokers:
    """Their ids are those of `brokers`."""

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        self._controller = _Controller(folder / "controller")
        nodes = range(2, 2 + COUNT)
        self.brokers: dict[int, KafkaBroker] = {
            node: _Broker(folder / f"broker-{node}", node, self._controller, properties) for node in nodes
        }

    @property
    def bootstrap(self) -> str:
        """All addresses."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(COUNT + 1) as pool:
                list(pool.map(KafkaBroker.start, (self._controller, *self.brokers.values())))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for broker in (*self.brokers.values(), self._controller):
            broker.kill()
