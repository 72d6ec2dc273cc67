"""Which release of the coordinator an image holds, and what that release knows: setting names and feature levels.

Problem: an image cannot be queried before it runs, and the first pod with a wrong one does harm: an unknown key in its
settings stops its start, and a feature level above what it knows means data that it cannot read (decision 16).
Mechanism: the release is taken from the object (`spec.version`), from being the operator's own image, or from a tag
that is a version. Otherwise it is unknown: settings stay those that the image's pods were made for (`plan.release`),
and of a new image the coordinator itself decides: it does not start, and the roll-out halts at the first pod.

Rows are added when something changes: a feature level in `FEATURE_LEVELS`, a key that the operator begins to write in
`KEYS_SINCE`. Tests compare both with the coordinator.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from typing_extensions import override


class Release(NamedTuple):
    """X.Y.Z. A pre-release or build counts as the release itself."""

    major: int
    minor: int
    patch: int

    @override
    def __str__(self) -> str:
        return ".".join(map(str, self))


VERSION_TEXT: Final = r"^v?[0-9]{1,5}\.[0-9]{1,5}\.[0-9]{1,5}([-+.][0-9A-Za-z.+-]*)?$"
_PARTS: Final = re.compile(r"v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})(?:[-+.][0-9A-Za-z.+-]*)?")

FEATURE_LEVELS: Final[Sequence[tuple[Release, int]]] = (
    (Release(0, 1, 0), 1),
    (Release(0, 2, 0), 3),
    (Release(0, 3, 0), 4),
)
"""(release, highest feature level that it and later releases know), ascending."""
MEMBERS_LEVEL: Final = 3
"""Feature level from which on coordinators come and go."""
JOINS_SINCE: Final = Release(0, 2, 0)
"""The first release whose coordinators join a formed cluster."""
TAINTS_SINCE: Final = Release(0, 2, 0)
"""Releases whose pods were made with a spread that counts no tainted node. Pods of an earlier one that a cluster stays
at keep theirs: a new part of the template would restart them with each upgrade of the operator."""
UPSTREAM_SINCE: Final = Release(0, 3, 0)
"""The first release whose coordinators use the topics of an existing Kafka. Its keys are left out for none: without
them a coordinator would serve topics of its own."""
KEYS_SINCE: Final[Mapping[str, Release]] = {
    "broker.rack": Release(0, 2, 0),
    "muster.peer.advertised": Release(0, 2, 0),
    "muster.peer.security": Release(0, 2, 0),
    "muster.peer.security.accept": Release(0, 2, 0),
    "muster.peer.secret.file": Release(0, 2, 0),
    "muster.cluster.formed": Release(0, 3, 0),
}
"""Key that the operator writes → the first release that knows it. Keys of the first release are not listed."""


def parse_release(text: str) -> Release | None:
    """`1.2.3`, `v1.2.3-rc.1`; None for anything else."""
    found = _PARTS.fullmatch(text)
    return Release(*(int(one) for one in found.groups())) if found else None


def release_of(image: str, *, told: str | None, operator_image: str, operator_release: str) -> Release | None:
    """The release in `image`. `told`: `spec.version`. None: unknown."""
    if told is not None:
        return parse_release(told)
    if image == operator_image:
        return parse_release(operator_release)
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return parse_release(tag)


def level_of(release: Release, levels: Sequence[tuple[Release, int]] = FEATURE_LEVELS) -> int | None:
    """The highest feature level that a release knows. None: it is newer than every row and may know more."""
    if release > levels[-1][0]:
        return None
    known = [level for since, level in levels if since <= release]
    return known[-1] if known else 1


def knows(release: Release | None, key: str, since: Mapping[str, Release] = KEYS_SINCE) -> bool:
    """Whether one of the operator's keys may be written for a release. An unknown release is assumed to be the
    operator's own."""
    return release is None or key not in since or since[key] <= release
