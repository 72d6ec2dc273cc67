"""Planning: pure decisions, from a world to a plan. No client, clock or asyncio here; every decision has a reason."""
