"""The Muster operator. Nothing is here yet: the coordinator is built first (README, "What is not there yet")."""
