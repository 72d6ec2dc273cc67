"""What if the group had used another assignor: recorded memberships replayed through the coordinator package's own."""
