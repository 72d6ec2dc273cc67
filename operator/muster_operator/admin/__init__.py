"""The coordinators' admin API (docs/admin-api.md), as the operator asks it."""
