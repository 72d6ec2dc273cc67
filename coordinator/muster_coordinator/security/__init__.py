"""Who a client is and what it may do: protocols of listeners, credentials, ACLs, quotas. Values only: no I/O."""
