"""The Muster operator: manages CoordinatorCluster and ConsumerGroup objects in Kubernetes (docs/operator.md)."""
