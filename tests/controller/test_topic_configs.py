"""The 33 topic configs: defaults as Kafka 4.3 shows them, bounds, and honest refusals."""

import pytest
from muster_coordinator.controller import limits, topic_configs
from muster_coordinator.controller.topic_configs import CONFIGS, ConfigType, validate, validate_all
from muster_coordinator.limits import BATCH_BYTES_MAX

OBSERVED = {
    "cleanup.policy": "delete", "compression.type": "producer", "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000", "index.interval.bytes": "4096", "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807", "max.compaction.lag.ms": "9223372036854775807",
    "min.cleanable.dirty.ratio": "0.5", "min.compaction.lag.ms": "0", "min.insync.replicas": "1",
    "retention.bytes": "-1", "retention.ms": "604800000", "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760", "segment.jitter.ms": "0", "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}  # fmt: skip


def test_defaults_are_those_of_a_running_kafka() -> None:
    assert {name: CONFIGS[name].default for name in OBSERVED} == OBSERVED
    assert len(CONFIGS) == 33


@pytest.mark.parametrize("name", CONFIGS)
def test_every_default_is_valid(name: str) -> None:
    assert validate(name, CONFIGS[name].default) is None


@pytest.mark.parametrize("name", [n for n, d in CONFIGS.items() if d.type in (ConfigType.INT, ConfigType.LONG)])
@pytest.mark.parametrize("value", ["", "x", "1.5", " 1", "1e3", "٣", "9" * 20, "99999999999999999999999", "--1", "-"])
def test_a_number_is_a_number(name: str, value: str) -> None:
    assert validate(name, value) is not None


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("segment.bytes", "1048576", "1048575"),
        ("segment.bytes", str(2**31 - 1), str(2**31)),
        ("max.message.bytes", str(BATCH_BYTES_MAX), str(BATCH_BYTES_MAX + 1)),
        ("max.message.bytes", "0", "-1"),
        ("retention.ms", "-1", "-2"),
        ("retention.ms", str(2**63 - 1), str(2**63)),
        ("retention.bytes", "-1", "-2"),
        ("segment.ms", "1", "0"),
        ("message.timestamp.after.max.ms", "0", "-1"),
        ("message.timestamp.type", "LogAppendTime", "logappendtime"),
        ("min.insync.replicas", "2", "0"),
        ("min.cleanable.dirty.ratio", "1", "1.1"),
        ("min.cleanable.dirty.ratio", "0", "nan"),
        ("compression.gzip.level", "-1", "0"),
        ("compression.lz4.level", "17", "18"),
        ("unclean.leader.election.enable", "true", "TRUE"),
        ("local.retention.ms", "-2", "-3"),
        ("leader.replication.throttled.replicas", "0:1,1:2", "x" * (limits.CONFIG_VALUE_CHARS_MAX + 1)),
    ],
)
def test_bounds(name: str, good: str, bad: str) -> None:
    assert validate(name, good) is None
    assert validate(name, bad) is not None


@pytest.mark.parametrize("value", ["compact", "compact,delete", "delete, compact"])
def test_compaction_is_possible_where_every_replica_knows_it(value: str) -> None:
    assert validate("cleanup.policy", value) is None
    assert validate_all({"cleanup.policy": value}, voters=3, may_compact=True) is None
    error = validate_all({"cleanup.policy": value}, voters=3, may_compact=False)
    assert error is not None
    assert "feature level" in error


def test_the_least_lag_of_a_compacted_topic_is_not_above_the_largest() -> None:
    lags = {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}
    error = validate_all({"cleanup.policy": "compact", **lags}, voters=3, may_compact=True)
    assert error is not None
    assert "min.compaction.lag.ms" in error
    assert validate_all(lags, voters=3, may_compact=True) is None
    assert validate_all(lags, voters=3, may_compact=True, server={"cleanup.policy": "compact"}) is not None
    assert validate_all(lags, voters=3, may_compact=False, server={"cleanup.policy": "compact"}) is None


@pytest.mark.parametrize("value", ["", "remove", "delete,remove"])
def test_a_policy_without_meaning_is_refused(value: str) -> None:
    assert validate("cleanup.policy", value) is not None


@pytest.mark.parametrize("value", ["gzip", "zstd", "uncompressed", "none"])
def test_recompression_is_refused(value: str) -> None:
    error = validate("compression.type", value)
    assert error is not None
    assert "producer" in error


def test_remote_storage_is_refused() -> None:
    assert validate("remote.storage.enable", "true") is not None


def test_an_unknown_config_is_named() -> None:
    error = validate("retention.hours", "1")
    assert error is not None
    assert "retention.hours" in error


@pytest.mark.parametrize(("voters", "most"), [(1, 1), (3, 2), (5, 3)])
def test_more_in_sync_replicas_than_a_majority_cannot_be_promised(voters: int, most: int) -> None:
    assert validate_all({"min.insync.replicas": str(most)}, voters=voters, may_compact=True) is None
    assert validate_all({"min.insync.replicas": str(most + 1)}, voters=voters, may_compact=True) is not None


def test_one_bad_override_spoils_the_set() -> None:
    assert validate_all({"retention.ms": "1", "segment.bytes": "1"}, voters=3, may_compact=True) is not None


def test_overrides_win_over_defaults() -> None:
    overrides = {"retention.ms": "5", "message.timestamp.type": "LogAppendTime"}
    assert topic_configs.integer(overrides, "retention.ms") == 5
    assert topic_configs.integer(overrides, "retention.bytes") == -1
    assert topic_configs.value(overrides, "message.timestamp.type") == "LogAppendTime"
    assert topic_configs.items({}, "cleanup.policy") == ("delete",)
    assert topic_configs.items({}, "leader.replication.throttled.replicas") == ()
    assert topic_configs.number({}, "min.cleanable.dirty.ratio") == 0.5
    assert topic_configs.boolean({}, "preallocate") is False
    assert topic_configs.effective(overrides)["retention.ms"] == "5"
    with pytest.raises(KeyError):
        topic_configs.value({}, "no.such.config")
