"""One link per pair of replicas, without sockets: frames, channels, the handshake, and which of two links stays."""
