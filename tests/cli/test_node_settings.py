"""What the file says reaches the room that acts on it, under the right name and unit."""

import re

import pytest
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.controller.topic_configs import DEFAULTS
from muster_coordinator.node_settings import api_settings, client_limits, node_settings, topic_configs
from muster_coordinator.settings import ConfigError, Settings, settings_of
from muster_coordinator.topics.cleaning.plan import CleaningSettings
from muster_coordinator.topics.settings import topic_settings

MINIMAL = {"node.id": "1", "log.dirs": "/data", "controller.quorum.voters": "2@c:1,0@a:1,1@b:1"}


def made(keys: dict[str, str]) -> Settings:
    return settings_of(MINIMAL | keys)


def test_voters_are_ascending_whatever_the_file_says() -> None:
    assert node_settings(made({})).initial_voters == (0, 1, 2)


def test_units_are_converted() -> None:
    found = node_settings(made({"offsets.retention.minutes": "3", "log.retention.hours": "2", "log.roll.hours": "1"}))
    assert found.shard.offsets_retention_ms == 180_000
    configs = dict(found.topic_configs)
    assert (configs["retention.ms"], configs["segment.ms"]) == ("7200000", "3600000")


def test_the_finer_unit_wins_and_minus_one_is_for_ever() -> None:
    assert dict(topic_configs(made({"log.retention.ms": "5", "log.retention.minutes": "9"})))["retention.ms"] == "5"
    assert dict(topic_configs(made({"log.retention.minutes": "9"})))["retention.ms"] == "540000"
    assert dict(topic_configs(made({"log.retention.hours": "-1"})))["retention.ms"] == "-1"


def test_kafkas_keys_of_cleaning_are_the_defaults_of_the_topics_ones() -> None:
    """Names and meaning of Kafka's ServerTopicConfigSynonyms."""
    keys = {
        "log.cleanup.policy": "compact, delete",
        "log.cleaner.delete.retention.ms": "0",
        "log.cleaner.min.cleanable.ratio": "0.25",
        "log.cleaner.min.compaction.lag.ms": "7",
        "log.cleaner.max.compaction.lag.ms": "8",
    }
    found = topic_settings(dict(topic_configs(made(keys))))
    assert (found.compacts, found.deletes, found.cleaning) == (True, True, CleaningSettings(0.25, 7, 8, 0))
    for key, wrong in {
        "log.cleanup.policy": ("", "compact,gone", "Delete"),
        "log.cleaner.delete.retention.ms": ("-1", str(2**63)),
        "log.cleaner.min.cleanable.ratio": ("1.1", "-0.1", "nan", "half"),
        "log.cleaner.min.compaction.lag.ms": ("-1", "9"),
        "log.cleaner.max.compaction.lag.ms": ("0", "6"),
    }.items():
        for value in wrong:
            with pytest.raises(ConfigError, match=re.escape(key)):
                made({**keys, key: value})


def test_server_wide_values_have_the_topic_configs_names_and_defaults() -> None:
    for name, value in topic_configs(made({})):
        assert DEFAULTS[name] == value


def test_the_admin_address_is_told_only_when_there_is_an_admin_api() -> None:
    assert node_settings(made({})).admin == ""
    keys = {
        "muster.admin.token.file": "/t",
        "muster.admin.listener": "0.0.0.0:8081",
        "muster.admin.advertised": "b:8081",
    }
    assert node_settings(made(keys)).admin == "b:8081"


def test_clients_and_api() -> None:
    assert client_limits(made({})).connections_per_address_max is None
    assert client_limits(made({"max.connections.per.ip": "7"})).connections_per_address_max == 7
    found = api_settings(made({"topics.mode": "none", "num.partitions": "4"}))
    assert (found.topics_mode, found.num_partitions) == (TopicsMode.NONE, 4)
    assert dict(found.broker_configs)["num.partitions"] == "4"
    assert (found.replication_factor, api_settings(made({"default.replication.factor": "5"})).replication_factor) == (
        3,
        5,
    )
    assert (node_settings(made({})).rack, node_settings(made({"broker.rack": "zone-1"})).rack) == ("", "zone-1")
    assert dict(found.broker_configs)["group.max.size"] == "2000"
    assert not found.auto_create_topics
    assert api_settings(made({"auto.create.topics.enable": "true"})).auto_create_topics


def test_what_is_left_of_older_history_of_the_internal_logs() -> None:
    assert node_settings(made({})).internal_compacts
    assert not node_settings(made({"muster.internal.topics.cleanup.policy": "delete"})).internal_compacts
    found = node_settings(made({"muster.offsets.history.ms": "5", "muster.offsets.history.bytes": "6"}))
    assert (found.offsets_history_ms, found.offsets_history_bytes) == (5, 6)


def test_tools_find_kafkas_keys_for_a_broker() -> None:
    found = dict(
        api_settings(made({"node.id": "3", "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"})).broker_configs
    )
    expected = {"broker.id": "3", "default.replication.factor": "3", "inter.broker.protocol.version": "3.9-IV0"}
    assert {key: found[key] for key in expected} == expected
    wanted = {"auto.create.topics.enable", "delete.topic.enable", "log.dirs", "log.dir", "log.retention.ms"}
    wanted |= {"message.max.bytes", "min.insync.replicas", "num.partitions", "offsets.retention.minutes"}
    assert wanted <= found.keys()


def test_the_next_file_of_each_wal_fits_whatever_is_called_low() -> None:
    mib = 1024 * 1024
    found = node_settings(made({}))
    assert (found.disk_low_bytes, found.disk_good_bytes, found.data_dir) == (256 * mib, 384 * mib, "/data")
    found = node_settings(made({"muster.disk.low.bytes": "1", "muster.disk.good.bytes": "2"}))
    assert (found.disk_low_bytes, found.disk_good_bytes) == (192 * mib, 192 * mib)
    found = node_settings(made({"muster.disk.low.bytes": "1", "muster.wal.file.bytes": str(mib)}))
    assert (found.disk_low_bytes, found.disk_good_bytes) == (3 * mib, 9 * mib // 2)
    with pytest.raises(ConfigError, match=r"muster\.disk\.good\.bytes is below muster\.disk\.low\.bytes"):
        made({"muster.disk.low.bytes": "2", "muster.disk.good.bytes": "1"})


def test_groups_are_shown_in_redis_only_where_one_is_named() -> None:
    assert not node_settings(made({"redis.url": "redis://redis"})).redis_groups_mirror
    assert not node_settings(made({"redis.groups.mirror": "true"})).redis_groups_mirror
    assert node_settings(made({"redis.url": "redis://redis", "redis.groups.mirror": "true"})).redis_groups_mirror
