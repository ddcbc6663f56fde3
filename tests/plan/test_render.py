"""Expressions as text, EXPLAIN's tree."""

from __future__ import annotations

import doctest

import pytest

from streamsql.plan import render as render_module
from streamsql.plan.binder import scope as scope_module
from streamsql.plan.explain import tree
from streamsql.plan.nodes import Filter, LogicalPlan, Project
from streamsql.plan.optimizer import simplify as simplify_module
from streamsql.plan.render import render
from streamsql.plan.visit import walk_plan
from tests.plan.shapes import SHAPES
from tests.plan.support import bind

EXPRESSIONS = (
    "a > 1",
    "a = 1 OR b = 'it''s' AND NOT g IN (1, 2)",
    "(a + 1) * 2 - g > 0",
    "a - (g - 1) = 0",
    "b LIKE 'x%' AND b IS NOT NULL",
    "a IS DISTINCT FROM g",
    "(a > 1) IS TRUE",
    "CASE WHEN a = 1 THEN 'x' ELSE b END = 'y'",
    "coalesce(a, g) = 3",
    "b || 'x' = 'y'",
)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_render_gives_text_that_binds_to_the_same_expression(text: str) -> None:
    first = predicate(bind(f"SELECT 1 FROM t WHERE {text}").plan)
    again = predicate(bind(f"SELECT 1 FROM t WHERE {render(first.predicate)}").plan)
    assert first.predicate == again.predicate
    assert render(first.predicate) == render(again.predicate)


def predicate(plan: LogicalPlan) -> Filter:
    return next(n for n in walk_plan(plan) if isinstance(n, Filter))


@pytest.mark.parametrize("text", ["a > 1", "a = 1 OR b = 'x'", "b LIKE 'x%'", "a + 1 > g * 2"])
def test_render_is_what_was_written(text: str) -> None:
    assert render(predicate(bind(f"SELECT 1 FROM t WHERE {text}").plan).predicate) == text


def test_names_come_from_the_input_and_are_quoted_where_needed() -> None:
    plan = bind('SELECT "Col" + 1 AS "Sum", col FROM "Quoted"').plan
    assert tree(plan)[0] == 'Project "Col" + 1 AS Sum, col'
    assert isinstance(plan, Project)


def test_computed_columns_are_shown_by_their_expression() -> None:
    text = "\n".join(tree(bind("SELECT a + 1, sum(g * 2) FROM t GROUP BY a + 1").plan))
    assert "Aggregate BY a + 1: sum((g * 2))" in text


def test_long_lists_are_cut_with_their_rest_counted() -> None:
    items = ", ".join(f"a + {i} AS column_number_{i}" for i in range(60))
    line = tree(bind(f"SELECT {items} FROM t").plan)[0]
    assert len(line) < 220
    assert line.endswith("more")


@pytest.mark.parametrize("sql", SHAPES)
def test_every_node_has_its_line(sql: str) -> None:
    plan = bind(sql).plan
    lines = tree(plan)
    assert len(lines) >= sum(1 for _ in walk_plan(plan))
    assert all(line.strip() and "<" + "object" not in line for line in lines)


@pytest.mark.parametrize("module", [render_module, scope_module, simplify_module])
def test_doctests(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
