"""What the operator relies on in kafka-python, for the release that is installed: a newer one fails here first.

That the answers mean what they should is shown against real brokers in `test_adapter.py`.
"""

import inspect
import threading
import tomllib
from pathlib import Path
from typing import Any

import kafka
import kafka.errors
import pytest
from muster_operator.kafka import clients
from muster_operator.kafka.clients import Clients, connect, connections
from muster_operator.kafka.coordinators import find_coordinators

from tests.operator.fakes.clocks import FakeClock
from tests.operator.kafka.sweeping import swept

ROOT = Path(__file__).resolve().parents[3]
PUBLIC = {
    "describe_groups": ["group_ids", "group_coordinator_id"],
    "list_group_offsets": ["group_specs"],
    "describe_topics": ["topics"],
    "describe_cluster": [],
    "list_partition_offsets": ["topic_partition_specs", "timeout_ms"],
    "remove_group_members": ["group_id", "members"],
    "describe_configs": ["config_resources"],
    "alter_configs": ["config_resources", "raise_on_unknown"],
    "create_topics": ["new_topics", "raise_errors"],
    "create_partitions": ["topic_partitions", "raise_errors"],
    "delete_topics": ["topics", "raise_errors"],
    "describe_acls": ["acl_filter"],
    "create_acls": ["acls"],
    "delete_acls": ["acl_filters"],
    "describe_user_scram_credentials": ["users"],
    "alter_user_scram_credentials": ["alterations"],
    "close": [],
}


def test_the_pinned_range_begins_at_a_release_that_has_the_names() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "kafka-python>=3.0.12,<4" in extras["operator"], "other releases were not tried"
    assert tuple(int(one) for one in kafka.__version__.split(".")) >= (3, 0, 12)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_questions_take_what_they_are_given(name: str) -> None:
    parameters = inspect.signature(getattr(kafka.KafkaAdminClient, name)).parameters
    assert [one for one in PUBLIC[name] if one not in parameters] == []


def test_the_two_private_names_are_there() -> None:
    """`find_coordinators` runs a coroutine of the client on the client's own thread."""
    look_up = kafka.KafkaAdminClient._find_coordinator_ids
    assert inspect.iscoroutinefunction(look_up)
    required = [
        name for name, one in inspect.signature(look_up).parameters.items() if one.default is inspect.Parameter.empty
    ]
    assert required == ["self", "keys"]
    from kafka.net.manager import KafkaConnectionManager

    assert list(inspect.signature(KafkaConnectionManager.run).parameters) == ["self", "coro", "args"]
    with pytest.raises(AttributeError):
        find_coordinators(object(), ["g"])


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_client_that_finds_nobody_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "KAFKA_BOOTSTRAP_TIMEOUT_MS", 300)
    before = set(threading.enumerate())
    with swept(), pytest.raises(kafka.errors.KafkaError):
        connect("127.0.0.1:1")
    assert set(threading.enumerate()) <= before


class Silent:
    """Connected, and says nothing after that."""

    closed = False

    def describe_cluster(self) -> Any:
        raise kafka.errors.KafkaTimeoutError

    def close(self) -> None:
        self.closed = True


def test_a_cluster_that_falls_silent_right_after_the_connection_is_nobody_and_leaves_nothing_open() -> None:
    made = Silent()
    known = Clients(FakeClock(), lambda _: made, weight=connections)
    with pytest.raises(Exception, match="no broker answers"), known.use("broker:9092"):
        pass
    assert made.closed
    assert known.silent("broker:9092")
    assert known.open_connections() == 0
