"""Raft group 0 on this replica: its log, its image here, and commands to its leader."""
