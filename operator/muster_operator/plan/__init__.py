"""Pure decisions: a world in, a plan out. Imports no client, no clock, no asyncio; every decision carries its reason."""
