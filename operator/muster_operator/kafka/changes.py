"""One change of `world.kafka_object` by kafka-python. Blocking."""

from typing import Any

from muster_operator.kafka import quotas, topics, users
from muster_operator.world.kafka_object import (
    AddAcls,
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    KafkaChange,
    RemoveAcls,
    RemoveCredential,
    SetPassword,
    SetQuotas,
    SetTopicConfigs,
)

Untyped = Any


def carry_out(admin: Untyped, change: KafkaChange, password: str) -> None:
    """Raises kafka.errors.KafkaError, Transient or Refused."""
    match change:
        case CreateTopic():
            topics.create(admin, change)
        case AddPartitions():
            topics.add_partitions(admin, change)
        case SetTopicConfigs():
            topics.set_configs(admin, change)
        case DeleteTopic():
            topics.delete(admin, change)
        case SetPassword():
            assert password, "a password is handed in"
            users.set_password(admin, change, password)
        case RemoveCredential():
            users.remove_credential(admin, change)
        case AddAcls():
            users.add_acls(admin, change.principal, change.acls)
        case RemoveAcls():
            users.remove_acls(admin, change.principal, change.acls)
        case SetQuotas():
            quotas.set_quotas(admin, change)
