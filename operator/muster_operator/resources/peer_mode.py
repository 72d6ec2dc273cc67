"""How a coordinator pod knows its peers: what it dials, and what it accepts besides. A value of its pod's template.

The pods carry it as an annotation, because settings are in a ConfigMap that may be gone by the time they are compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_operator.api.security import NONE, SECRET, TLS
from muster_operator.naming import PEERS_ANNOTATION

WORDS = (NONE, SECRET, TLS)


@dataclass(frozen=True, slots=True)
class PeerMode:
    dials: str = NONE
    besides: tuple[str, ...] = ()
    """Accepted besides, in alphabetical order."""

    @property
    def accepted(self) -> frozenset[str]:
        return frozenset({self.dials, *self.besides})

    @property
    def text(self) -> str:
        return ",".join((self.dials, *self.besides))

    def links_to(self, other: "PeerMode") -> bool:
        """One of the two dials in a way that the other accepts."""
        return self.dials in other.accepted or other.dials in self.accepted


OPEN = PeerMode()
BY_SECRET = PeerMode(SECRET)


def mode_of(annotations: Mapping[str, str]) -> PeerMode:
    """Of a pod. Anybody who may write pods may write anything there: what is no mode is taken for the one without an
    annotation, which costs a roll-out and no link."""
    dials, *besides = str(annotations.get(PEERS_ANNOTATION, NONE)).split(",")
    if not {dials, *besides} <= set(WORDS):
        return OPEN
    return PeerMode(dials, tuple(besides))
