"""Our ACLs in front of an upstream Kafka: what of a request goes there, by the rights of the client that sent it."""
