"""The archive of a report: files redacted as they are added, within a bound, and the names of what is missing."""

import io
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime

from muster_operator.plugin.objects import Trouble
from muster_operator.plugin.redact import Redaction

BYTES_MAX = 256 * 1024 * 1024
"""Of the whole, before it is compressed; what does not fit is named as missing."""
README = """A report of `kubectl muster report` about namespace {namespace}, {time}.

objects/       what Kubernetes stores, without Secrets; values that may be secret are {redacted}
summary.txt    what `kubectl muster status` and `describe` say
events.yaml    events about these objects
pods/          ends of logs, with those of the container before the last restart
metrics/       one scrape of each pod of ours
coordinators/  `muster cluster status`, as each coordinator says it
missing.txt    what could not be had, and why

Logs of consumers hold what their programs print. Look into them before you send this on.
"""


class Bundle:
    """Files of the archive, each redacted as it is added."""

    def __init__(self, archive: tarfile.TarFile, root: str, redaction: Redaction) -> None:
        self._archive, self._root, self._redaction = archive, root, redaction
        self._bytes = 0
        self._now_s = int(datetime.now(UTC).timestamp())
        self.missing: list[str] = []

    def add(self, path: str, text: str) -> None:
        """One file. What is too much for the whole is missing."""
        data = self._redaction.text(text).encode()
        if self._bytes + len(data) > BYTES_MAX:
            self.missing.append(f"{path}: the report would be larger than {BYTES_MAX >> 20} MiB")
            return
        self._bytes += len(data)
        entry = tarfile.TarInfo(f"{self._root}/{path}")
        entry.size, entry.mtime, entry.mode = len(data), self._now_s, 0o600
        self._archive.addfile(entry, io.BytesIO(data))

    def attempt(self, path: str, get: Callable[[], str]) -> None:
        """One file, or its name in `missing`."""
        try:
            text = get()
        except Trouble as error:
            self.missing.append(f"{path}: {error}")
            return
        self.add(path, text)
