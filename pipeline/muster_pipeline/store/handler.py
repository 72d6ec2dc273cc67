"""Files of a store that delta-rs reaches, as Arrow's file systems want them.

A file of its own, since `place` is loaded where tables are in a local folder, too: a worker there has no use for
delta-rs, which is 30 MiB of it.
"""

from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from typing_extensions import override

Untyped = Any
"""An object of pyarrow, which ships no types."""


class Handler(DeltaStorageHandler):
    """delta-rs's, whose files take bytes only: Arrow hands them buffers (deltalake 1.6 with pyarrow 26)."""

    @override
    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> Untyped:
        return pa.PythonFile(_TakesBuffers(self._handler.open_output_stream(path, metadata)), mode="w")


class _TakesBuffers:
    """What Arrow calls of a file that it writes."""

    def __init__(self, file: Untyped) -> None:
        self._file = file

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def write(self, data: Untyped) -> int:
        return int(self._file.write(bytes(data)))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
