"""One link per pair of replicas, without sockets: frames, channels, handshake, which of two links wins."""
