"""Invariants of published tables: what does not hold is a finding to read, not an exception."""
