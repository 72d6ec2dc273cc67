"""Kafka's protocol behind `ports.Kafka`; Muster and Apache Kafka are asked alike."""
