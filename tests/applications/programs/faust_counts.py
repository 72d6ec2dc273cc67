"""The faust-streaming program of `test_python_streams`: counts words in a table whose changelog is a compacted topic.
Run by a Python that has the package: FOLDER BOOTSTRAP, then the arguments of faust's own command.

The table keeps the offsets of each word, and the count is how many there are: faust-streaming promises at least once,
so a program of its users has to know again what it has seen. What it is shown again it tells again.

After a recovery faust-streaming 0.15.3 lets the words flow, seeks each partition back to its committed offset, one
request after the other, and then empties all queues (the end of its tables' recovery; to resume the flow of a queue
of mode's clears it): what was read meanwhile is counted twice or never, and the offsets after it are
committed all the same. Where the requests take long it is all there is, and faust then reads nothing until somebody
writes more. Words are lost and doubled on a real Kafka just so. For programs without tables that was mended (issue 216
of faust-streaming): the flow starts after the seeks. With tables, the signal that faust sends before it lets them flow
is the place where a program can have that.
"""

import sys
from typing import Any

import faust

folder, bootstrap = sys.argv[1:3]
del sys.argv[1:3]

app = faust.App(
    "faust-app",
    broker=";".join(f"kafka://{server}" for server in bootstrap.split(",")),
    store="memory://",
    datadir=folder,
    topic_partitions=3,
    topic_replication_factor=3,
    broker_commit_interval=0.5,
    broker_session_timeout=30.0,
    web_enabled=False,
)
words = app.topic("faust-words", key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
told = app.topic("faust-counts", key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
counts = app.Table("counts", default=list, partitions=3)


@app.on_rebalance_complete.connect
async def hold_words_until_all_is_sought(*_: Any, **__: Any) -> None:
    app.consumer.stop_flow()


@app.agent(words)
async def count(stream: faust.Stream[bytes]) -> None:
    async for event in stream.events():
        name, offset = event.value.decode(), event.message.offset
        if offset not in counts[name]:
            counts[name] = [*counts[name], offset]
        await told.send(key=event.value, value=str(len(counts[name])).encode())


if __name__ == "__main__":
    app.main()
