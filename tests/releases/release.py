"""An earlier release, run from its wheel with the packages of this environment.

`Release(FIRST).environment` is what a process is started with to run that release's code; without it, it runs today's.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
FIRST, LAST = "7d8ab59", "3f79dd0"
UNPACKED = HERE.parents[1] / ".cache" / "releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is known of a release besides its files."""

    version: str
    sha256: str
    """Of its wheel."""
    level: int
    """The feature level that a cluster of it has."""


KEPT = {
    FIRST: Kept(version="0.1.0", sha256="47ff7524fcf3453c79b1a9ab3f660bd699b3cc4ffe8c9e079630ba117bd32cd5", level=1),
    LAST: Kept(version="0.2.0", sha256="b9dc36bb15cf63a6ba3e0e1fd4c838384c12aa4f6da19922b75f65bbb4f45384", level=3),
}
"""By commit, in their order."""


class Release:
    """Its wheel, unpacked once into the cache: no history of the repository is needed, and no registry."""

    def __init__(self, commit: str) -> None:
        self.commit = commit
        self.level = KEPT[commit].level
        self.wheel = HERE / commit / f"muster-{KEPT[commit].version}-py3-none-any.whl"
        self.folder = _unpacked(self.wheel, KEPT[commit].sha256)

    @property
    def environment(self) -> dict[str, str]:
        """Its folder comes before the installed packages, and so do its entry points."""
        return {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONSAFEPATH": "1"}


@cache
def _unpacked(wheel: Path, sha256: str) -> Path:
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == sha256, f"{wheel} is not the wheel that was put there"
    folder = UNPACKED / sha256[:16]
    if folder.exists():
        return folder
    UNPACKED.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=UNPACKED))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(made)
    try:
        made.rename(folder)
    except OSError:  # another worker was first
        shutil.rmtree(made)
    return folder
