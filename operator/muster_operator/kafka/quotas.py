"""Quotas of one user: the two requests that kafka-python has as messages and not as methods of its admin client.

Like `coordinators` it uses the client's way to send a request, by its private name; the test of that module holds it.
Only the entity "this user, any client id" is asked about and changed.
"""

from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from muster_operator.kafka.topics import judge
from muster_operator.world.kafka_object import SetQuotas

Untyped = Any
_USER: Final = "user"
_EXACT: Final = 0


def user_quotas(admin: Untyped, name: str) -> Mapping[str, float]:
    """Raises kafka.errors.KafkaError, Refused or Transient."""
    of = DescribeClientQuotasRequest.ComponentData(entity_type=_USER, match_type=_EXACT, match=name)
    answer = _send(admin, DescribeClientQuotasRequest(components=[of], strict=True))
    judge(int(answer.error_code), f"quotas of {name}", answer.error_message)
    return {str(one.key): float(one.value) for entry in answer.entries or () for one in entry.values}


def set_quotas(admin: Untyped, change: SetQuotas) -> None:
    entry = AlterClientQuotasRequest.EntryData
    operations = [entry.OpData(key=key, value=value, remove=False) for key, value in change.values.items()]
    operations += [entry.OpData(key=key, value=0.0, remove=True) for key in change.removed]
    entity = entry.EntityData(entity_type=_USER, entity_name=change.user)
    request = AlterClientQuotasRequest(entries=[entry(entity=[entity], ops=operations)], validate_only=False)
    for found in _send(admin, request).entries:
        judge(int(found.error_code), f"quotas of {change.user}", found.error_message)


def _send(admin: Untyped, request: Untyped) -> Untyped:
    return admin._manager.run(admin._manager.send, request)
