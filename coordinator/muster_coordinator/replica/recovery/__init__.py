"""Recovering a cluster from one stopped folder, after a majority was lost for good (ADR 40)."""
