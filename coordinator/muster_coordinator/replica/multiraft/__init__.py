"""Many Raft groups on one host: turns, heartbeats, deadlines, the WAL writers, and the table of leaders."""
