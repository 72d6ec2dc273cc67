"""Consumer-group coordination over Raft, spoken in Kafka's wire protocol."""
