"""A real YARN for tests: resource manager and node managers of Hadoop's own, from Maven Central, in a JVM on loopback.

Each container is a process of this machine in a folder of its own, which stays for who reads what it wrote. Not here:
the file system that its jobs are staged in (`store.hdfs`).
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import java_tools, orphans
from tests.cluster import wait_until

COORDINATES = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    "org.junit.jupiter:junit-jupiter-api:5.13.4",
    "ch.qos.reload4j:reload4j:1.2.25",
    "org.bouncycastle:bcpkix-jdk18on:1.82",
    java_tools.SLF4J_SILENT,
)
"""Hadoop's, and what it asks for without saying so in its own list."""
SOURCE = Path(__file__).parent / "java" / "YarnServer.java"
HEAP_MIB = 512
START_S_MAX = 180


@dataclass(frozen=True, slots=True)
class Yarn:
    settings: Path
    """HADOOP_CONF_DIR of who submits."""
    folder: Path

    def logs(self) -> dict[str, str]:
        """Container to what it wrote on standard error."""
        return {path.parent.name: path.read_text(errors="replace") for path in self.folder.rglob("container_*/stderr")}


@contextmanager
def started(folder: Path, file_system: str, nodes: int) -> Iterator[Yarn]:
    """YARN with that many node managers, whose jobs are staged in a file system."""
    settings, told = folder / "settings", folder / "yarn.log"
    settings.mkdir(parents=True)
    class_path = java_tools.compile_java([SOURCE], java_tools.classpath(*COORDINATES))
    command = [*java_tools.jvm(class_path, HEAP_MIB), "YarnServer", str(settings), file_system, str(nodes)]
    java_home = Path(java_tools.java_command()).resolve().parents[1]
    with told.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "JAVA_HOME": str(java_home)}, stdin=subprocess.PIPE,
            stdout=log, stderr=log,
        )  # fmt: skip
    orphans.watch(process.pid)

    def is_ready() -> bool:
        assert process.poll() is None, told.read_text()[-2000:]
        return "ready\n" in told.read_text()

    try:
        wait_until("YARN takes work", is_ready, START_S_MAX)
        yield Yarn(settings, folder)
    finally:
        process.kill()
        process.communicate()
