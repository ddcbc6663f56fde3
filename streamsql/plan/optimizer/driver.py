"""The rules in their order, and the loop that applies them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamsql.functions.expressions import Expr, Subquery, transform, walk
from streamsql.plan.depth import limited_depth
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.optimizer.comparisons import combine_comparisons
from streamsql.plan.optimizer.empty import drop_dead_branches
from streamsql.plan.optimizer.inherited_order import inherit_order
from streamsql.plan.optimizer.join_order import order_joins
from streamsql.plan.optimizer.jsonb_comparisons import compare_jsonb_operands
from streamsql.plan.optimizer.jsonb_keys import compare_jsonb_by_value
from streamsql.plan.optimizer.lateral import unnest_laterals
from streamsql.plan.optimizer.marks import unnest_marks
from streamsql.plan.optimizer.membership import unnest_membership
from streamsql.plan.optimizer.projects import merge_projects
from streamsql.plan.optimizer.prune import prune_columns
from streamsql.plan.optimizer.pushdown import push_down_predicates
from streamsql.plan.optimizer.scalar_subqueries import unnest_scalar_subqueries
from streamsql.plan.optimizer.simplify import simplify_expressions
from streamsql.plan.optimizer.ties import break_ties
from streamsql.plan.visit import map_node, node_expressions, transform_plan, walk_plan

Rule = Callable[[LogicalPlan], LogicalPlan]
RULES: tuple[tuple[str, Rule], ...] = (
    ("JSONB comparisons by value", compare_jsonb_operands),
    ("simplify expressions", simplify_expressions),
    ("order of subqueries", inherit_order),
    ("EXISTS and IN to semi joins", unnest_membership),
    ("scalar subqueries to joins", unnest_scalar_subqueries),
    ("EXISTS, IN, ANY and ALL to joins", unnest_marks),
    ("LATERAL to joins", unnest_laterals),
    ("JSONB keys by value", compare_jsonb_by_value),
    ("push predicates down", push_down_predicates),
    ("combine comparisons", combine_comparisons),
    ("order joins", order_joins),
    ("drop dead branches", drop_dead_branches),
    ("prune columns", prune_columns),
    ("merge projections", merge_projects),
    ("break ties", break_ties),
)
"""(name, rule): each takes a whole plan and gives an equivalent one with the same schema."""


@limited_depth
def optimize(plan: LogicalPlan) -> LogicalPlan:
    """The plan rewritten by all RULES; its result is the same bag of rows, in the same columns."""
    nested = has_subqueries(plan)
    for _, rule in RULES:
        if not nested:
            plan = rule(plan) if rule not in _FOR_SUBQUERIES else plan
        else:
            plan = everywhere(plan, rule)
            nested = has_subqueries(plan)
    return plan


_FOR_SUBQUERIES = (unnest_membership, unnest_scalar_subqueries, unnest_marks)


def has_subqueries(plan: LogicalPlan) -> bool:
    """Does any expression of the plan hold a subquery?"""
    return any(
        isinstance(e, Subquery)
        for node in walk_plan(plan)
        for expr in node_expressions(node)
        for e in walk(expr)
    )


def everywhere(plan: LogicalPlan, rule: Rule) -> LogicalPlan:
    """Apply a rule to the plan, and before that to the plans of subquery expressions in it."""
    return rule(transform_plan(plan, lambda node: _inside(node, rule)))


def _inside(node: LogicalPlan, rule: Rule) -> LogicalPlan:
    def one(expr: Expr) -> Expr:
        if isinstance(expr, Subquery):
            return replace(expr, plan=everywhere(expr.plan, rule))
        return expr

    own = node_expressions(node)
    changed = {id(e): transform(e, one) for e in own}
    if all(changed[id(e)] is e for e in own):
        return node
    return map_node(node, lambda e: changed[id(e)])
