"""Checks of the invariants of published tables. A broken invariant gives findings, not an exception."""
