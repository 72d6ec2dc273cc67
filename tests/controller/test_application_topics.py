"""Topics as Kafka's applications create them: each config is accepted, or refused by a sentence that names it.

The configs are those of Kafka's own sources: Streams' `InternalTopicConfig` and its kinds, Connect's `TopicAdmin`,
MirrorMaker's internal topics. An application shows its user the sentence, and no other.
"""

import pytest
from muster_coordinator.controller.topic_configs import validate_all

CREATE_TIME = {"message.timestamp.type": "CreateTime"}
TAKEN = {
    "streams repartition": {
        **CREATE_TIME, "cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1",
    },
    "connect, a source connector's own": {
        "cleanup.policy": "delete", "retention.ms": "604800000", "min.insync.replicas": "2",
        "compression.type": "producer",
    },
    "spring": {"retention.ms": "60000", "max.message.bytes": "1048588"},
    "replicated by mirrormaker": {
        "cleanup.policy": "delete", "retention.bytes": "-1", "segment.ms": "604800000", "index.interval.bytes": "4096",
        "flush.ms": "9223372036854775807", "message.timestamp.before.max.ms": "9223372036854775807",
        "file.delete.delay.ms": "60000", "preallocate": "false", "segment.jitter.ms": "0",
    },
}  # fmt: skip
COMPACTED = {
    "streams changelog": {**CREATE_TIME, "cleanup.policy": "compact"},
    "streams windowed changelog": {**CREATE_TIME, "cleanup.policy": "compact,delete", "retention.ms": "172800000"},
    "streams versioned changelog": {
        **CREATE_TIME, "cleanup.policy": "compact", "min.compaction.lag.ms": "90000000",
    },
    "connect internal": {"cleanup.policy": "compact"},
    "mirrormaker internal": {"cleanup.policy": "compact"},
    "spring compact": {"cleanup.policy": "compact"},
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_accepted(name: str) -> None:
    assert validate_all(TAKEN[name], voters=3, may_compact=True) is None


@pytest.mark.parametrize("name", COMPACTED)
def test_compacted_ones_are_accepted_from_feature_level_3_on_and_refused_by_name_before(name: str) -> None:
    assert validate_all(COMPACTED[name], voters=3, may_compact=True) is None
    error = validate_all(COMPACTED[name], voters=3, may_compact=False)
    assert error is not None
    assert error.startswith("cleanup.policy: ")
    assert "compact" in error


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"compression.type": "zstd"}, "compression.type"),
        ({"remote.storage.enable": "true"}, "remote storage is not supported"),
        ({"min.insync.replicas": "3"}, "2 of 3"),
        ({"cleanup.policy": "truncate"}, "cleanup.policy"),
        ({"confluent.placement.constraints": "{}"}, "confluent.placement.constraints"),
    ],
)
def test_what_has_no_meaning_here_is_refused_in_words(configs: dict[str, str], said: str) -> None:
    error = validate_all(configs, voters=3, may_compact=True)
    assert error is not None
    assert said in error
