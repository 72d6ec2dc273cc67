"""Requests and background jobs on committed offsets: commit, fetch, deletion, expiry. The offsets are in `state`."""
