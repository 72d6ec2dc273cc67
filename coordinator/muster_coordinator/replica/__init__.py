"""One replica: all its Raft groups, what stands behind them, and how a cluster comes into being. Pure over ports."""
