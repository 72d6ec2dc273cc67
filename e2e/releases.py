"""Earlier releases as they were: a chart and an image from the files of `tests/releases`, a folder for each commit.

Its wheel and its packed chart are kept there; neither the history nor a package index is asked. The image is made as
ours is (`images`), from that wheel, and imported where tests need it rather than on every node from the start.
"""

from dataclasses import dataclass
from pathlib import Path

from e2e.more_images import load
from e2e.node import images, paths
from e2e.node.errors import Unavailable
from e2e.node.session import Description

FOLDER = paths.ROOT / "tests" / "releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a user of it had."""

    chart: Path
    image: str
    """For a pod's `image:`; on every node."""


def at(commit: str, node: Description) -> Release:
    """`Unavailable` where the release's files are not there."""
    folder = FOLDER / commit
    wheel, chart = _only(folder, "muster-*.whl"), _only(folder / "chart", "muster-*.tgz")
    return Release(chart=chart, image=load(images.release(wheel, commit), node))


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise Unavailable(f"{folder.relative_to(paths.ROOT)} should hold one {pattern}, and holds {len(found)}")
    return found[0]
