"""The lexer: PostgreSQL's lexical rules."""

from __future__ import annotations

import pytest

from streamsql.core.errors import SqlSyntaxError
from streamsql.dialect.lexer import Kind, fold, tokenize


def kinds(text: str) -> list[tuple[str, str]]:
    return [(t.kind.name, t.key or t.value) for t in tokenize(text)[:-1]]


def values(text: str) -> list[str]:
    return [t.value or t.key for t in tokenize(text)[:-1]]


def test_lexer_parameters_without_blank_between_are_two_parameters() -> None:
    assert kinds("($1,$2)") == [
        ("OPERATOR", "("), ("PARAMETER", "1"), ("OPERATOR", ","), ("PARAMETER", "2"), ("OPERATOR", ")"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        (r"'a\nb'", r"a\nb"),
        (r"E'a\nb\t\\\''", "a\nb\t\\'"),
        (r"e'\x41\102\u0043\U00000044'", "ABCD"),
        (r"E'\xC3\xA9'", "é"),
        (r"E'\uD83D\uDE00'", "😀"),
        (r"U&'d\0061t\+000061'", "data"),
        ("N'x'", "x"),
        ("$$it's$$", "it's"),
        ("$tag$a $$ b$tag$", "a $$ b"),
        ("'a'\n  'b'", "ab"),
        ("''", ""),
    ],
)
def test_lexer_string_forms_give_their_value(text: str, value: str) -> None:
    tokens = tokenize(text)
    assert [(t.kind, t.value) for t in tokens[:-1]] == [(Kind.STRING, value)]


def test_lexer_two_strings_on_one_line_stay_two() -> None:
    assert len(tokenize("'a' 'b'")) == 3


@pytest.mark.parametrize(
    ("text", "name"),
    [('"A b"', "A b"), ('"a""b"', 'a"b'), ("`Back``tick`", "Back`tick"), (r'U&"d\0061t"', "dat")],
)
def test_lexer_quoted_names_are_kept(text: str, name: str) -> None:
    token = tokenize(text)[0]
    assert (token.kind, token.value, token.key) == (Kind.QUOTED, name, "")


def test_lexer_folds_only_ascii_of_unquoted_names() -> None:
    assert values("FooÄ _x$1") == ["fooÄ", "_x$1"]
    assert fold("ÀB") == "Àb"


def test_lexer_comments_nest_and_vanish() -> None:
    assert values("a -- b\n /* c /* d */ e */ f") == ["a", "f"]


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("a=-1", ["=", "-"]),
        ("a<-1", ["<", "-"]),
        ("a@>-1", ["@>-"]),  # PostgreSQL reads one operator here too
        ("a->>'x'", ["->>"]),
        ("a*-1", ["*", "-"]),
        ("a::int", ["::"]),
        ("f(x=>1)", ["(", "=>", ")"]),
        ("a--b", []),
        ("a+/*c*/b", ["+"]),
        ("x?|y", ["?|"]),
        ("m[1:2]", ["[", ":", "]"]),
        ("count(*)", ["(", "*", ")"]),
    ],
)
def test_lexer_cuts_operators_as_postgresql_does(text: str, operators: list[str]) -> None:
    assert [t.key for t in tokenize(text) if t.kind is Kind.OPERATOR] == operators


@pytest.mark.parametrize("text", ["1", "1.5", ".5", "5.", "1e3", "1.5E-3", "0x1F", "1_000"])
def test_lexer_numbers(text: str) -> None:
    assert kinds(text) == [("NUMBER", text)]


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("select 'abc", "unterminated quoted string", 7),
        ('select "abc', "unterminated quoted identifier", 7),
        ("select $x$abc", "unterminated dollar-quoted string", 7),
        ("select /* abc", "unterminated /* comment", 7),
        ('select ""', "zero-length delimited identifier", 7),
        ("select 12abc", "trailing junk after numeric literal", 7),
        ("select \\d", "syntax error at or near", 7),
        ("select X'12", "unterminated hexadecimal string", 7),
        (r"select E'\xff'", "invalid byte sequence", 7),
    ],
)
def test_lexer_errors_have_wording_and_position(text: str, message: str, position: int) -> None:
    with pytest.raises(SqlSyntaxError, match=message.replace("*", r"\*")) as caught:
        tokenize(text)
    assert caught.value.position == position


def test_lexer_long_unterminated_string_is_fast() -> None:
    with pytest.raises(SqlSyntaxError):
        tokenize("select '" + "a''" * 200_000)
