"""The identity of a data folder, and forming a cluster from replicas, exactly once."""
