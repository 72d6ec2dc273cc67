"""Three servers that can be hurt and healed in the same words: Muster's replicas, or Kafka's brokers as shipped."""

import contextlib
import os
import signal
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from typing_extensions import override

from bench.kafka_cluster import BROKERS, KafkaCluster
from tests.cluster import MusterCluster, wait_until
from tests.faults.clocks import Clocks
from tests.faults.plan import CLOCK, FREEZE, KILL, Fault

SERVERS = 3
ADMIN_TIMEOUT_S = 30
WHOLE_TIMEOUT_S = 90


class Servers(ABC):
    """`with ... as servers:`; numbered 0, 1, 2."""

    def __init__(self, folder: Path) -> None:
        self.clocks = Clocks(folder.with_name(folder.name + "-clocks"))

    def __enter__(self) -> Self:
        with self.clocks.preloaded():
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in range(SERVERS):  # a frozen one would not hear that it is to stop
            with contextlib.suppress(OSError, KeyError):
                os.kill(self.pid(server), signal.SIGCONT)
        self.stop()

    def hurt(self, fault: Fault) -> None:
        for server in fault.servers:
            if fault.kind == KILL:
                self.kill(server)
            elif fault.kind == CLOCK:
                self.clocks.step(self.pid(server), fault.step_ms)
            else:
                assert fault.kind == FREEZE
                os.kill(self.pid(server), signal.SIGSTOP)

    def heal(self, fault: Fault) -> None:
        """All at once; the servers are not waited for."""
        for server in fault.servers:
            if fault.kind == KILL:
                with self.clocks.preloaded():
                    self.restart(server)
            elif fault.kind == CLOCK:
                self.clocks.step(self.pid(server), 0)
            else:
                os.kill(self.pid(server), signal.SIGCONT)

    def create_topics(self, topics: dict[str, int]) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wanted = [NewTopic(name, count, SERVERS) for name, count in topics.items()]
        for future in admin.create_topics(wanted, operation_timeout=ADMIN_TIMEOUT_S).values():
            future.result(ADMIN_TIMEOUT_S)

    @property
    @abstractmethod
    def bootstrap(self) -> str: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def pid(self, server: int) -> int: ...

    @abstractmethod
    def kill(self, server: int) -> None: ...

    @abstractmethod
    def restart(self, server: int) -> None: ...

    @abstractmethod
    def wait_whole(self) -> None:
        """Until every server serves again."""


class Muster(Servers):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = MusterCluster(folder)  # holds its ports until `close`

    @property
    @override
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @override
    def start(self) -> None:
        self.cluster.start()

    @override
    def stop(self) -> None:
        self.cluster.close()

    @override
    def pid(self, server: int) -> int:
        return self.cluster.pid(server)

    @override
    def kill(self, server: int) -> None:
        self.cluster.kill(server)

    @override
    def restart(self, server: int) -> None:
        self.cluster.start_replica(server, wait_ready=False)

    @override
    def wait_whole(self) -> None:
        for server in range(SERVERS):
            self.cluster.wait_ready(server, WHOLE_TIMEOUT_S)


class Kafka(Servers):
    """`bench/kafka/broker.properties`: as shipped, but for addresses and copies."""

    def __init__(self, folder: Path) -> None:
        assert BROKERS == SERVERS
        super().__init__(folder)
        self.cluster = KafkaCluster(folder)

    @property
    @override
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @override
    def start(self) -> None:
        self.cluster.start()
        self.wait_whole()

    @override
    def stop(self) -> None:
        self.cluster.stop()

    @override
    def pid(self, server: int) -> int:
        return self.cluster.pid(server)

    @override
    def kill(self, server: int) -> None:
        self.cluster.signal(server, signal.SIGKILL)

    @override
    def restart(self, server: int) -> None:
        self.cluster.start_broker(server, wait=False)

    @override
    def wait_whole(self) -> None:
        for server in range(SERVERS):
            self.cluster.wait_answering(server)
        wait_until("all brokers are in", self._all_in, WHOLE_TIMEOUT_S, 0.5)

    def _all_in(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return len(admin.list_topics(timeout=ADMIN_TIMEOUT_S).brokers) == SERVERS
        except KafkaException:
            return False
