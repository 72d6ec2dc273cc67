"""The settings that topics read are the configs that the controller defines."""

import pytest
from muster_coordinator.controller import topic_configs
from muster_coordinator.limits import BATCH_BYTES_MAX, MIB
from muster_coordinator.topics.settings import TopicSettings, topic_settings


def test_an_empty_mapping_and_all_defaults_spelled_out_mean_the_same() -> None:
    assert topic_settings({}) == topic_settings(topic_configs.DEFAULTS) == TopicSettings()


@pytest.mark.parametrize(
    ("name", "value", "changed"),
    [
        ("max.message.bytes", "5", TopicSettings(max_message_bytes=5)),
        ("message.timestamp.type", "LogAppendTime", TopicSettings(log_append_time=True)),
        ("message.timestamp.before.max.ms", "5", TopicSettings(timestamp_before_max_ms=5)),
        ("message.timestamp.after.max.ms", "5", TopicSettings(timestamp_after_max_ms=5)),
        ("segment.bytes", "1048576", TopicSettings(segment_bytes=MIB)),
        ("cleanup.policy", "compact", TopicSettings(compacts=True, deletes=False)),
        ("retention.ms", "-1", TopicSettings(retention_ms=-1)),
        ("retention.bytes", "5", TopicSettings(retention_bytes=5)),
        ("preallocate", "true", TopicSettings()),
    ],
)
def test_overrides_alone_and_effective_values_mean_the_same(name: str, value: str, changed: TopicSettings) -> None:
    assert topic_settings({name: value}) == topic_settings(topic_configs.effective({name: value})) == changed


def test_a_setting_above_the_hard_limit_is_cut() -> None:
    assert topic_settings({"max.message.bytes": str(2**31 - 1)}).max_message_bytes == BATCH_BYTES_MAX
