"""Client of the coordinators' admin API (docs/admin-api.md)."""
