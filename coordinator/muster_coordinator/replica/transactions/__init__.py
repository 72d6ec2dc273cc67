"""What transaction coordinators and the leaders of partitions tell each other, here or over a peer link."""
