"""Four brokers join three with 50 offsets partitions and 100 of topics, get their share of everything, and leave again,
under Java, aiokafka and librdkafka clients: what `test_changes` asks of few partitions, asked of as many as a cluster
has by default.

Only in `make seven` (in the nightly): some 500 replicas are moved, and back. `make test` has `test_changes` for these
clients, and seven brokers on virtual time (`replica/test_seven_brokers.py`). Nobody is killed here.
"""

import os
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import MusterCluster
from tests.faults import producers, registers
from tests.faults.changes import SETTINGS, Form, run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.java,
    pytest.mark.quiet,
    pytest.mark.timeout(2_400),
    pytest.mark.skipif(
        os.environ.get("MUSTER_SEVEN") != "whole", reason="500 replicas are moved: make seven, in the nightly"
    ),
]

JOIN = (3, 4, 5, 6)
FORM = Form(JOIN, growing=(), shrinking=(), replaced=0, pause_s_max=1.0, level_timeout_s=900)
OFFSETS_PARTITIONS = int(os.environ.get("MUSTER_SEVEN_OFFSETS", "50"))
TOPIC_PARTITIONS = 2 * OFFSETS_PARTITIONS - producers.PARTITIONS - registers.PARTITIONS
"""With the topics of the clients twice as many."""
AT_ONCE = {"muster.reassignment.max.concurrent": "5"}
SEED = 7


def test_clients_notice_nothing_of_brokers_that_come_and_go(tmp_path: Path) -> None:
    with MusterCluster(
        tmp_path / "cluster", partitions=OFFSETS_PARTITIONS, settings={**SETTINGS, **AT_ONCE}, room_for=len(JOIN)
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic("wide", TOPIC_PARTITIONS, -1)], operation_timeout=60).values():
            future.result(60)
        result = run(cluster, FORM, SEED, print)
        print(result)
        assert result.found == [], f"seed {SEED}: {result}"
        assert result.killed == []
