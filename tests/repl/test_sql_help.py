"""\\h offers nothing that is refused."""

from __future__ import annotations

import re

from streamsql_repl.sql_help import TOPICS
from streamsql_repl.words import STATEMENT_STARTS

import streamsql
from streamsql.engine.statements.registry import HINTS


def test_options_of_a_view_that_the_help_names_are_taken() -> None:
    (topic,) = [t for t in TOPICS if t.name == "CREATE MATERIALIZED VIEW"]
    (line,) = [text for text in topic.syntax.splitlines() if text.startswith("options: ")]
    named = [
        (option, value)
        for option, values in re.findall(r"(\w+) = ('\w+(?: \w+)?'(?: \| '\w+')*)", line)
        for value in values.split(" | ")
    ]
    assert {option for option, _ in named} == {"on_error", "retention"}
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (a INT)")
        for i, (option, value) in enumerate(named):
            made = f"CREATE MATERIALIZED VIEW v{i} WITH ({option} = {value}) AS SELECT a FROM t"
            assert db.execute(made).tag == "CREATE MATERIALIZED VIEW"


def test_statements_that_are_refused_are_neither_in_the_help_nor_completed() -> None:
    refused = {name for name, _ in HINTS.values()}
    assert refused
    assert not refused & {name for topic in TOPICS for name in (topic.name, *topic.others)}
    assert not refused & set(STATEMENT_STARTS)
