"""Decisions about a Topic: made, adopted, changed, refused, deleted; only what is its own is ever touched."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller.topic_configs import OWN
from muster_operator.api.topic import KEPT_CONFIGS
from muster_operator.plan.actions import ChangeKafka
from muster_operator.world.kafka_object import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    KafkaChange,
    SetTopicConfigs,
)
from muster_operator.world.views import Unknown

from tests.operator.plan.model_kafka import Model

SILENT = Unknown(reason="BootstrapUnreachable", message="no broker answers at kafka:9092")


def made(**spec: Any) -> Model:
    model = Model("Topic", **spec)
    model.settle()
    assert model.ready == ("True", "Applied")
    return model


def theirs(model: Model, partitions: int = 3, factor: int = 3, **configs: str) -> str:
    """Somebody else creates the topic."""
    change = CreateTopic(name="it", partitions=partitions, replication_factor=factor, configs=configs)
    return model.kafka.create(change).topic_id


def test_it_is_created_as_specified_and_then_left_alone() -> None:
    model = made(partitions=4, replicationFactor=2, configs={"retention.ms": 5, "cleanup.policy": "delete"})
    (change,) = model.kafka.changes
    assert change == CreateTopic(
        name="it", partitions=4, replication_factor=2, configs={"retention.ms": "5", "cleanup.policy": "delete"}
    )
    assert model.status["partitions"] == 4
    assert model.plan().actions == ()


def test_a_topic_over_streams_that_are_there_already_is_created_as_such() -> None:
    configs = {"redis.stream": "korvet:{topic}:{partition}", "redis.sequence.bits": 12, "redis.value.field": "data"}
    model = made(configs={"topic.store": "redis", **configs})
    (change,) = model.kafka.changes
    texts = {"topic.store": "redis", **configs, "redis.sequence.bits": "12"}
    assert change == CreateTopic(name="it", partitions=None, replication_factor=None, configs=texts)
    assert model.plan().actions == ()


def test_what_the_spec_does_not_name_is_the_brokers_choice() -> None:
    model = made()
    assert model.kafka.changes == [CreateTopic(name="it", partitions=None, replication_factor=None, configs={})]
    model.kafka.topics["it"] = model.kafka.topics["it"].__class__(
        topic_id=model.kafka.topics["it"].topic_id, partitions=9, replication_factor=3, configs={"a.b": "c"}
    )
    model.settle()
    assert model.ready == ("True", "Applied"), "others may add partitions and set what it does not name"
    assert len(model.kafka.changes) == 1


def test_more_partitions_are_added_and_fewer_refused_beside_what_can_be_done() -> None:
    model = made(partitions=4)
    model.edit(partitions=6)
    model.settle()
    assert model.kafka.changes[-1] == AddPartitions(name="it", total=6)
    model.edit(partitions=5, configs={"retention.ms": "7"})
    model.settle()
    assert model.ready == ("False", "FewerPartitions")
    assert model.kafka.topics["it"].partitions == 6
    assert model.kafka.topics["it"].configs == {"retention.ms": "7"}, "the rest of the spec is carried out"
    model.edit(partitions=6)
    model.settle()
    assert model.ready == ("True", "Applied")


def test_another_replication_factor_is_refused() -> None:
    model = made(replicationFactor=3)
    model.edit(replicationFactor=2)
    model.settle()
    assert model.ready == ("False", "ReplicationDiffers")
    assert len(model.kafka.changes) == 1


def test_a_config_that_is_taken_away_is_reset_and_that_of_others_is_not() -> None:
    model = made(configs={"retention.ms": "5"})
    live = model.kafka.topics["it"]
    model.kafka.topics["it"] = live.__class__(
        topic_id=live.topic_id, partitions=1, replication_factor=3, configs={**live.configs, "segment.ms": "9"}
    )
    model.edit(configs={})
    model.settle()
    assert model.kafka.changes[-1] == SetTopicConfigs(name="it", values={}, reset=("retention.ms",))
    assert model.kafka.topics["it"].configs == {"segment.ms": "9"}


def test_what_a_topic_keeps_for_good_is_not_reset_again_and_again_when_it_is_taken_away() -> None:
    """The coordinator answers such a removal as done and keeps the value (`api.stream_configs.kept`, ADR 95)."""
    kept = {"topic.store": "redis", "redis.stream": "korvet:{topic}", "redis.value.field": "data"}
    model = made(configs={**kept, "redis.sequence.bits": 12, "retention.ms": 5})
    model.edit(configs={"redis.sequence.bits": 12})
    model.settle()
    assert model.kafka.changes[1:] == [SetTopicConfigs(name="it", values={}, reset=("retention.ms",))]
    assert model.kafka.topics["it"].configs == {**kept, "redis.sequence.bits": "12"}
    assert model.ready == ("True", "Applied")
    (ready,) = [one for one in model.status["conditions"] if one["type"] == "Ready"]
    assert "redis.stream, redis.value.field, topic.store" in ready["message"], "why nothing becomes of it"
    assert "redis.sequence.bits" not in ready["message"]
    model.edit(configs={"topic.store": "redis"})
    model.settle()
    assert len(model.kafka.changes) == 2
    model.edit(configs={**kept, "redis.sequence.bits": 12})
    model.settle()
    assert len(model.kafka.changes) == 2, "named again, it is what it was"
    model.edit(configs={**kept, "redis.sequence.bits": 13})
    assert isinstance(model.plan().actions[0], ChangeKafka), "another value is asked for, and refused by the cluster"


def test_each_config_that_the_coordinator_keeps_for_good_is_known() -> None:
    assert frozenset(OWN) == KEPT_CONFIGS


def test_a_config_is_recorded_before_it_is_set() -> None:
    model = made()
    model.edit(configs={"retention.ms": "5"})
    plan = model.step()
    assert (plan.decision, plan.actions) == ("RecordingChanges", ())
    assert model.status["configs"] == ["retention.ms"]
    assert isinstance(model.step().actions[0], ChangeKafka)


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_the_policy_decides_what_becomes_of_the_topic(policy: str) -> None:
    model = made(deletionPolicy=policy)
    model.delete()
    model.settle()
    assert model.live is None
    assert ("it" in model.kafka.topics) == (policy == "Retain")


def test_the_finalizer_is_there_before_the_topic_and_goes_when_the_policy_says_so() -> None:
    model = Model("Topic", deletionPolicy="Delete")
    model.step(crash_after=1)
    assert model.live is not None
    assert model.live["metadata"]["finalizers"]
    assert model.kafka.changes == []
    model.settle()
    model.edit(deletionPolicy="Retain")
    model.settle()
    assert "finalizers" not in model.live["metadata"]


def test_one_that_is_deleted_right_after_it_was_made_is_not_left_behind() -> None:
    model = Model("Topic", deletionPolicy="Delete", partitions=2)
    model.step()
    model.delete()
    model.settle()
    assert (model.live, model.kafka.topics) == (None, {})


def test_a_cluster_that_does_not_answer_is_neither_empty_nor_forgotten() -> None:
    model = made(deletionPolicy="Delete")
    model.kafka.silent = SILENT
    plan = model.step()
    assert (plan.actions, model.ready) == ((), ("Unknown", "Unreachable"))
    assert model.status["topicId"], "what is known of it stays"
    model.delete()
    model.settle()
    assert model.live is not None, "it may not go before its topic"
    model.kafka.silent = None
    model.settle()
    assert (model.live, model.kafka.topics) == (None, {})


def test_retain_is_a_way_out_while_the_cluster_does_not_answer() -> None:
    model = made(deletionPolicy="Delete")
    model.kafka.silent = SILENT
    model.delete()
    model.settle()
    model.edit(deletionPolicy="Retain")
    model.settle()
    assert model.live is None


def test_nothing_holds_the_object_of_a_cluster_that_does_not_exist_any_more() -> None:
    model = made(deletionPolicy="Delete")
    model.where = Unknown(reason="ClusterNotFound", message="there is none")
    model.delete()
    model.settle()
    assert model.live is not None, "that the cache lacks it is not enough"
    model.cluster_gone = True
    model.settle()
    assert model.live is None
    assert not [one for one in model.kafka.changes if isinstance(one, DeleteTopic)]


def test_a_topic_that_was_there_is_adopted_if_it_is_as_specified() -> None:
    model = Model("Topic", partitions=3, configs={"a.b": "c"})
    theirs(model, **{"a.b": "c", "other": "x"})
    model.settle()
    assert model.ready == ("True", "Applied")
    assert model.kafka.changes == []


def test_one_that_differs_is_refused_until_that_is_meant() -> None:
    model = Model("Topic", partitions=6, configs={"a.b": "c"}, deletionPolicy="Delete")
    theirs(model)
    model.settle()
    assert model.ready == ("False", "NotAdopted")
    assert model.kafka.changes == []
    assert model.live is not None
    assert "finalizers" not in model.live["metadata"], "it has nothing to remove"
    model.annotate(**{"muster.dev/adopt": "true"})
    model.settle()
    assert model.ready == ("True", "Applied")
    assert model.kafka.topics["it"].partitions == 6


def test_one_of_the_name_that_others_have_made_anew_is_foreign_and_is_not_deleted() -> None:
    model = made(partitions=2, deletionPolicy="Delete")
    del model.kafka.topics["it"]
    foreign = theirs(model, partitions=5)
    model.settle()
    assert model.ready == ("False", "NotAdopted")
    model.delete()
    model.settle()
    assert model.live is None
    assert model.kafka.topics["it"].topic_id == foreign


def test_the_younger_of_two_objects_touches_nothing_and_names_the_older() -> None:
    model = Model("Topic", partitions=2, deletionPolicy="Delete")
    model.elder = "ns/first"
    theirs(model, partitions=2)
    model.settle()
    assert model.ready == ("False", "NameShared")
    assert "ns/first" in str(model.status["conditions"])
    model.delete()
    model.settle()
    assert (model.live, model.kafka.changes) == (None, [])


def test_a_paused_one_only_reports() -> None:
    model = made(partitions=2)
    model.annotate(**{"muster.dev/paused": "true"})
    model.edit(partitions=4)
    model.settle()
    assert model.kafka.topics["it"].partitions == 2
    assert model.ready == ("True", "Applied"), "what it was when it was paused"


CONFIGS = st.dictionaries(st.sampled_from(["a.a", "b.b", "c.c"]), st.sampled_from(["1", "2"]), max_size=3)


@given(
    first=CONFIGS, later=st.lists(CONFIGS, max_size=3), foreign=CONFIGS,
    crashes=st.lists(st.integers(0, 3), max_size=4), deletes=st.booleans(),
)  # fmt: skip
def test_configs_of_others_outlive_any_change_and_any_end_of_the_operator(
    first: dict[str, str], later: list[dict[str, str]], foreign: dict[str, str], crashes: list[int], deletes: bool
) -> None:
    """Others have set what the spec never names; the operator ends anywhere; in the end the topic has exactly both."""
    model = Model("Topic", partitions=1, configs=first, deletionPolicy="Delete" if deletes else "Retain")
    model.settle()
    named = set(first).union(*later) if later else set(first)
    others = {key: value for key, value in foreign.items() if key not in named}
    live = model.kafka.topics["it"]
    model.kafka.topics["it"] = live.__class__(
        topic_id=live.topic_id, partitions=1, replication_factor=3, configs={**live.configs, **others}
    )
    ends = iter(crashes)
    for configs in later:
        model.edit(configs=configs)
        for crash in (next(ends, None), next(ends, None)):
            model.step(crash_after=crash)
    model.settle()
    assert model.kafka.topics["it"].configs == {**others, **(later[-1] if later else first)}
    before: list[KafkaChange] = list(model.kafka.changes)
    model.settle()
    assert model.kafka.changes == before, "what is as specified costs no change"
    model.delete()
    model.settle()
    assert model.live is None
    assert ("it" in model.kafka.topics) != deletes
