"""One topic: look at it, create it, change it, delete it. Blocking, through kafka-python's public admin client.

`None` is said only when a broker says that it does not know the topic; any other error is raised. What the cluster
refuses for good is `Refused` with its own words; what may be different in a moment is raised as kafka-python's error or
as `Transient`.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

import kafka.errors
from kafka.admin import ConfigResource, ConfigResourceType

from muster_operator.errors import Refused, Transient
from muster_operator.limits import MESSAGE_CHARS_MAX
from muster_operator.world.kafka_object import AddPartitions, CreateTopic, DeleteTopic, SetTopicConfigs, TopicView

Untyped = Any
_OF_THE_TOPIC: Final = "DYNAMIC_TOPIC_CONFIG"
REFUSALS: Final = frozenset({17, 29, 30, 31, 35, 37, 38, 39, 40, 42, 44, 53, 54, 73, 93})
"""Kafka's codes that asking again does not change: names, rights, versions, values, policies, limits."""
_UNKNOWN_TOPIC: Final = 3
_UNKNOWN_TOPIC_ID: Final = 100
_EXISTS: Final = 36


def judge(code: int, what: str, said: str | None) -> None:
    """Raises Refused or Transient for an error code; returns for 0."""
    if not code:
        return
    name = kafka.errors.for_code(code).__name__
    words = f"{what}: {name}" + (f": {said}" if said else "")
    if code in REFUSALS:
        raise Refused("ClusterRefuses", words[:MESSAGE_CHARS_MAX])
    raise Transient("ClusterBusy", f"{what}: {name}")


def look(admin: Untyped, name: str) -> TopicView | None:
    """Raises kafka.errors.KafkaError, Refused or Transient."""
    (found,) = admin.describe_topics([name])
    code = int(found.get("error_code") or 0)
    if code == _UNKNOWN_TOPIC:
        return None
    judge(code, f"topic {name}", None)
    partitions = found.get("partitions") or ()
    if not partitions:
        raise Transient("ClusterBusy", f"topic {name} has no partitions yet")
    first = min(partitions, key=lambda one: int(one["partition_index"]))
    return TopicView(
        topic_id=str(found.get("topic_id") or ""),
        partitions=len(partitions),
        replication_factor=len(first.get("replica_nodes") or ()),
        configs=_configs(admin, name),
    )


def _configs(admin: Untyped, name: str) -> Mapping[str, str]:
    answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    found = (answer.get("topic") or {}).get(name)
    if found is None:
        raise Transient("ClusterBusy", f"the configs of topic {name} were not answered")
    return {
        str(key): str(one.get("value"))
        for key, one in found.items()
        if one.get("config_source") == _OF_THE_TOPIC and one.get("value") is not None
    }


def create(admin: Untyped, change: CreateTopic) -> None:
    wanted = {
        "num_partitions": change.partitions or -1,
        "replication_factor": change.replication_factor or -1,
        "configs": dict(change.configs),
    }
    answer = admin.create_topics({change.name: wanted}, raise_errors=False)
    (found,) = answer["topics"]
    code = int(found["error_code"])
    if code == _EXISTS:
        raise Transient("TopicExists", f"topic {change.name} exists by now; it is looked at again")
    judge(code, f"topic {change.name}", found.get("error_message"))


def add_partitions(admin: Untyped, change: AddPartitions) -> None:
    answer = admin.create_partitions({change.name: change.total}, raise_errors=False)
    (found,) = answer.results
    judge(int(found.error_code), f"{change.total} partitions of topic {change.name}", found.error_message)


def set_configs(admin: Untyped, change: SetTopicConfigs) -> None:
    configs: dict[str, Untyped] = dict(change.values)
    configs |= dict.fromkeys(change.reset, ("DELETE", None))
    resource = ConfigResource(ConfigResourceType.TOPIC, change.name, configs)
    answer = admin.alter_configs([resource], raise_on_unknown=False)
    said = str(answer["topic"][change.name])
    if said != "OK":
        # kafka-python gives the error as text: `[Error 40] InvalidConfigurationError: ...`.
        raise Refused("ClusterRefuses", f"configs of topic {change.name}: {said}"[:MESSAGE_CHARS_MAX])


def delete(admin: Untyped, change: DeleteTopic) -> None:
    """By id where it is known, so that a topic that has taken the name meanwhile stays."""
    try:
        named: Untyped = uuid.UUID(change.topic_id) if change.topic_id else change.name
    except ValueError:
        named = change.name
    if named is not change.name and named.int == 0:
        named = change.name
    answer = admin.delete_topics([named], raise_errors=False)
    (found,) = answer["topics"]
    code = int(found["error_code"])
    if code not in (_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID):
        judge(code, f"topic {change.name}", found.get("error_message"))
