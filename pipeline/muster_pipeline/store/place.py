"""Where tables are: a folder of this machine, or of a store that delta-rs reaches.

Data files and Delta's log go through one library, so that they need one set of credentials: those that the environment
holds (AWS_…, AZURE_…, GOOGLE_…), on the driver and on every executor. A local folder is used directly, because only so
can files be synced to the disk.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyarrow import fs
from typing_extensions import override

from muster_pipeline.tables.errors import BadInput

SCHEMES: Final = ("s3", "s3a", "abfs", "abfss", "gs", "hdfs")
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):/")
_CUT: Final = "was not given as text: a path type has taken one of its slashes"
Untyped = Any
"""An object of pyarrow, which ships no types."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of tables. `uri`: an absolute path without a scheme, or a URI."""

    uri: str

    @property
    def local(self) -> Path | None:
        """The folder, if it is one of this machine."""
        return None if _SCHEME.match(self.uri) else Path(self.uri)

    def table(self, name: str) -> str:
        """A table's folder, for delta-rs."""
        return f"{self.uri}/{name}"

    def files(self, name: str) -> Untyped:
        """An Arrow file system whose root is a table's folder."""
        if self.local is not None:
            return fs.SubTreeFileSystem(self.table(name), fs.LocalFileSystem())
        from muster_pipeline.store.handler import Handler

        return fs.PyFileSystem(Handler(self.table(name)))

    def whole(self, table: str, path: str) -> str:
        """A file's path or URI, for other programs."""
        return f"{self.table(table)}/{path}"

    @override
    def __str__(self) -> str:
        return self.uri


def place(root: "Path | str | Place") -> Place:
    """Raises BadInput for a scheme that no store answers to."""
    if isinstance(root, Place):
        return root
    text = str(root)
    if text.startswith("file:///"):
        text = text.removeprefix("file://")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Place(os.path.abspath(text))
    if scheme[1] not in SCHEMES:
        known = ", ".join(f"{one}://" for one in SCHEMES)
        raise BadInput(f"tables in {text}: {scheme[1]}: is not supported; give a folder of this machine, or {known}")
    if not text.startswith(f"{scheme[1]}://"):
        raise BadInput(f"tables in {text}: it {_CUT}")
    return Place(text.rstrip("/"))
