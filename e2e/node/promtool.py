"""Prometheus' promtool, for tests of rules: the one on PATH, else that of Debian's package, unpacked and not installed.

Built from Go modules it takes three minutes of processor time, half as long as all of Kubernetes.
"""

import shutil
from pathlib import Path

from e2e.node import image_base, paths
from e2e.node.errors import Broken, Unavailable

PACKAGE = "prometheus"


def promtool() -> Path:
    """The program. `Unavailable` where neither is to be had."""
    found = shutil.which("promtool")
    if found is not None:
        return Path(found)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unavailable("no promtool on PATH, and without apt-get there is no Debian package to take it from")
    folder = paths.CACHE / "promtool"
    if not (folder / "usr/bin/promtool").exists():
        scratch = folder.with_name("promtool.part")
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            image_base.extract([PACKAGE], scratch)
        except Broken as reason:
            raise Unavailable(f"Debian's package of promtool cannot be had: {reason}") from None
        (scratch / "usr/bin/prometheus").unlink()
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)
    return folder / "usr/bin/promtool"
