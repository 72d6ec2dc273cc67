"""Benchmarks: what Muster costs and how fast it recovers; figures go to docs/benchmarks.md. Never run as a test."""
