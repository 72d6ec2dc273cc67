"""Background work of a replica: retention, scrub, disk space, and placement of leaders."""
