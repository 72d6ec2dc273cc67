"""What only the leader keeps of its groups, and loses with leadership: members, deadlines, appends in flight."""
