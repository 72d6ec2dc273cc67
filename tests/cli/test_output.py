"""Tables, JSON and YAML of the same rows; and the difference between none, unknown and zero."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.cli.output import UNKNOWN, Column, Format, emit, table, to_yaml

COLUMNS = (Column("name", "NAME"), Column("lag", "LAG", numeric=True))
ROWS = [{"name": "a", "lag": 0}, {"name": "bb", "lag": None}, {"name": "c", "lag": UNKNOWN}]


def test_none_is_a_dash_unknown_is_the_word_and_zero_is_zero():
    assert table(ROWS, COLUMNS) == "NAME      LAG\na           0\nbb          -\nc     unknown"


def test_a_table_without_rows_has_its_titles():
    assert table([], COLUMNS) == "NAME  LAG"


def test_lists_and_truth_have_words():
    assert table([{"name": [1, 2], "lag": True}], COLUMNS).splitlines()[1] == "1,2   yes"
    assert table([{"name": [], "lag": False}], COLUMNS).splitlines()[1] == "-      no"


def test_json_has_null_for_what_is_not_known(capsys):
    emit(ROWS, COLUMNS, Format.JSON)
    assert json.loads(capsys.readouterr().out) == [
        {"name": "a", "lag": 0},
        {"name": "bb", "lag": None},
        {"name": "c", "lag": None},
    ]


def test_yaml_of_nested_values():
    value = {"a": 1, "list": [{"x": "word", "z": []}, "two words", None], "deep": {"k": [[1, 2], {}]}, "no": "no"}
    assert to_yaml(value) == (
        "a: 1\nlist:\n  - x: word\n    z: []\n  - two words\n  - null\n"
        'deep:\n  k:\n    - - 1\n      - 2\n    - {}\n"no": "no"\n'
    )


@pytest.mark.parametrize("text", ["", "null", "True", "yes", "1", "1.5", "- a", "a: b", "a #b", "ä", "2026-01-01", "~"])
def test_yaml_quotes_what_would_be_read_as_something_else(text):
    assert to_yaml(text) == json.dumps(text, ensure_ascii=False) + "\n"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    )
)
def test_any_plain_value_has_a_yaml_form_without_surprising_lines(value):
    text = to_yaml(value)
    assert text.endswith("\n")
    assert all(line.strip() for line in text.split("\n")[:-1]), "strings are escaped, so no line is empty"
