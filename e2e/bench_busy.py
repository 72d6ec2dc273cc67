"""`make operator-bench`, the API budget: 1,000 ConsumerGroups whose lag changes all the while, and the same with
their cluster down.

A real API server, a real Muster cluster of one replica, the operator as a process. All groups read one topic that grows
fourfold and more at a time, so that each group's lag is in another band again and again: what is written then is lag
alone. Said are the status writes per second once every object had its status, and the operator's memory then; 1 is the
exit status when either is more than its target, or when the traffic was none.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from e2e import operator_environment
from e2e.node import session
from e2e.node.client import Client
from e2e.operator_process import (
    MEMORY_MIB_MAX,
    OperatorProcess,
    install_crds,
    observing,
    operator_process,
    wait_for,
)
from tests.cluster import MusterCluster

GROUPS = 1_000
TOPIC = "orders"
GROWTH = (10, 150, 2_400)
"""Records that come at the begin of each step: lag 10, 160, 2,560, each two bands above the one before."""
STEP_S = 90.0
DOWN_S = 60.0
NEWS_S = 120.0
TARGET_PER_S = 5.0
WRITTEN = r'muster_operator_status_writes_total\{.*result="written"'


def commit_everywhere(bootstrap: str) -> None:
    """The topic, and offset 0 of it in every group."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, -1)], operation_timeout=20)[TOPIC].result(25)
    asked = [ConsumerGroupTopicPartitions(f"g{number}", [TopicPartition(TOPIC, 0, 0)]) for number in range(GROUPS)]
    for answer in [future for one in asked for future in admin.alter_consumer_group_offsets([one]).values()]:
        assert all(part.error is None for part in answer.result(60).topic_partitions)


def produce(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(TOPIC, value=str(number))
    assert producer.flush(60) == 0


def per_second(one: OperatorProcess, seconds: float) -> float:
    """Status writes, over so long."""
    before, began_s = one.metric(WRITTEN), time.monotonic()
    time.sleep(seconds)
    return (one.metric(WRITTEN) - before) / (time.monotonic() - began_s)


def quiet(one: OperatorProcess) -> bool:
    return per_second(one, 5.0) == 0


def measure(one: OperatorProcess, cluster: MusterCluster) -> int:
    wait_for("all statuses", lambda: one.metric(WRITTEN) >= GROUPS, 300, one)
    wait_for("quiet before the traffic", lambda: quiet(one), NEWS_S, one)
    busy = []
    for count in GROWTH:
        produce(cluster.bootstrap, count)
        busy.append(per_second(one, STEP_S))
    print(f"{GROUPS} busy ConsumerGroups: {', '.join(f'{rate:.1f}' for rate in busy)} status writes a second "
          f"in {len(GROWTH)} times {STEP_S:g} s (target {TARGET_PER_S:g})")  # fmt: skip
    memory = one.resident_mib()
    print(f"resident memory: {memory:.0f} MiB (target {MEMORY_MIB_MAX:g}); load average {os.getloadavg()[0]:.1f}")
    before, began_s = one.metric(WRITTEN), time.monotonic()
    cluster.stop()
    wait_for("word of it in every status", lambda: one.metric(WRITTEN) - before >= GROUPS, 300, one)
    told_s = time.monotonic() - began_s
    wait_for("quiet after the news", lambda: quiet(one), NEWS_S, one)
    down = per_second(one, DOWN_S)
    print(f"their cluster down: every object said so within {told_s:.0f} s; then {down:.1f} status writes a second")
    held = 0 < max(busy) <= TARGET_PER_S and down <= TARGET_PER_S and memory <= MEMORY_MIB_MAX
    return 0 if held else 1


def main() -> int:
    """Exit status."""
    python = operator_environment.python()
    with (
        tempfile.TemporaryDirectory() as folder,
        MusterCluster(Path(folder) / "m", replicas=1, partitions=4) as cluster,
    ):
        plane = session.api_only(Path(folder) / "api")
        try:
            client = Client(tools=plane.tools, kubeconfig=plane.kubeconfig)
            install_crds(client)
            commit_everywhere(cluster.bootstrap)
            objects = (observing(f"g{number}", cluster.bootstrap) for number in range(GROUPS))
            client.apply(*objects, timeout_s=300)
            with operator_process(client, Path(folder) / "operator.log", python=python) as one:
                return measure(one, cluster)
        finally:
            plane.stop()


if __name__ == "__main__":
    sys.exit(main())
