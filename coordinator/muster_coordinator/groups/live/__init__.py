"""Volatile state that only the leader keeps of its groups: members, deadlines, in-flight appends."""
