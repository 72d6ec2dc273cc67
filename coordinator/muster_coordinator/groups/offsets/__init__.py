"""Requests and background jobs about committed offsets: commit, fetch, deletion, expiry. They are kept in `state`."""
