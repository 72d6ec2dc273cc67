"""`muster group lag` says to what it counts: the log end, or the last stable offset, where readers of committed data
end; and how many records that is, if somebody knows. That ListOffsets tells the two apart is in
`integration/test_hanging_transactions`; records in a real Redis are in `redis_streams/test_lag_command`."""

import json
from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest
from muster_coordinator.cli import group_view, groups, kafka_client
from muster_coordinator.cli.exits import Exit
from muster_coordinator.cli.group_view import Broker, DescribedGroup
from muster_coordinator.groups.assignors.membership import TopicPartition

HELD, LEVEL, UNREAD = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)
ENDS = {"read_uncommitted": {HELD: 50, LEVEL: 9, UNREAD: 4}, "read_committed": {HELD: 30, LEVEL: 9, UNREAD: 4}}


class Admin:
    """Offset 10 is committed in the first partition, 9 in the second, and nothing is known of the third's end."""

    configs: dict[str, str] | Exception = {}  # noqa: RUF012  # replaced, never changed

    def list_partition_offsets(self, wanted: dict[Any, int], isolation_level: str, timeout_ms: int) -> dict[Any, Any]:
        assert set(wanted.values()) == {-1}
        return {one: SimpleNamespace(offset=ENDS[isolation_level][TopicPartition(*one)]) for one in wanted}

    def describe_configs(self, resources: list[Any]) -> dict[str, Any]:
        assert [one.name for one in resources] == ["t"]
        if isinstance(self.configs, Exception):
            raise self.configs
        return {"topic": {"t": {name: {"value": value} for name, value in self.configs.items()}}}

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def _cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    view = DescribedGroup("g", "Empty", "consumer", "", Broker(1, None, None), ())
    monkeypatch.setattr(kafka_client.KafkaSide, "_client", lambda side, deadline: Admin())
    monkeypatch.setattr(groups, "describe_group", lambda side, group: view)
    monkeypatch.setattr(group_view, "committed_offsets", lambda side, group: {HELD: 10, LEVEL: 9})


def lags(ran: Any) -> list[tuple[int, int, int, str]]:
    assert ran.code == Exit.OK, ran.err
    fields = ("log_end_offset", "last_stable_offset", "lag", "lag_to")
    return [tuple(row[name] for name in fields) for row in json.loads(ran.out)]  # type: ignore[misc]


def test_the_lag_is_to_the_log_end_and_what_is_held_back_is_a_remark(muster: Any) -> None:
    ran = muster("group", "lag", "g", "-o", "json")
    assert lags(ran) == [(50, 30, 40, "log_end_offset"), (9, 9, 0, "log_end_offset")]
    said = "muster: t-0: an open transaction keeps 20 offsets from readers of committed data, from 30 on\n"
    assert ran.err == said
    table = muster("group", "lag", "g").out.splitlines()
    assert table[0].split()[3:5] == ["LOG-END-OFFSET", "LAG"]
    assert table[1].split()[2:5] == ["10", "50", "40"]


def test_it_is_to_the_last_stable_offset_for_readers_of_committed_data(muster: Any) -> None:
    words = ("group", "lag", "g", "--isolation-level", "read_committed")
    assert lags(muster(*words, "-o", "json")) == [(50, 30, 20, "last_stable_offset"), (9, 9, 0, "last_stable_offset")]
    table = muster(*words).out.splitlines()
    assert table[0].split()[3:5] == ["LAST-STABLE-OFFSET", "LAG"]
    assert table[1].split()[2:5] == ["10", "30", "20"]


def test_a_commit_of_what_is_not_stable_has_an_unknown_lag_to_it(muster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of uncommitted data may be further: no lag is below 0."""
    monkeypatch.setattr(group_view, "committed_offsets", lambda side, group: {HELD: 40})
    assert lags(muster("group", "lag", "g", "-o", "json")) == [(50, 30, 10, "log_end_offset")]
    ran = muster("group", "lag", "g", "--isolation-level", "read_committed", "-o", "json")
    assert (ran.code, json.loads(ran.out)[0]["lag"]) == (Exit.INCOMPLETE, None)


def records(ran: Any) -> list[tuple[int | None, str]]:
    return [(row["records"], row["records_quality"]) for row in json.loads(ran.out)]


def test_where_offsets_have_no_gaps_their_difference_is_the_number(muster: Any) -> None:
    assert records(muster("group", "lag", "g", "-o", "json")) == [(40, "exact"), (0, "exact")]
    assert "RECORDS" not in muster("group", "lag", "g").out, "it would say the same twice"


def test_in_redis_nobody_knows_unless_redis_is_named(muster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admin, "configs", {"topic.store": "redis"})
    ran = muster("group", "lag", "g", "-o", "json")
    assert records(ran) == [(None, "unknown"), (None, "unknown")]
    assert "--redis has them counted" in ran.err
    assert ran.code == Exit.OK, "it was not asked for"
    table = muster("group", "lag", "g").out.splitlines()
    assert table[0].split()[4:7] == ["LAG", "RECORDS", "QUALITY"]
    assert table[1].split()[4:7] == ["40", "unknown", "unknown"]


def test_who_may_not_read_configs_gets_the_lag_as_before(muster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admin, "configs", kafka.errors.TopicAuthorizationFailedError())
    ran = muster("group", "lag", "g", "-o", "json")
    assert records(ran) == [(None, "unknown"), (None, "unknown")]
    assert lags(ran)[0] == (50, 30, 40, "log_end_offset")
    assert "records" not in ran.err
    assert "RECORDS" not in muster("group", "lag", "g").out


@pytest.mark.parametrize("words", ["redis://", "http://somewhere", "/no/such/file"])
def test_a_redis_that_is_none_is_told_by_the_option(muster: Any, words: str) -> None:
    ran = muster("group", "lag", "g", "--redis", words)
    assert ran.code == Exit.USAGE
    assert "--from-redis" not in ran.err
