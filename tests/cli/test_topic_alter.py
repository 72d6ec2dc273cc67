"""`muster topic alter`, `--config` of topics, and `muster consume --isolation-level`: what is asked of kafka-python.

That clusters do it is in `test_on_muster` and, beside Kafka's own tools, in `test_against_kafka`.
"""

from types import SimpleNamespace
from typing import Any

import kafka.admin
import pytest
from muster_coordinator.cli import consume, kafka_client, topics
from muster_coordinator.cli.exits import CliError, Exit

TOPIC = [{"name": "t", "error_code": 0, "partitions": [], "is_internal": False}]


class Admin:
    """Remembers what it was asked."""

    def __init__(self, result: str = "OK") -> None:
        self.result = result
        self.asked: list[tuple[str, Any]] = []

    def describe_topics(self, names: list[str] | None = None) -> list[dict[str, Any]]:
        return TOPIC

    def create_topics(self, wanted: dict[str, Any], timeout_ms: int) -> None:
        self.asked.append(("create", wanted))

    def alter_configs(self, resources: list[Any], *, raise_on_unknown: bool, incremental: bool) -> Any:
        assert (raise_on_unknown, incremental) == (False, True)
        self.asked += [("alter", (one.name, one.configs)) for one in resources]
        return {"topic": {"t": self.result}}

    def create_partitions(self, wanted: dict[str, int], timeout_ms: int) -> None:
        self.asked.append(("partitions", wanted))

    def wait_for_topics(self, names: list[str], timeout_ms: int) -> None:
        self.asked.append(("wait", names))

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    one = Admin()
    monkeypatch.setattr(kafka_client.KafkaSide, "_client", lambda side, deadline: one)
    return one


def test_configs_come_first_then_partitions_then_their_leaders(muster: Any, admin: Admin) -> None:
    ran = muster(
        "topic", "alter", "t", "--partitions", "6", "--config", "retention.ms=1000", "--set", "segment.ms=5=6",
        "--delete-config", "segment.bytes",
    )  # fmt: skip
    assert ran.code == Exit.OK, ran.err
    operations = {
        "segment.ms": ("SET", "5=6"), "retention.ms": ("SET", "1000"), "segment.bytes": ("DELETE", None),
    }  # fmt: skip
    assert admin.asked == [("alter", ("t", operations)), ("partitions", {"t": 6}), ("wait", ["t"])]
    assert "configs changed" in ran.err
    assert "6 partitions" in ran.err
    entries = kafka.admin.KafkaAdminClient._incremental_configs_entries(operations)
    assert sorted(entries) == [("retention.ms", 0, "1000"), ("segment.bytes", 1, None), ("segment.ms", 0, "5=6")]


def test_only_what_is_named_is_changed(muster: Any, admin: Admin) -> None:
    assert muster("topic", "alter", "t", "--partitions", "2").code == Exit.OK
    assert admin.asked == [("partitions", {"t": 2}), ("wait", ["t"])]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("[Error 40] InvalidConfigurationError: retention.ms must be a number", Exit.REFUSED, "must be a number"),
        ("[Error 41] NotControllerError: ", Exit.UNREACHABLE, "no usable answer"),
        ("[Error 3] UnknownTopicOrPartitionError: ", Exit.NOT_FOUND, "no such topic"),
        ("something new", Exit.REFUSED, "something new"),
    ],
)
def test_a_refusal_is_a_sentence_and_nothing_follows_it(
    muster: Any, admin: Admin, error: str, code: Exit, said: str
) -> None:
    admin.result = error
    ran = muster("topic", "alter", "t", "--config", "retention.ms=x", "--partitions", "9")
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert [name for name, _ in admin.asked] == ["alter"]


def test_kafka_python_still_writes_errors_that_way() -> None:
    answer = SimpleNamespace(error_code=40, error_message="why", resource_type=2, resource_name="t")
    said = kafka.admin.KafkaAdminClient._alter_configs_process_responses([answer])
    numbered = topics._NUMBERED.fullmatch(said["topic"]["t"])
    assert numbered is not None
    assert (numbered[1], "why" in numbered[2]) == ("40", True)


@pytest.mark.parametrize(
    "words",
    [
        (), ("--config", "a=1", "--delete-config", "a"), ("--set", "novalue"),
        ("--config", "one.file", "--config", "b/c"), ("--config", "no/such/file", "--partitions", "3"),
        ("--partitions", "0"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_not_sent(muster: Any, admin: Admin, words: tuple[str, ...]) -> None:
    assert muster("topic", "alter", "t", *words).code == Exit.USAGE
    assert admin.asked == []


def test_create_takes_configs_and_a_file_in_one_option(muster: Any, admin: Admin, tmp_path: Any) -> None:
    file = tmp_path / "client=settings"
    file.write_text("client.id=tester\n")
    ran = muster("topic", "create", "t", "--config", "cleanup.policy=delete", "--config", str(file))
    assert ran.code == Exit.OK, ran.err
    assert admin.asked[0][1]["t"]["configs"] == {"cleanup.policy": "delete"}


@pytest.mark.parametrize(
    "words", [("--isolation-level", "read_committed"), ("--isolation-level", "read_uncommitted"), ()]
)
def test_the_isolation_level_reaches_the_consumer(
    muster: Any, admin: Admin, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    made: list[dict[str, Any]] = []

    def reader(side: Any, names: list[str], settings: dict[str, Any], assignors: list[str]) -> Any:
        made.append(settings)
        raise CliError(Exit.REFUSED, "enough")

    monkeypatch.setattr(consume, "_Reader", reader)
    assert muster("consume", "t", *words).code == Exit.REFUSED
    assert made[0].get("isolation_level") == (words[1] if words else None)


def test_another_isolation_level_is_refused(muster: Any, admin: Admin) -> None:
    assert muster("consume", "t", "--isolation-level", "serializable").code == Exit.USAGE
