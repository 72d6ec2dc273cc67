"""Where a Raft group's files lie in the data folder (docs/format.md, "Folders")."""

from muster_coordinator.ids import GroupNo

CHECKPOINTS = "checkpoints"
SEGMENTS = "segments"


def checkpoint_folder(number: GroupNo) -> str:
    return f"{CHECKPOINTS}/{number}"


def segments_folder(number: GroupNo) -> str:
    """Holds one folder, named as Kafka names it: topic-partition. A re-created topic has other group numbers."""
    return f"{SEGMENTS}/{number}"
