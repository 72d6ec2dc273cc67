"""The only code with threads and sockets: event loop, I/O lanes, files, peer links, client connections."""
