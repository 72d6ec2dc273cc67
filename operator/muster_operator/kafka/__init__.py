"""Kafka's protocol behind `ports.Kafka`, the same for Muster and Apache Kafka."""
