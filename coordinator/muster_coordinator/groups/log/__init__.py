"""Between log and state: replay, the proof before a proposal, checkpoints."""
