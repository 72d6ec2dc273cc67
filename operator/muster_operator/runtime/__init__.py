"""What runs the operator: queue, cache, reconcile passes, execution, reports, events, metrics, probes, leader
election."""
