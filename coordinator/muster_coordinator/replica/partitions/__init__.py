"""What stands behind one Raft group: a partition's log, its consumer groups, and how upper rooms see it."""
