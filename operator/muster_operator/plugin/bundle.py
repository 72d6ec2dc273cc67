"""The archive of a report: files redacted when they are added, a maximum size, and a list of what is missing."""

import io
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime

from muster_operator.plugin.objects import Trouble
from muster_operator.plugin.redact import Redaction

BYTES_MAX = 256 * 1024 * 1024
"""Of the whole archive before compression; what does not fit is listed as missing."""
README = """A report of `kubectl muster report` about namespace {namespace}, {time}.

objects/       what Kubernetes stores, without Secrets; values that may be secret are {redacted}
summary.txt    what `kubectl muster status` and `describe` say
events.yaml    Events about these objects
pods/          the last lines of logs, also of the container before its last restart
metrics/       one scrape of each coordinator and operator pod
coordinators/  `muster cluster status`, from each coordinator
missing.txt    what could not be read, and why

Logs of consumers contain what their programs print. Read them before you send this archive on.
"""


class Bundle:
    """Files of the archive, each redacted as it is added."""

    def __init__(self, archive: tarfile.TarFile, root: str, redaction: Redaction) -> None:
        self._archive, self._root, self._redaction = archive, root, redaction
        self._bytes = 0
        self._now_s = int(datetime.now(UTC).timestamp())
        self.missing: list[str] = []

    def add(self, path: str, text: str) -> None:
        """Add one file. If the archive would get too large, the file is listed as missing."""
        data = self._redaction.text(text).encode()
        if self._bytes + len(data) > BYTES_MAX:
            self.missing.append(f"{path}: the report would be larger than {BYTES_MAX >> 20} MiB")
            return
        self._bytes += len(data)
        entry = tarfile.TarInfo(f"{self._root}/{path}")
        entry.size, entry.mtime, entry.mode = len(data), self._now_s, 0o600
        self._archive.addfile(entry, io.BytesIO(data))

    def attempt(self, path: str, get: Callable[[], str]) -> None:
        """Add the file that `get` returns; if it raises Trouble, the file is listed as missing."""
        try:
            text = get()
        except Trouble as error:
            self.missing.append(f"{path}: {error}")
            return
        self.add(path, text)
