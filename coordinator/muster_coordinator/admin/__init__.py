"""HTTP for operators: probes, metrics and the admin API. It holds no state of its own."""
