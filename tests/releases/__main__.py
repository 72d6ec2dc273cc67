"""Makes what a release left anew: `python -m tests.releases FOLDER`; with `tables` behind it, of the kept folders."""

import sys
import tempfile
from pathlib import Path

from tests.releases import folder, tables
from tests.releases.release import COMMIT, Release

target = Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory() as scratch:
    if sys.argv[2:] != ["tables"]:
        folder.make(Release(COMMIT), Path(scratch), target)
    else:
        tables.make(Release(COMMIT), Path(scratch), target)
