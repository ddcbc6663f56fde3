"""The rules in their order, and the loop that applies them."""

from __future__ import annotations

from collections.abc import Callable

from streamsql.plan.nodes import LogicalPlan

Rule = Callable[[LogicalPlan], LogicalPlan]
RULES: tuple[tuple[str, Rule], ...] = ()
"""(name, rule): each takes a whole plan and gives an equivalent one with the same schema."""


def optimize(plan: LogicalPlan) -> LogicalPlan:
    """The plan rewritten by all RULES; its result is the same bag of rows, in the same columns."""
    for _, rule in RULES:
        plan = rule(plan)
    return plan
