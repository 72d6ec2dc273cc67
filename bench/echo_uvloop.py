"""`python -m bench.echo_uvloop PORT`: the minimal Python server on uvloop, which returns all bytes as they come.

No frames, no decoding, one callback per read: the difference between this and a replica is what Muster could save, the
rest is the cost of event loop and kernel.
"""

import asyncio
import sys
from typing import cast

import uvloop
from typing_extensions import override


class Echo(asyncio.Protocol):
    """One connection."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport class does not derive from it

    @override
    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
