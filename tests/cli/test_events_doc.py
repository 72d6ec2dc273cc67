"""docs/events.md is what the declarations say."""

from tests.cli import events_doc


def test_the_page_is_written_from_the_declarations() -> None:
    assert events_doc.FILE.read_text("utf-8") == events_doc.text(), events_doc.__doc__
