"""Produce by the rights of the client.

What this does not do: look into batches. One that says that it is transactional, in a request that names no
transactional id, is refused by the upstream itself.
"""

from muster_coordinator.security.resources import Operation, ResourceType
from muster_coordinator.upstream.rights.listed import judge_listed
from muster_coordinator.upstream.rights.verdict import DENIED, Rights, Told, Verdict, transactional_id
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import Api


def judge_produced(request: Value, rights: Rights) -> Verdict:
    """A transactional batch needs the right to its transaction, too. A denial of what wants no answer ends the
    connection."""
    named = request.transactional_id
    if named is not None and not rights.may(Operation.WRITE, transactional_id(named)):
        code, _ = DENIED[ResourceType.TRANSACTIONAL_ID]
        verdict: Verdict = Told(
            {
                "responses": [
                    {
                        "name": one.name,
                        "partition_responses": [
                            {"index": part.index, "error_code": code, "base_offset": -1, "record_errors": ()}
                            for part in one.partition_data
                        ],
                    }
                    for one in request.topic_data
                ]
            }
        )
    else:
        verdict = judge_listed(Api.PRODUCE, request, rights)
    if not request.acks and (isinstance(verdict, Told) or verdict.request is not None):
        return Told(None)
    return verdict
