"""Files of a process that goes on: whatever goes while it is listed or read was not there.

`Path.glob` raises when a folder goes between two steps of its own, and a replica removes folders, segments and
temporary files at any time.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

ANYWHERE = "**"


def live_paths(folder: Path, pattern: str) -> list[Path]:
    """Files and folders below `folder`, sorted. `pattern`: one `*` pattern for each part of the path, as `Path.glob`
    has it; `**/` before it stands for any parts."""
    wanted = pattern.split("/")
    anywhere = wanted[0] == ANYWHERE
    if anywhere:
        del wanted[0]
    found = []
    for root, folders, files in os.walk(folder):
        above = Path(root).relative_to(folder).parts
        if not anywhere and len(above) >= len(wanted):
            folders.clear()  # nothing further down can match
            continue
        for name in (*folders, *files):
            parts = (*above, name)
            if len(parts) == len(wanted) or (anywhere and len(parts) > len(wanted)):
                last = parts[len(parts) - len(wanted) :]
                if all(map(fnmatchcase, last, wanted)):
                    found.append(Path(root, name))
    return sorted(found)


def live_contents(paths: Iterable[Path]) -> Iterator[tuple[Path, bytes]]:
    """What is in those that are files, and still there."""
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            if path.is_file():
                yield path, path.read_bytes()


def live_sizes(paths: Iterable[Path]) -> dict[Path, int]:
    """Bytes of those that are still there."""
    found = {}
    for path in paths:
        with suppress(FileNotFoundError):
            found[path] = path.stat().st_size
    return found
