"""Random queries under random steps: after them every view is what DuckDB answers.

`make test-deep` runs 100,000 steps. One life again: `pytest -k "lives and [seed]"`; the failure
prints a script for `streamsql run`.
"""

from __future__ import annotations

import os

import pytest

from .lives import Life
from .world import Difference, Step, World, fails, live, script, shrink

DEEP = os.environ.get("STREAMSQL_DEEP") == "1"
FIRST, LIVES = int(os.environ.get("STREAMSQL_FIRST_LIFE", "0")), 500 if DEEP else 1
STEPS = 200 if DEEP else 80


@pytest.mark.parametrize("seed", range(FIRST, FIRST + LIVES))
def test_views_are_right_all_through_random_lives(seed: int) -> None:
    steps = Life(seed).steps(STEPS)
    world = World(seed)
    try:
        live(world, steps, check_every=4)
    except Difference as found:
        short = shrink(seed, steps, found, seconds=90)
        theirs = world.views.get(found.view, "")
        pytest.fail(f"seed {seed}\n{script(short, found, theirs)}", pytrace=False)
    finally:
        world.close()
    assert world.made > world.refused


def test_a_life_depends_on_its_seed_alone() -> None:
    assert Life(3).steps(150) == Life(3).steps(150) != Life(4).steps(150)
    kinds = {s.kind for s in Life(3).steps(600)}
    assert kinds == {"write", "transaction", "alone", "view", "drop", "close", "crash"}


def test_a_difference_is_found_and_shrunk_to_its_cause() -> None:
    wrong = ("SELECT k, w FROM p", "SELECT k, CASE WHEN w = 4 THEN 5 ELSE w END AS w FROM p")
    steps = [
        *Life(5).steps(12),
        Step("view", wrong, name="wrong"),
        Step("write", ("INSERT INTO p VALUES (1, 1, 3)",)),
        Step("write", ("INSERT INTO p VALUES (1, 1, 4)",)),
        *Life(6).steps(3),
    ]
    steps = [s for s in steps if s.kind != "view" or s.name == "wrong"]
    world = World(5)
    with pytest.raises(Difference) as raised:
        live(world, steps)
    world.close()
    short = shrink(5, steps, raised.value, seconds=20)
    assert sorted(s.kind for s in short) == ["view", "write"]
    assert all("4" in s.statements[-1] for s in short)
    assert fails(5, short, "wrong") is not None
    text = script(short, raised.value, wrong[1])
    assert text.startswith("CREATE TABLE t") and "SELECT * FROM wrong;" in text
