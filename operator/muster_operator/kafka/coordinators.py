"""Which broker coordinates which group: the one request that kafka-python's public admin client does not offer.

The client sends FindCoordinator inside its own methods and does not return the answer. The operator needs it: it asks
about groups coordinator by coordinator, so that a broker that is down hides only its own groups, and the status names
the coordinator. Without it each group of a cluster with a dead broker would cost a request and a time-out.

This is the only module that uses private names of kafka-python (tests/tidy holds that). They fit releases 3.0.12 and
later of 3.0, and `tests/operator/kafka/test_kafka_python.py` fails where an installed release has changed them.
"""

from collections.abc import Collection
from typing import Any

Untyped = Any


def find_coordinators(admin: Untyped, groups: Collection[str]) -> dict[str, int]:
    """Group id → broker id; one request for all groups that `admin` does not know yet. Raises kafka.errors.KafkaError:
    one group's error fails the request for all."""
    found = admin._manager.run(admin._find_coordinator_ids, list(groups))
    return {str(group): int(broker) for group, broker in found.items()}
