"""Groups beside an existing Kafka: what goes to its brokers, and what their answers may say (ADR 96)."""
