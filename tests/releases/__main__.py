"""Makes a release's folders anew: `python -m tests.releases FOLDER`, which gets cluster.tar.xz and cluster.json."""

import sys
import tempfile
from pathlib import Path

from tests.releases import folder
from tests.releases.release import COMMIT, Release

target = Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory() as scratch:
    folder.make(Release(COMMIT), Path(scratch), target)
