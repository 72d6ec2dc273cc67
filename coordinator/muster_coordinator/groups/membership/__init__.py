"""Who is in a group: joining, sync, heartbeats, rebalances, sessions, leaving."""
