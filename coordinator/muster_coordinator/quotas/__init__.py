"""How much a client may use, and when it has used more: Kafka's client quotas as values (ADR 55)."""
