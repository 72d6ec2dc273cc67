"""State on disk and between replicas: checkpoints, recovery at a start, snapshot installs, and repairs."""
