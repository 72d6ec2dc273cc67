"""The names of a partition's two keys in Redis."""


def keys_of(prefix: str, topic: str, partition: int) -> tuple[str, str]:
    """The stream of a partition and the hash beside it; the braces keep both in one slot of a Redis Cluster."""
    stream = f"{prefix}:{{{topic}:{partition}}}"
    return stream, f"{stream}:state"


def keys_beside(prefix: str, stream: str) -> tuple[str, str]:
    """A stream that has a name already, and the hash beside it. The hash is under our own prefix, and in the stream's
    slot of a Redis Cluster: its tag is the stream's, or the stream's whole name, which is what Redis hashes of a name
    without a tag. No name of `keys_of` is one of these: those end behind `:state`."""
    begin = stream.find("{")
    end = stream.find("}", begin + 1)
    tag = stream[begin + 1 : end] if begin >= 0 and end > begin + 1 else stream
    return stream, f"{prefix}:{{{tag}}}:state:{stream}"
