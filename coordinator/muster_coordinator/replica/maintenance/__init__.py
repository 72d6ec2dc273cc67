"""What a replica does beside its requests: retention, scrubbing, disk space, where leaders are."""
