"""Completion by context."""

from __future__ import annotations

import pytest
from streamsql_repl.completion import Words, suggest

WORDS = Words(
    relations={
        "orders": ["id", "customer_id", "amount"],
        "customers": ["id", "name", "Mixed Case"],
        "sales.daily": ["day", "total"],
        "order": ["x"],
    },
    schemas=["public", "sales"],
)
COMMANDS = ["d", "dt", "timing", "live", "x"]


def texts(before: str) -> list[str]:
    return [s.text for s in suggest(before, WORDS, COMMANDS)]


def of_kind(before: str, kind: str) -> list[str]:
    return [s.text for s in suggest(before, WORDS, COMMANDS) if s.kind == kind]


@pytest.mark.parametrize(
    "before",
    [
        "select * from ",
        "SELECT * FROM a JOIN ",
        "insert into ",
        "update ",
        "subscribe to ",
        "describe ",
        "select * from orders, ",
        "select 1; select * from ",
        "select * from tumble(",
    ],
)
def test_relations_are_suggested_where_a_relation_stands(before: str) -> None:
    assert texts(before)[:4] == ["customers", '"order"', "orders", "sales.daily"]


def test_relations_match_what_is_typed() -> None:
    assert texts("select * from ord") == ['"order"', "orders"]
    assert texts("select * from sal") == ["sales.daily", "sales"]
    assert suggest("select * from ord", WORDS)[1].length == 3


def test_columns_of_the_relations_in_scope() -> None:
    assert of_kind("select * from orders where ", "column") == ["id", "customer_id", "amount"]
    assert of_kind("select * from orders o join customers c on ", "column") == [
        "id",
        "name",
        '"Mixed Case"',
        "customer_id",
        "amount",
    ]
    assert of_kind("select am", "column") == ["amount"]


def test_alias_dot_gives_the_columns_of_its_relation() -> None:
    assert texts("select * from orders o join customers as c on o.id = c.") == [
        "id",
        "name",
        '"Mixed Case"',
    ]
    assert texts("select * from orders where orders.cu") == ["customer_id"]
    assert texts("select * from sales.daily d where d.") == ["day", "total"]


def test_schema_dot_gives_its_relations() -> None:
    assert texts("select * from sales.") == ["daily"]
    assert texts("select * from public.cus") == ["customers"]


def test_keywords_follow_the_case_that_is_typed() -> None:
    assert "WHERE" in texts("select * from orders WHE")
    assert "where" in texts("select * from orders whe")
    assert of_kind("CREATE MATE", "keyword") == ["MATERIALIZED"]


def test_statement_starts_at_the_beginning() -> None:
    assert "CREATE MATERIALIZED VIEW" in texts("CR")
    assert "select" in texts("sel")
    assert "select" in texts("select 1; sel")


def test_commands_and_their_relations() -> None:
    assert texts("\\d") == ["\\dt"] or "\\dt" in texts("\\d")
    assert texts("\\tim") == ["\\timing"]
    assert texts("\\d cus") == ["customers"]
    assert texts("\\live ord") == ['"order"', "orders"]


@pytest.mark.parametrize("before", ["select 'fro", "select 'a from ", "create table "])
def test_nothing_inside_strings_and_for_new_names(before: str) -> None:
    assert not [s for s in suggest(before, WORDS) if s.kind == "relation"]


def test_functions_are_suggested_in_expressions() -> None:
    assert "date_trunc" in texts("select date_")


def test_vocabulary_is_read_from_the_catalog() -> None:
    from .fakes import FakeBackend, rows

    class Catalog(FakeBackend):
        def run(self, sql):  # type: ignore[no-untyped-def]
            assert "information_schema.columns" in sql
            return rows("s t c", ("public", "a", "x"), ("public", "a", "y"), ("s", "b", "z"))

    words = Words.read(Catalog())
    assert words.relations == {"a": ["x", "y"], "s.b": ["z"]}
    assert words.schemas == ["public", "s"]
