"""Highlighting."""

from __future__ import annotations

import pytest
from pygments.token import Comment, Keyword, Name, Number, String
from streamsql_repl.highlight import StreamSqlLexer


def kinds(text: str) -> dict[str, object]:
    return {value: kind for kind, value in StreamSqlLexer().get_tokens(text) if value.strip()}


@pytest.mark.parametrize(
    "word", ["EMIT", "watermark", "Tumble", "HOP", "SUBSCRIBE", "MATERIALIZED", "select"]
)
def test_our_keywords_are_keywords_in_any_case(word: str) -> None:
    assert kinds(f"{word} x")[word] is Keyword


def test_names_strings_numbers_comments_types() -> None:
    found = kinds(
        "select t.emit, \"A\", 'x''y', 1.5, count(*) -- c\n from t; /* a /* b */ c */ x::int $$a$$"
    )
    assert found["emit"] is Name
    assert found['"A"'] is Name.Variable
    assert found["'x''y'"] is String.Single
    assert found["1.5"] is Number
    assert found["count"] is Name.Function
    assert found["-- c"] is Comment.Single
    assert found["int"] is Keyword.Type
    assert found["\\d"] is Keyword.Pseudo if "\\d" in found else True


def test_unfinished_input_is_highlighted_too() -> None:
    for text in ("select 'abc", "select $$abc", "/* abc", 'select "a', "\\d"):
        assert (
            "".join(
                value for _, value in StreamSqlLexer(ensurenl=False, stripnl=False).get_tokens(text)
            )
            == text
        )
