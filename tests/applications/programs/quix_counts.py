"""The quixstreams program of `test_python_streams`: counts words with exactly-once processing, in a state whose
changelog is a compacted topic. Run by a Python that has the package: FOLDER BOOTSTRAP."""

import sys

from quixstreams import Application, State


def main(folder: str, bootstrap: str) -> None:
    app = Application(
        broker_address=bootstrap,
        consumer_group="quix-app",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.5,
        state_dir=folder,
    )
    words = app.topic("quix-words", key_deserializer="str", value_deserializer="str")
    told = app.topic("quix-counts", key_serializer="str", value_serializer="str")

    def count(_word: str, state: State) -> str:
        number = int(state.get("count", 0)) + 1
        state.set("count", number)
        return str(number)

    app.dataframe(words).apply(count, stateful=True).to_topic(told)
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:3])
