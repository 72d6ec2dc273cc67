"""Between the log and the state: replay, the proof before a proposal, checkpoints."""
