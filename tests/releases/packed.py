"""Folders that a release wrote, as they are kept: a tar file of our own."""

import tarfile
from pathlib import Path


def unpack(packed: Path, folder: Path) -> None:
    """Put what is packed into the folder. The filter refuses what leads out of it; Python has one since 3.11.4."""
    with tarfile.open(packed) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)
