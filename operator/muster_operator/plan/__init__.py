"""Pure decisions: a world in, a plan out. No client, no clock, no asyncio here; every decision carries its reason."""
