"""HTTP for operators: probes, metrics and the admin API. It keeps no state but the drain's."""
