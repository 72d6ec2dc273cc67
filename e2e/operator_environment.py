"""A Python that has what the operator's extra asks for and nothing else: what its memory is measured in.

Problem: kopf imports the Kubernetes client where there is one, and that imports a schema validator where there is one.
The environment of the tests has both, and an operator there is 22 MiB larger than in its image. Mechanism: a virtual
environment of its own with the project and the extra `operator`, made anew each time. Not here: the image's exact
versions, which are those of its lock.
"""

import subprocess
import sys
import venv
from pathlib import Path

from e2e.node.paths import CACHE, ROOT

FOLDER = CACHE / "operator-environment"


def python() -> str:
    """The interpreter."""
    print("installing the operator alone ...", file=sys.stderr)
    venv.create(FOLDER, clear=True, with_pip=True)
    found = str(FOLDER / "bin" / "python")
    install = [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{Path(ROOT)}[operator]"]
    subprocess.run(install, check=True)
    return found
