"""Every rule keeps the rows: optimized and bound plans agree on random tables, for every shape."""

from __future__ import annotations

import itertools
import os

import pytest

from streamsql.plan.nodes import Limit, Sort
from streamsql.plan.optimizer import RULES, optimize
from streamsql.plan.optimizer.driver import everywhere
from tests.plan.generator import Generator
from tests.plan.shapes import SHAPES
from tests.plan.support import bag, bind, tables
from tests.plan.validate import validate

SEEDS = range(3)
DEEP_SEEDS = range(100, 140)


def check(sql: str, seeds: range) -> None:
    bound = bind(sql).plan
    steps = [("bound", bound)]
    for name, rule in RULES:
        steps.append((name, everywhere(steps[-1][1], rule)))
    assert steps[-1][1] == optimize(bound)
    for _, plan in steps:
        validate(plan)
    assert all(p.schema.types == bound.schema.types for _, p in steps)
    assert all(p.schema.names == bound.schema.names for _, p in steps)
    for seed in seeds:
        wanted = tables().rows(bound, seed=seed)
        for (_, before), (name, plan) in itertools.pairwise(steps):
            if plan == before:
                continue
            found = tables().rows(plan, seed=seed)
            assert bag(found) == bag(wanted), (name, seed, sql)
            if isinstance(bound, Sort | Limit):
                assert [r[0] for r in found] == [r[0] for r in wanted], (name, seed, sql)


@pytest.mark.parametrize("sql", SHAPES)
def test_rules_keep_the_rows_of_every_shape(sql: str) -> None:
    check(sql, SEEDS)


@pytest.mark.deep
@pytest.mark.skipif("STREAMSQL_DEEP" not in os.environ, reason="only with make test-deep")
@pytest.mark.parametrize("sql", SHAPES)
def test_rules_keep_the_rows_on_many_tables(sql: str) -> None:
    check(sql, DEEP_SEEDS)


def test_there_are_enough_shapes() -> None:
    assert len(set(SHAPES)) >= 100


@pytest.mark.parametrize("seed", range(60))
def test_rules_keep_the_rows_of_random_queries(seed: int) -> None:
    check(Generator(seed).query(), range(1))


@pytest.mark.deep
@pytest.mark.skipif("STREAMSQL_DEEP" not in os.environ, reason="only with make test-deep")
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_rules_keep_the_rows_of_many_random_queries(seed: int) -> None:
    check(Generator(seed).query(), range(2))
