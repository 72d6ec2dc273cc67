"""State on disk and between replicas: checkpoints, what a start finds, installs and repairs."""
