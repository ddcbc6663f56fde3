"""Rows as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamsql_repl.answer import Column
from streamsql_repl.table import (
    MIN_WIDTH,
    cell_text,
    expanded_lines,
    footer,
    header_lines,
    layout_of,
    row_lines,
    shrink,
)
from streamsql_repl.width import fit, width_of

COLUMNS = (Column("id", numeric=True), Column("name"))


def picture(rows: list[tuple[str | None, ...]], width: int | None = None) -> list[str]:
    layout = layout_of(COLUMNS, rows, width)
    assert layout is not None
    return [*header_lines(layout), *row_lines(layout, rows)]


def test_table_aligns_numbers_right_text_left_and_shows_null() -> None:
    assert picture([("1", "ab"), ("100", None), (None, "")]) == [
        "   id │ name",
        "──────┼──────",
        "    1 │ ab",
        "  100 │ NULL",
        " NULL │",
    ]


def test_table_cuts_the_widest_column_to_the_terminal() -> None:
    lines = picture([("1", "x" * 100), ("22", "short")], width=30)
    assert max(map(width_of, lines)) <= 30
    assert lines[2].endswith("x…")
    assert "short" in lines[3]


def test_table_that_can_not_fit_has_no_layout() -> None:
    columns = tuple(Column(f"column_{i}") for i in range(20))
    assert layout_of(columns, [("value",) * 20], 60) is None


def test_table_wide_characters_take_two_columns() -> None:
    lines = picture([("1", "日本"), ("2", "abcd")])
    assert width_of(lines[2]) == width_of(lines[3])
    assert fit("日本語", 4) == "日…" + " "


def test_table_control_characters_are_one_line() -> None:
    assert cell_text("a\nb\tc\x01") == "a↵b→c\\x01"
    assert cell_text(None) == "NULL"


def test_expanded_numbers_records_and_cuts_long_values() -> None:
    lines = list(expanded_lines(COLUMNS, [("1", "x" * 80)], 3, 40))
    assert lines[0].startswith("─[ RECORD 3 ]")
    assert lines[1] == " id   │ 1"
    assert max(map(width_of, lines)) <= 40
    assert lines[2].endswith("…")


def test_footer_counts() -> None:
    assert (footer(0), footer(1), footer(2)) == ("(0 rows)", "(1 row)", "(2 rows)")


@given(st.lists(st.integers(1, 200), min_size=1, max_size=12), st.integers(1, 300))
def test_shrink_fits_and_never_cuts_below_the_least_width(widths: list[int], room: int) -> None:
    found = shrink(widths, room)
    if found is None:
        assert sum(min(w, MIN_WIDTH) for w in widths) > room
        return
    assert sum(found) <= room or found == widths
    assert all(min(w, MIN_WIDTH) <= f <= w for f, w in zip(found, widths, strict=True))
    if sum(widths) > room:
        assert sum(found) == room


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [("abc", 5, "abc  "), ("abcdef", 3, "ab…"), ("", 2, "  "), ("ab", 2, "ab")],
)
def test_fit_pads_and_cuts(text: str, width: int, expected: str) -> None:
    assert fit(text, width) == expected
