"""Membership of a group: joining, sync, heartbeats, rebalances, sessions, leaving."""
