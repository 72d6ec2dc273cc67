"""Kafka's own console tools, run against any bootstrap address."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import java_tools

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"

HEAP_MIB = 128
TIMEOUT_S = 60.0


def command(main_class: str, *arguments: str, heap_mib: int = HEAP_MIB) -> list[str]:
    """The whole command line of a JVM running one of Kafka's classes, silent on its log."""
    class_path = java_tools.classpath(*java_tools.KAFKA_ALL)
    quiet = Path(__file__).parent / "clients" / "members" / "java" / "log4j2-quiet.yaml"
    return [*java_tools.jvm(class_path, heap_mib, f"-Dlog4j2.configurationFile={quiet}"), main_class, *arguments]


def run(main_class: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
    """Standard output of a tool that ends by itself. `fails`: a non-zero exit is fine, standard error is added."""
    done = subprocess.run(
        command(main_class, *arguments), input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if fails:
        return done.stdout + done.stderr
    assert done.returncode == 0, f"{main_class} {arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def running(main_class: str, *arguments: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A tool that runs until the block ends; its standard output goes to a file."""
    with output.open("ab") as out:
        process = subprocess.Popen(command(main_class, *arguments), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
