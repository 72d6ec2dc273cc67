"""Names of the environment variables by which a consumer pod gets its group's data: the interface to the user's
program.

Three families with the same data: `KAFKA_*` (customary in images and frameworks), `MUSTER_*`, `RIVVEN_*`; and Spring
Boot's own names, which need no code. Users cannot set any of them, because CEL refuses it, so the program and the
operator cannot disagree.
"""

from typing import Final

FAMILIES: Final = ("KAFKA", "MUSTER", "RIVVEN")

GROUP_INSTANCE_ID: Final = "GROUP_INSTANCE_ID"
GROUP_ID: Final = "GROUP_ID"
BOOTSTRAP_SERVERS: Final = "BOOTSTRAP_SERVERS"
TOPICS: Final = "TOPICS"
SESSION_TIMEOUT_MS: Final = "SESSION_TIMEOUT_MS"
HEARTBEAT_INTERVAL_MS: Final = "HEARTBEAT_INTERVAL_MS"
MAX_POLL_INTERVAL_MS: Final = "MAX_POLL_INTERVAL_MS"
ASSIGNMENT_STRATEGY: Final = "PARTITION_ASSIGNMENT_STRATEGY"
SUFFIXES: Final = (
    GROUP_INSTANCE_ID,
    GROUP_ID,
    BOOTSTRAP_SERVERS,
    TOPICS,
    SESSION_TIMEOUT_MS,
    HEARTBEAT_INTERVAL_MS,
    MAX_POLL_INTERVAL_MS,
    ASSIGNMENT_STRATEGY,
)

SPRING: Final = {
    GROUP_INSTANCE_ID: "SPRING_KAFKA_PROPERTIES_GROUP_INSTANCE_ID",
    GROUP_ID: "SPRING_KAFKA_CONSUMER_GROUP_ID",
    BOOTSTRAP_SERVERS: "SPRING_KAFKA_BOOTSTRAP_SERVERS",
    SESSION_TIMEOUT_MS: "SPRING_KAFKA_PROPERTIES_SESSION_TIMEOUT_MS",
    HEARTBEAT_INTERVAL_MS: "SPRING_KAFKA_PROPERTIES_HEARTBEAT_INTERVAL_MS",
    MAX_POLL_INTERVAL_MS: "SPRING_KAFKA_PROPERTIES_MAX_POLL_INTERVAL_MS",
    ASSIGNMENT_STRATEGY: "SPRING_KAFKA_PROPERTIES_PARTITION_ASSIGNMENT_STRATEGY",
}
"""Spring Boot's relaxed binding: `spring.kafka.properties[group.instance.id]` and so on."""

JAVA_ASSIGNORS: Final = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""Java clients take class names for partition.assignment.strategy."""

OPERATOR_NAMES: Final = tuple(
    sorted({f"{family}_{suffix}" for family in FAMILIES for suffix in SUFFIXES} | set(SPRING.values()))
)


def names_of(suffix: str) -> tuple[str, ...]:
    """All variable names with this value."""
    spring = (SPRING[suffix],) if suffix in SPRING else ()
    return (*(f"{family}_{suffix}" for family in FAMILIES), *spring)
