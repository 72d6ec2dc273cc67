"""The faust-streaming program of `test_python_streams`: counts words in a table whose changelog is a compacted topic.
Run by a Python that has the package: FOLDER BOOTSTRAP, then the arguments of faust's own command."""

import sys

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
    web_enabled=False,
)
words = app.topic("faust-words", key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
told = app.topic("faust-counts", key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
counts = app.Table("counts", default=int, partitions=3)


@app.agent(words)
async def count(stream: faust.Stream[bytes]) -> None:
    async for word in stream:
        name = word.decode()
        counts[name] += 1
        await told.send(key=word, value=str(counts[name]).encode())


if __name__ == "__main__":
    app.main()
