"""The names of a partition's two keys in Redis."""


def keys_of(prefix: str, topic: str, partition: int) -> tuple[str, str]:
    """The stream of a partition and the hash beside it; the braces keep both in one slot of a Redis Cluster."""
    stream = f"{prefix}:{{{topic}:{partition}}}"
    return stream, f"{stream}:state"
