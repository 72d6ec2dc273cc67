"""The user that replicas are at an upstream Kafka.

What it does not do: log in (`upstream.login`); this file is read with the settings, where nothing of the wire is there.
"""

from dataclasses import dataclass, field

from muster_coordinator.security.session import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)
"""Those by which replicas log in."""


@dataclass(frozen=True, slots=True)
class Account:
    """A name, and how it is proved."""

    mechanism: str
    user: str
    password: str = field(repr=False)
