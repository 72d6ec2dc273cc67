"""The only code with threads and sockets: event loop, I/O queues, files, peer links, client connections."""
