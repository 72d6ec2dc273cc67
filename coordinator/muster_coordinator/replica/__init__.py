"""One replica: its Raft groups, their state machines and files, and forming the cluster. All I/O goes through ports."""
