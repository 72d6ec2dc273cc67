"""Makes what a release left anew: `python -m tests.releases COMMIT FOLDER`; with `tables` behind it, of the kept
folders."""

import sys
import tempfile
from pathlib import Path

from tests.releases import folder, tables
from tests.releases.release import Release

release, target = Release(sys.argv[1]), Path(sys.argv[2])
target.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory() as scratch:
    if sys.argv[3:] != ["tables"]:
        folder.make(release, Path(scratch), target)
    else:
        tables.make(release, Path(scratch), target)
