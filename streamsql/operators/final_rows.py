"""What stays final above rows that are given out once (EMIT ON WINDOW CLOSE)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

from streamsql.core.errors import FeatureNotSupported
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import LogicalPlan

_GROUP = "Group by window_start, window_end of a time window over a column with a WATERMARK."
_WINDOW = "Partition by window_start, window_end of a time window."
_COLUMN = "Keep the window's columns, or the time column, of every input in the SELECT list."
_COMPARE = "Compare them with those of the other side, so that a row's last partner is known."
_SIDES = "Select the time column, or window_start, window_end of time windows, on both sides."
_AGAIN = "Make a view of the part that closes EMIT ON WINDOW CLOSE, and this one over it without."


def first_changing(
    node: LogicalPlan, final: Sequence[LogicalPlan], together: Callable[[plan.Join], bool]
) -> LogicalPlan | None:
    """The topmost node that may take rows back although what is below it gives only new ones.

    final: nodes whose rows are given out once. None if no node between them and this one takes
    rows back: those that treat each row for itself, and those whose result only grows as their
    inputs do (inner and semi joins, UNION, INTERSECT, DISTINCT).
    """
    if any(node is f for f in final):
        return None
    if not _only_grows(node) and not (_joins_final(node, final) and together(node)):
        return node
    for below in node.inputs():
        changing = first_changing(below, final, together)
        if changing is not None:
            return node if isinstance(changing, plan.Scan) else changing
    return None


def _joins_final(node: LogicalPlan, final: Sequence[LogicalPlan]) -> TypeGuard[plan.Join]:
    """An outer join of rows that are given out once on both sides."""
    if not isinstance(node, plan.Join) or node.kind not in ("left", "right") or node.lateral:
        return False
    return all(_is_final(below, final) for below in node.inputs())


def _is_final(node: LogicalPlan, final: Sequence[LogicalPlan]) -> bool:
    while isinstance(node, plan.Project | plan.Filter) and not any(node is f for f in final):
        node = node.input
    return any(node is f for f in final)


def _only_grows(node: LogicalPlan) -> bool:
    if isinstance(node, plan.Scan):
        return node.append_only
    if isinstance(node, plan.Join):
        return node.kind in ("inner", "cross", "semi") and not node.lateral
    if isinstance(node, plan.SetOperation):
        return node.kind != "except"
    if isinstance(node, plan.TimeWindow):
        return node.kind != "session"
    each = plan.Project | plan.Filter | plan.Sort | plan.TableFunction
    return isinstance(node, each | plan.Distinct | plan.Values)


def not_final(node: LogicalPlan) -> FeatureNotSupported:
    """The refusal of a view whose rows change at this node as long as rows come (0A000)."""
    what, hint = _words(node)
    return FeatureNotSupported(
        f"EMIT ON WINDOW CLOSE needs rows that a watermark closes, and {what} changes its rows "
        "after that",
        hint=hint,
    )


def _words(node: LogicalPlan) -> tuple[str, str]:
    """(the node in SQL's words, what to write instead)."""
    if isinstance(node, plan.Aggregate):
        if node.grouping_sets is not None:
            return "a grouping set without a window's columns", _GROUP
        return ("GROUP BY without a window's columns" if node.keys else
                "an aggregate without GROUP BY"), _GROUP  # fmt: skip
    if isinstance(node, plan.Limit):
        return "ORDER BY with LIMIT over all rows", _WINDOW
    if isinstance(node, plan.DistinctOn):
        return "DISTINCT ON without a window's columns", _WINDOW
    if isinstance(node, plan.Window):
        return "OVER that is not partitioned by a window's columns", _WINDOW
    if isinstance(node, plan.SetOperation):
        return node.kind.upper(), _SIDES
    if isinstance(node, plan.Join):
        words = {"anti": "NOT EXISTS or NOT IN", "semi": "EXISTS or IN"}
        outer = node.kind in ("left", "right", "full", "anti")
        hint = f"{_COLUMN} {_COMPARE}" if outer else _COLUMN
        return words.get(node.kind, f"{node.kind.upper()} JOIN"), hint
    return "what is above the windows", _AGAIN
