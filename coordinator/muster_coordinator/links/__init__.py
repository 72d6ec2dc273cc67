"""One link per pair of replicas, without sockets: frames, lanes, handshake, which of two links wins."""
