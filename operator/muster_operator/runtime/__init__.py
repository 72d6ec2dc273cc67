"""The operator's runtime: queue, cache, reconcile passes, execution, status, Events, metrics, probes, leader
election."""
