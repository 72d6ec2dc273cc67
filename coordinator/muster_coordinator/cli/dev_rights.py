"""The rights of the application's user of a `muster dev --secure` cluster, given once, when the cluster is there.

The command that gives them is the one that a person would type (`muster acl add`), in a process of its own, so the
supervisor goes on watching its replicas. It is tried until it works: the first users are made a moment after the
cluster has formed, and no replica knows them before. A file says that it was done, so rights that a person takes away
are not given again.
"""

import subprocess
import sys
import time

from muster_coordinator.cli.dev_clients import APP
from muster_coordinator.cli.dev_layout import DevLayout

AGAIN_SECONDS = 0.5
_MARK, _LOG = "rights-given", "rights.log"


class Rights:
    """Call `are_given` until it is true, or `stop`."""

    def __init__(self, layout: DevLayout) -> None:
        self._layout = layout
        self._giving: subprocess.Popen[bytes] | None = None
        self._next = 0.0

    @staticmethod
    def given(layout: DevLayout) -> bool:
        return layout.secure.file(_MARK).exists()

    def are_given(self) -> bool:
        """Never blocks. Raises OSError."""
        if self.given(self._layout):
            return True
        if self._giving is None:
            if time.monotonic() >= self._next:
                self._giving = self._give()
            return False
        code = self._giving.poll()
        if code is None:
            return False
        self._giving = None
        self._next = time.monotonic() + AGAIN_SECONDS
        if code == 0:
            self._layout.secure.file(_MARK).touch()
        return code == 0

    def stop(self) -> None:
        if self._giving is not None:
            self._giving.kill()
            self._giving.wait()

    def _give(self) -> "subprocess.Popen[bytes]":
        secure = self._layout.secure
        command = [sys.executable, "-m", "muster_coordinator.cli.main", "acl", "add", "-b", self._layout.bootstrap]
        command += ["--config", str(secure.file("admin.properties")), "--allow-principal", f"User:{APP}"]
        command += ["--producer", "--consumer", "--topic", "*", "--group", "*"]
        with secure.file(_LOG).open("wb") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
