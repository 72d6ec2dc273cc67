"""`muster consume` as a member of a real group, against what kafka-python 3.0 does between two polls."""

import threading
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from muster_coordinator.cli import consume
from muster_coordinator.cli.kafka_client import KafkaSide

from tests.clients.server import Server
from tests.cluster import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]
GROWTHS = 6


def test_an_assignment_that_comes_between_two_polls_is_not_forgotten(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls are short here, so nearly every answer comes between two. It joins anew as often as partitions are added,
    by its own metadata and not by a word of the coordinator: that is the join that kafka-python forgets."""
    said: list[str] = []
    monkeypatch.setattr(consume, "POLL_MS", 1)
    monkeypatch.setattr(consume, "note", said.append)
    topic = f"grows-{uuid4()}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    server.create(topic, 1)
    stopped: list[int] = []
    ended: list[BaseException] = []
    with KafkaSide(server.bootstrap, {}, 30.0) as side:
        settings: dict[str, Any] = {
            "bootstrap_servers": server.bootstrap.split(","), "group_id": topic, "metadata_max_age_ms": 500,
            "session_timeout_ms": 45_000,
        }  # fmt: skip
        reader = consume._Reader(side, [topic], settings, ["cooperative-sticky"])

        def reads() -> None:
            try:
                for _ in reader.batches(None, None, stopped):
                    pass
            except BaseException as error:  # noqa: BLE001  # told by the test's thread
                ended.append(error)

        thread = threading.Thread(target=reads, daemon=True)
        thread.start()
        try:
            for count in range(1, GROWTHS + 1):
                if count > 1:
                    admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)
                wait_until(
                    f"{count} partitions; it said {said}",
                    lambda count=count: ended or len(reader._consumer.assignment()) == count,
                    20,
                )
                assert not ended
        finally:
            stopped.append(2)
            thread.join(30)
            reader.close(commit=False)
