"""Fetch by the rights of the client.

Problem: in a session (KIP-227) a client names its partitions once, and a right that ends afterwards would be known to
nobody who judges requests by what they name. Mechanism: there are no sessions: a request that would begin one goes on
as one without, so that its client names all of its partitions in each, and each is judged as it comes. What this does
not do: topics by id (from 13 on), which only the upstream knows.
"""

from muster_coordinator.errors import Code
from muster_coordinator.security.resources import CLUSTER, Operation, ResourceType
from muster_coordinator.upstream.rights.verdict import (
    DENIED,
    GoesOn,
    Message,
    Rights,
    Told,
    Verdict,
    message_of,
    parted,
    topic,
)
from muster_coordinator.wire.schema import Value

NO_SESSION, SESSIONLESS_EPOCH = 0, -1


def judge_fetch(request: Value, rights: Rights) -> Verdict:
    """Up to 12. A follower's, which names itself, needs the right of a broker."""
    if request.session_id != NO_SESSION:
        return Told({"error_code": Code.FETCH_SESSION_ID_NOT_FOUND, "session_id": NO_SESSION, "responses": ()})
    follows = request.replica_id >= 0
    trusted = not follows or rights.may(Operation.CLUSTER_ACTION, CLUSTER)
    kept, denied = parted(
        request.topics, lambda one: trusted and (follows or rights.may(Operation.READ, topic(one.topic)))
    )
    told = [_denied(one) for one in denied]
    if denied and not kept:
        return Told({"error_code": Code.NONE, "session_id": NO_SESSION, "responses": told})
    changed = {**message_of(request), "session_epoch": SESSIONLESS_EPOCH, "topics": message_of(kept)}

    def answer(given: Value) -> Message:
        return {**message_of(given), "responses": [*message_of(given.responses), *told]}

    if not denied and request.session_epoch == SESSIONLESS_EPOCH:
        return GoesOn()
    return GoesOn(changed, answer if denied else None)


def _denied(one: Value) -> Message:
    code, _ = DENIED[ResourceType.TOPIC]
    return {
        "topic": one.topic,
        "partitions": [
            {
                "partition_index": part.partition,
                "error_code": code,
                "high_watermark": -1,
                "aborted_transactions": (),
                "records": b"",
            }
            for part in one.partitions
        ],
    }
