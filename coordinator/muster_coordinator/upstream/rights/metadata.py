"""Metadata and DescribeCluster by the rights of the client: topics that he may not describe are not there for him.

Problem: a question about all topics is answered with those of others; one that names a topic may make it; and the
operations that an answer says are allowed (KIP-430) are those of the replicas' user. Mechanism: named topics are judged
before the question goes on, and those in the answer when it comes; a question goes on with the leave to make topics
only if its client may make each of them; nobody is told what is allowed. What this does not do: addresses
(`upstream.brokers`), or topics by id, which only the upstream knows (`rights.judge`).
"""

from muster_coordinator.errors import WireError
from muster_coordinator.security.resources import CLUSTER, Operation, ResourceType
from muster_coordinator.upstream.rights.verdict import (
    DENIED,
    GoesOn,
    Message,
    Rights,
    Verdict,
    message_of,
    topic,
)
from muster_coordinator.wire.schema import Value

_NULL_IS_ALL_SINCE, _LEAVE_TO_MAKE_SINCE = 1, 4


def judge_metadata(version: int, request: Value, rights: Rights) -> Verdict:
    """Of a question that names topics, or asks for all, in a version without ids.

    It goes on even if all of its topics are denied: an answer tells brokers, too. A list of none asks for these only.
    Before 4 a question may make topics and cannot say that it must not, so it is asked in that. Raises `WireError` for
    a topic without a name.
    """
    asked = request.topics
    if any(one.name is None for one in asked or ()):
        raise WireError("a topic without a name")
    all_topics = asked is None or (version < _NULL_IS_ALL_SINCE and not asked)
    kept = [one for one in asked or () if rights.may(Operation.DESCRIBE, topic(one.name))]
    code, _ = DENIED[ResourceType.TOPIC]
    seen = {one.name for one in kept}
    denied = [
        {"error_code": code, "name": one.name, "is_internal": False, "partitions": ()}
        for one in asked or ()
        if one.name not in seen
    ]
    makes = not all_topics and all(_may_make(rights, one.name) for one in kept)
    changed = {
        **message_of(request),
        "topics": None if all_topics else message_of(kept),
        "allow_auto_topic_creation": request.allow_auto_topic_creation and makes,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }

    def keeps(name: str) -> bool:
        return rights.sees(Operation.DESCRIBE, topic(name))

    def answer(given: Value) -> Message:
        topics = [message_of(one) for one in given.topics if keeps(one.name)]
        return {**message_of(given), "topics": [*topics, *denied]}

    asked_in = max(version, _LEAVE_TO_MAKE_SINCE)
    return GoesOn(changed, answer if all_topics or denied else None, asked_in, keeps if all_topics else None)


def _may_make(rights: Rights, name: str) -> bool:
    """Denied, the topic is not made, which is no denial of the question."""
    return rights.may_instead(Operation.CREATE, CLUSTER) or rights.sees(Operation.CREATE, topic(name))


def judge_cluster(request: Value) -> Verdict:
    """DescribeCluster, which everybody may ask."""
    return GoesOn({**message_of(request), "include_cluster_authorized_operations": False})
