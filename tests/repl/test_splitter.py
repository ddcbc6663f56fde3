"""Where statements end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamsql_repl.splitter import is_complete, split


def pieces(text: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text.strip()) for piece in split(text)]


@pytest.mark.parametrize(
    "inside",
    [
        "';'",
        "'it''s;'",
        r"E'\';'",
        '"a;b"',
        "`a;b`",
        "$$;$$",
        "$x$ ; $$ ; $x$",
        "/* ; /* ; */ ; */ 1",
        "-- ;\n1",
        "(select 1; )",
        r"'\'",
    ],
)
def test_split_semicolon_inside_something_does_not_end_the_statement(inside: str) -> None:
    assert pieces(f"select {inside}; select 2;") == [
        ("statement", f"select {inside}"),
        ("statement", "select 2"),
    ]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("select", "-"),
        ("select (1", "("),
        ("select 'a", "'"),
        ('select "a', '"'),
        ("select $$a", "$"),
        ("select /* a", "*"),
        ("select E'a\\'", "'"),
        ("/* a", "*"),
        ("-- a", ""),
        ("select 1; select", "-"),
    ],
)
def test_split_says_what_is_open(text: str, state: str) -> None:
    last = split(text)[-1]
    assert (last.kind, last.state) == ("rest", state)
    assert is_complete(text) is (state == "")


@pytest.mark.parametrize(
    "text", ["select 1;", "\\d t", "", "  ", "select 1; -- done", "select 1 \\g"]
)
def test_complete_input_runs_on_enter(text: str) -> None:
    assert is_complete(text)


def test_split_command_takes_its_line_and_leaves_sql_before_it_as_rest() -> None:
    assert pieces("select 1 \\watch 2\n\\d t\nselect 2;") == [
        ("rest", "select 1"), ("command", "watch 2"), ("command", "d t"), ("statement", "select 2"),
    ]  # fmt: skip


def test_split_backslash_in_string_is_no_command() -> None:
    assert pieces(r"select '\d';") == [("statement", r"select '\d'")]


def test_split_dollar_in_a_name_opens_nothing() -> None:
    assert pieces("select a$b$c; select 1;") == [
        ("statement", "select a$b$c"),
        ("statement", "select 1"),
    ]


def test_split_offsets_point_into_the_text() -> None:
    text = "select 1;  select 2"
    first, second = split(text)
    assert text[first.start :].startswith("select 1")
    assert text[second.start :].strip() == "select 2"


@given(st.text(alphabet="ab1 ;'\"$-/*()\\\n`eE", max_size=60))
def test_split_never_fails_and_loses_no_text(text: str) -> None:
    found = split(text)
    for piece in found:
        if piece.kind != "command":
            assert text[piece.start : piece.start + len(piece.text)] == piece.text
