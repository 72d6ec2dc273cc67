"""The state machines of partitions' Raft groups: logs, consumer groups, and the interface for the upper rooms."""
