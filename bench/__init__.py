"""What Muster costs and how fast it is back, measured; figures go to docs/benchmarks.md. Never run as a test."""
