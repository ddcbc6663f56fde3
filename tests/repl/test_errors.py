"""Errors as PostgreSQL's clients print them."""

from __future__ import annotations

from streamsql_repl.answer import Message, StatementFailed
from streamsql_repl.errors import error_lines, message_lines, position_lines


def test_error_shows_line_caret_detail_and_hint() -> None:
    error = StatementFailed(
        'relation "nope" does not exist',
        sqlstate="42P01",
        position=14,
        detail="A detail.",
        hint="A hint.",
    )
    assert error_lines(error, "SELECT * FROM nope") == [
        'ERROR:  relation "nope" does not exist',
        "LINE 1: SELECT * FROM nope",
        "                      ^",
        "DETAIL:  A detail.",
        "HINT:  A hint.",
    ]


def test_error_verbose_has_the_sqlstate() -> None:
    assert error_lines(StatementFailed("x", sqlstate="22012"), "", verbose=True) == [
        "ERROR:  22012: x"
    ]


def test_position_in_a_later_line() -> None:
    sql = "SELECT *\n  FROM t\n WHERE x"
    assert position_lines(sql, sql.index("x")) == ["LINE 3:  WHERE x", "               ^"]


def test_position_at_the_end_of_input() -> None:
    assert position_lines("SELECT", 6) == ["LINE 1: SELECT", "              ^"]


def test_position_in_a_long_line_is_shown_with_its_surroundings() -> None:
    sql = "SELECT " + ", ".join(f"c{i}" for i in range(100)) + " FROM t"
    at = sql.index("c70")
    text, caret = position_lines(sql, at)
    assert text.startswith("LINE 1: ...")
    assert text.endswith("...")
    assert len(text) < 80
    assert text[len(caret) - 1 :].startswith("c70")


def test_position_after_wide_characters() -> None:
    text, caret = position_lines("SELECT '日本', x", 13)
    assert caret.index("^") == len("LINE 1: SELECT '") + 4 + len("', ")
    assert text.endswith("x")


def test_messages_have_severity_and_hint() -> None:
    assert message_lines(Message("NOTICE", "n", hint="h")) == ["NOTICE:  n", "HINT:  h"]
