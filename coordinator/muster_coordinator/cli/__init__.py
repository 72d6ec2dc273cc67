"""The `muster` command: what a person runs. Talks Kafka through kafka-python and HTTP to the admin port."""
