"""Processes that are nobody's children here, as /proc tells of them."""

from pathlib import Path


def has_ended(pid: int) -> bool:
    """Nobody needs to have asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: it ended after the file was opened
        return True
