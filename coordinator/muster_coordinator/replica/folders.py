"""Where a Raft group's files lie in the data folder (docs/format.md, "Folders")."""

from muster_coordinator.ids import GroupNo

CHECKPOINTS = "checkpoints"
SEGMENTS = "segments"


def checkpoint_folder(number: GroupNo) -> str:
    return f"{CHECKPOINTS}/{number}"


def segments_folder(number: GroupNo) -> str:
    """The folder has one folder in it, named topic-partition as in Kafka. A topic that is created again has new group
    numbers."""
    return f"{SEGMENTS}/{number}"
