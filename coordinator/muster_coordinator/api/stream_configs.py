"""The configs `redis.*` and `topic.store` of a topic that is made or changed: what their values alone do not say.

Problem: each value may be right by itself and still be one that this topic cannot have: a replica of an older release
would serve it otherwise, its streams are another topic's, our own, or data that this client has no business with, or
the topic was made with another one. Mechanism:
each is judged before anything is proposed, but that two topics are one stream is judged by the controller's log
(`controller.topics`), since this image may be behind; here only for a request that does no more than ask. What this
does not do: look whether such a stream is there, or who else writes it.
"""

from collections.abc import Mapping

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import MEMBERS_LEVEL, STREAM_CONFIGS_LEVEL, ClusterImage, Topic
from muster_coordinator.controller.stream_names import (
    STREAM_CONFIG,
    StreamNames,
    length_error,
    names_of,
    with_same_stream,
)
from muster_coordinator.controller.topic_configs import OF_REDIS, OWN
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.topics.stores import STORE_CONFIG

_NO_CONFIGS: Mapping[str, str] = {}


def judge_level(image: ClusterImage, overrides: Mapping[str, str] = _NO_CONFIGS) -> None:
    """Raises ApiError where some replica may not know of topics in Redis, and would serve one from its segments; or not
    of these configs, and would serve another stream, or other offsets."""
    if image.feature_level < MEMBERS_LEVEL:
        why = "topics can be in Redis once all replicas run release 0.2.0 and the feature level is 3"
        raise ApiError(Code.POLICY_VIOLATION, why)
    asked = sorted(OF_REDIS & overrides.keys())
    if asked and image.feature_level < STREAM_CONFIGS_LEVEL:
        why = f"{asked[0]} is possible once all replicas run release 0.3.0 and the feature level is 4"
        raise ApiError(Code.POLICY_VIOLATION, why)


def judge_streams(
    services: Services,
    context: RequestContext,
    image: ClusterImage,
    topic: str,
    partitions: int,
    pattern: str,
    *,
    validate_only: bool,
) -> None:
    """Raises ApiError if this client cannot make a topic of these streams. `pattern`: of `redis.stream`, and valid.

    Who may create a topic may read and write what it has made; who names streams gives access to somebody else's data,
    as who sets ACLs does, so that is the right to ask for."""
    code = services.cluster_code(context, Operation.ALTER)
    if code is not Code.NONE:
        raise ApiError(code, f"{STREAM_CONFIG}: who gives access to streams that are there needs Alter on the cluster")
    names = StreamNames.parse(pattern, topic)
    error = length_error(names)
    if partitions > 1 and not names.numbered:
        error = "the streams of more than one partition are told apart by {partition}"
    elif names.may_begin_with(f"{services.settings.redis_prefix}:{{"):
        error = f"streams that begin with {services.settings.redis_prefix}:{{ are Muster's own (redis.prefix)"
    elif validate_only:
        other = with_same_stream(names, image.topics.values())
        error = error if other is None else f"topic {other} has one of these streams"
    if error is not None:
        raise ApiError(Code.INVALID_CONFIG, f"{STREAM_CONFIG}: {error}")


def may_have_more(topic: Topic) -> bool:
    """Whether partitions can be added: of a stream with a plain name there is one."""
    names = names_of(topic)
    return names is None or names.numbered


def kept(topic: Topic, overrides: dict[str, str]) -> str | None:
    """Put into `overrides` what a topic has for good, also where a client removes it with all others. Why it cannot
    have these overrides, if they are to change it; else None."""
    has = dict(topic.configs)
    for name in OWN:
        before = has.get(name)
        if before is not None:
            overrides.setdefault(name, before)
        if overrides.get(name) != before:
            what = "stays where it was made" if name == STORE_CONFIG else "keeps what it was made with"
            return f"{name}: a topic {what}"
    return None
