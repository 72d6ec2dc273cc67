"""What if a group had used another assignor: recorded memberships replayed through the coordinator's assignors."""
