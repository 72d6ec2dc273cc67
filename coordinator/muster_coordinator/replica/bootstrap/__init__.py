"""Who a data folder is, and how a cluster comes into being exactly once."""
