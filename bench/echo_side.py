"""Echo servers as sides of the benchmark: the lower bound for any server, and the generator's own limit."""

import subprocess
import sys

from typing_extensions import override

from bench import generator
from bench.compare import ECHO, UVLOOP
from bench.errors import RunFailed
from bench.kafka_cluster import BROKERS
from bench.sides import Side
from tests.kafka_broker import free_ports


class Echo(Side):
    """Echo servers: one uvloop process per replica, or the generator's own compiled one."""

    echoed = True

    def __init__(self, name: str) -> None:
        self.name = name
        count = BROKERS if name == UVLOOP else 1
        self._ports = free_ports(count)
        self._processes: list[subprocess.Popen[str]] = []

    @property
    @override
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    @override
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    @override
    def start(self) -> None:
        for port in self._ports:
            command = [sys.executable, "-m", "bench.echo_uvloop", str(port)]
            if self.name == ECHO:
                command = [str(generator.binary()), "echo", f"--port={port}"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise RunFailed(f"{self.name} did not start")

    @override
    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._processes.clear()
