"""One pass over a Topic: create it, add partitions, set its configs, delete it in the end; refuse what Kafka cannot do.

Of the topic's configs only those are touched that the spec names, or that this object has set before and the spec names
no more. A config is recorded in the status before it is set, so that an operator that ends in between forgets none.
What a topic keeps for good is not reset: the cluster would answer that as done each time, and it would be there still.

A topic that exists before the object is *adopted* if it is already as specified, or if annotation `muster.dev/adopt`
says that it is meant. Whose topic it is, is remembered by its id: one that was deleted and made anew by others is
foreign.
"""

from typing import Any

from muster_operator.api.conditions import KafkaObjectCondition, Reason
from muster_operator.api.topic import KEPT_CONFIGS
from muster_operator.plan.actions import Action, ChangeKafka, Plan, SetFinalizer
from muster_operator.plan.conditions import condition
from muster_operator.plan.kafka_object import Judgement, as_plan, guarded, has_finalizer, not_known, released, shared
from muster_operator.plan.settings import PlanSettings
from muster_operator.world.kafka_object import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    SetTopicConfigs,
    TopicView,
    TopicWorld,
)
from muster_operator.world.views import Unknown


def plan_topic(world: TopicWorld, settings: PlanSettings) -> Plan:
    return as_plan(world, judge(world), settings)


def judge(world: TopicWorld) -> Judgement:
    """(decision, reason) and what follows from it."""
    if world.owner.deleting:
        return _ending(world)
    if world.elder is not None:
        return shared(world, f"topic {world.name}")
    if isinstance(world.where, Unknown):
        return not_known(world.where)
    if isinstance(world.topic, Unknown):
        return not_known(world.topic)
    guard = guarded(world, world.spec.deletes)
    if world.topic is None:
        return _create(world, guard)
    foreign = differences(world, world.topic)
    if not is_ours(world, world.topic) and foreign and not world.owner.adopts:
        message = f"topic {world.name} was there before: {'; '.join(foreign)}"
        return Judgement(
            decision=Reason.NOT_ADOPTED, reason=message, degraded=True, actions=released(world),
            fields=_fields(world, None),
        )  # fmt: skip
    return _keep(world, world.topic, guard)


def is_ours(world: TopicWorld, topic: TopicView) -> bool:
    return bool(topic.topic_id) and world.owner.status.get("topicId") == topic.topic_id


def differences(world: TopicWorld, topic: TopicView) -> list[str]:
    """What of the spec the topic is not."""
    spec = world.spec
    found = []
    if spec.partitions is not None and spec.partitions != topic.partitions:
        found.append(f"{topic.partitions} partitions, {spec.partitions} wanted")
    if spec.replication_factor is not None and spec.replication_factor != topic.replication_factor:
        found.append(f"replication factor {topic.replication_factor}, {spec.replication_factor} wanted")
    wrong = sorted(key for key, value in spec.texts.items() if topic.configs.get(key) != value)
    return found + ([f"other configs: {', '.join(wrong)}"] if wrong else [])


def _create(world: TopicWorld, guard: tuple[Action, ...]) -> Judgement:
    spec = world.spec
    change = CreateTopic(
        name=world.name, partitions=spec.partitions, replication_factor=spec.replication_factor, configs=spec.texts
    )
    return Judgement(
        decision=Reason.CREATING_TOPIC,
        reason=f"the cluster has no topic {world.name}",
        actions=(*guard, ChangeKafka(change=change)),
        fields=_fields(world, None),
    )


def _keep(world: TopicWorld, topic: TopicView, guard: tuple[Action, ...]) -> Judgement:
    spec, texts = world.spec, world.spec.texts
    recorded = set(_recorded(world)) if is_ours(world, topic) else set()
    fields = _fields(world, topic)
    actions: list[Action] = list(guard)
    told: list[str] = []
    if spec.partitions is not None and spec.partitions > topic.partitions:
        actions.append(ChangeKafka(change=AddPartitions(name=world.name, total=spec.partitions)))
        told.append(f"{topic.partitions} partitions become {spec.partitions}")
    wrong = {key: value for key, value in texts.items() if topic.configs.get(key) != value}
    former = sorted(key for key in recorded - set(texts) if key in topic.configs)
    reset = tuple(key for key in former if key not in KEPT_CONFIGS)
    unrecorded = sorted(set(wrong) - recorded)
    if (wrong or reset) and not unrecorded:
        actions.append(ChangeKafka(change=SetTopicConfigs(name=world.name, values=wrong, reset=reset)))
        told.append(f"configs are set: {', '.join(sorted({*wrong, *reset}))}")
    refused = _refused(world, topic)
    if refused is not None:
        return Judgement(
            decision=refused[0], reason=refused[1], degraded=True, actions=tuple(actions), fields=fields,
            soon=bool(unrecorded),
        )  # fmt: skip
    if told:
        return Judgement(decision=Reason.CHANGING, reason="; ".join(told), actions=tuple(actions), fields=fields)
    if unrecorded:
        message = f"configs will be set: {', '.join(unrecorded)}"
        return Judgement(
            decision=Reason.RECORDING_CHANGES, reason=message, actions=tuple(actions), fields=fields, soon=True
        )
    message = f"topic {world.name} is as specified"
    if former:
        message += f", but keeps what it was made with: {', '.join(former)}"
    return Judgement(decision=Reason.APPLIED, reason=message, ready=True, actions=tuple(actions), fields=fields)


def _refused(world: TopicWorld, topic: TopicView) -> tuple[Reason, str] | None:
    spec = world.spec
    if spec.partitions is not None and spec.partitions < topic.partitions:
        message = f"topic {world.name} has {topic.partitions} partitions and cannot have {spec.partitions}"
        return Reason.FEWER_PARTITIONS, f"{message}: Kafka takes none away"
    if spec.replication_factor is not None and spec.replication_factor != topic.replication_factor:
        message = f"topic {world.name} has replication factor {topic.replication_factor}, not {spec.replication_factor}"
        return Reason.REPLICATION_DIFFERS, f"{message}: move its replicas with kafka-reassign-partitions"
    return None


def _ending(world: TopicWorld) -> Judgement:
    """Delete the topic if that is wanted and it is ours; then let the object go."""
    if not has_finalizer(world):
        return Judgement(decision=Reason.DELETING, reason="nothing of it is to be removed", ready=None)
    topic_id = str(world.owner.status.get("topicId") or _just_made(world))
    free = Judgement(
        decision=Reason.DELETING, reason="nothing of it is left to remove", ready=None,
        actions=(SetFinalizer(present=False),),
    )  # fmt: skip
    if not world.spec.deletes or world.elder is not None or world.cluster_gone or not topic_id:
        return free
    if isinstance(world.where, Unknown):
        return not_known(world.where)
    if isinstance(world.topic, Unknown):
        return not_known(world.topic)
    if world.topic is not None and world.topic.topic_id != topic_id:
        return free
    # A broker that does not know the topic may be behind: the one that decides is asked in any case.
    change = ChangeKafka(change=DeleteTopic(name=world.name, topic_id=topic_id))
    last = (SetFinalizer(present=False),) if world.topic is None else ()
    return Judgement(
        decision=Reason.REMOVING, reason=f"topic {world.name} is being deleted", actions=(change, *last), ready=False
    )


def _just_made(world: TopicWorld) -> str:
    """The id of the topic that this object has created in its last pass, before it could record it; else ""."""
    created = condition(world.owner.status, KafkaObjectCondition.READY).get("reason") == Reason.CREATING_TOPIC
    if not created or not isinstance(world.topic, TopicView) or differences(world, world.topic):
        return ""
    return world.topic.topic_id


def _recorded(world: TopicWorld) -> tuple[str, ...]:
    return tuple(str(one) for one in world.owner.status.get("configs") or ())


def _fields(world: TopicWorld, topic: TopicView | None) -> dict[str, Any]:
    """`topic` None: there is none of ours."""
    found: dict[str, Any] = {"topicName": world.name}
    if topic is None:
        return found
    found |= {"partitions": topic.partitions, "replicationFactor": topic.replication_factor}
    if topic.topic_id:
        found["topicId"] = topic.topic_id
    before = _recorded(world) if is_ours(world, topic) else ()
    configs = sorted({one for one in before if one in topic.configs} | set(world.spec.texts))
    return found | ({"configs": configs} if configs else {})
