"""The live view."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from streamsql_repl.answer import Answer, Column, Row, StatementFailed
from streamsql_repl.live import LiveRequest, LiveRows, LiveView, parse_live
from streamsql_repl.screen import Screen

from .fakes import FakeBackend

COLUMNS = (Column("k"), Column("n", numeric=True))


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("v", LiveRequest("v")),
        ("s.v;", LiveRequest("s.v")),
        ("v order by n desc limit 5", LiveRequest("v", "n", True, 5)),
        ("select * from t ORDER BY N", LiveRequest("select * from t", "n", False, None)),
        ('v order by "N" asc', LiveRequest("v", "N", False, None)),
        ("select a from t limit 3", LiveRequest("select a from t", None, False, 3)),
        ("select a from t order by a, b", LiveRequest("select a from t order by a, b")),
    ],
)
def test_live_request_reads_order_and_limit(text: str, request_: LiveRequest) -> None:
    assert parse_live(text) == request_


def test_live_rows_apply_weights_and_mark_changes() -> None:
    rows = LiveRows(columns=COLUMNS)
    rows.apply("1", [(1, ("a", "1")), (1, ("b", "1"))], now=0.0)
    assert rows.changed == {}  # the snapshot is no change
    rows.apply("2", [(-1, ("a", "1")), (1, ("a", "2")), (1, ("c", "1"))], now=1.0)
    assert rows.top(LiveRequest("v"), 10) == [("a", "2"), ("b", "1"), ("c", "1")]
    assert rows.changed == {("a", "2"): (1.0, "changed"), ("c", "1"): (1.0, "new")}
    rows.apply("3", [(-1, ("c", "1"))], now=2.0)
    assert rows.total() == 2
    assert rows.version == "3"


def test_live_rows_sort_numbers_by_value_nulls_last_and_repeat_by_weight() -> None:
    rows = LiveRows(columns=COLUMNS)
    rows.apply("1", [(2, ("a", "10")), (1, ("b", "9")), (1, ("c", None))], now=0.0)
    ascending = LiveRequest("v", "n")
    assert rows.top(ascending, 10) == [("b", "9"), ("a", "10"), ("a", "10"), ("c", None)]
    assert rows.top(LiveRequest("v", "n", True), 2) == [("c", None), ("a", "10")]


class Feed(FakeBackend):
    """A subscription that ends."""

    def __init__(self, batches: list[list[Row]], failure: StatementFailed | None = None) -> None:
        super().__init__()
        self.batches = batches
        self.failure = failure

    def run(self, sql: str) -> Answer:
        self.ran.append(sql)
        columns = (Column("version", True), Column("weight", True), *COLUMNS)
        return Answer(columns=columns, batches=self._rows(), streaming=True)

    def _rows(self) -> Iterator[list[Row]]:
        yield from self.batches
        if self.failure:
            raise self.failure


def view(feed: Feed, text: str, *, colour: bool = False) -> str:
    out = io.StringIO()
    LiveView(
        feed, parse_live(text), Screen(out, io.StringIO(), colour=colour, fixed_width=60)
    ).run()
    return out.getvalue()


def test_live_view_shows_the_last_state_in_a_pipe() -> None:
    feed = Feed([[("1", "1", "a", "1")], [], [("2", "-1", "a", "1"), ("2", "1", "a", "2")]])
    text = view(feed, "v order by n")
    assert feed.ran == ["SUBSCRIBE TO v"]
    assert feed.closed
    assert "   a │ 2" in text
    assert "1 row, version 2, 3 changes" in text


def test_live_view_of_a_query_subscribes_to_it_in_parentheses() -> None:
    feed = Feed([[("1", "1", "a", "1")]])
    view(feed, "select k, n from t order by n desc")
    assert feed.ran == ["SUBSCRIBE TO (select k, n from t)"]


def test_live_view_redraws_in_place_on_a_terminal() -> None:
    feed = Feed([[("1", "1", "a", "1")]])
    out = io.StringIO()
    screen = Screen(out, io.StringIO(), colour=True, fixed_width=60)
    live = LiveView(feed, parse_live("v"), screen)
    live.rows.columns = COLUMNS
    live.rows.apply("1", [(1, ("a", "1"))], 0.0)
    live.draw(0.0)
    live.rows.apply("2", [(1, ("b", "1"))], 10.0)
    live.draw(10.1)
    text = out.getvalue()
    assert "\x1b[4A" in text  # four lines up: names, rule, one row, footer
    assert "\x1b[32m+  b │ 1\x1b[0m" in text


def test_live_view_raises_what_the_subscription_raises() -> None:
    feed = Feed([], StatementFailed("no such view", sqlstate="42P01"))
    with pytest.raises(StatementFailed, match="no such view"):
        view(feed, "v")
