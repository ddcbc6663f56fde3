"""EXPLAIN's tree of the logical plan: one line a node, names and conditions as SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamsql.core.schema import Column, Schema
from streamsql.functions.expressions import ColumnRef, Expr, Subquery, walk
from streamsql.plan.nodes import (
    Aggregate,
    CteRef,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    RecursiveCte,
    Scan,
    SetOperation,
    Sort,
    TableFunction,
    TimeWindow,
    Values,
    Window,
    WindowSpec,
)
from streamsql.plan.render import (
    interval_text,
    render,
    render_aggregate,
    render_sort_keys,
    render_window,
)
from streamsql.plan.visit import node_expressions

MAX_TEXT = 160
"""Characters of one list in a line; what is longer is cut, with the number of what is missing."""


def tree(plan: LogicalPlan) -> list[str]:
    """The plan, a line a node, inputs indented below; subqueries of expressions follow their
    node."""
    lines: list[str] = []
    _add(plan, "", "", lines)
    return lines


def _add(plan: LogicalPlan, head: str, body: str, lines: list[str]) -> None:
    lines.append(head + describe(plan))
    below: list[tuple[str, LogicalPlan]] = [("", i) for i in plan.inputs()]
    below += [("subquery: ", s.plan) for e in node_expressions(plan) for s in _subqueries(e)]
    for n, (label, child) in enumerate(below):
        last = n == len(below) - 1
        _add(
            child,
            f"{body}{'└─ ' if last else '├─ '}{label}",
            f"{body}{'   ' if last else '│  '}",
            lines,
        )


def _subqueries(expr: Expr) -> list[Subquery]:
    return [e for e in walk(expr) if isinstance(e, Subquery)]


def labels(plan: LogicalPlan) -> Schema:
    """The plan's columns under names that mean something: computed ones by their expression."""
    schema = plan.schema
    if all(schema.names):
        return schema
    match plan:
        case Project():
            below = labels(plan.input)
            found = [render(e, below) for e in plan.exprs]
        case Aggregate():
            below = labels(plan.input)
            found = [below[k].name for k in plan.keys] + list(schema.names[len(plan.keys) :])
        case Join() if plan.kind not in ("semi", "anti"):
            found = [*labels(plan.left).names, *labels(plan.right).names]
        case _ if plan.inputs():
            below = labels(plan.inputs()[0])
            found = [*below.names, *schema.names[len(below) :]]
        case _:
            return schema
    return Schema(tuple(Column(c.name or f, c.type) for c, f in zip(schema, found, strict=True)))


def _origins(plan: LogicalPlan) -> list[str]:
    """For each column the relation it comes from, as far as that is one."""
    match plan:
        case Scan():
            return [plan.name] * len(plan.schema)
        case Project():
            below = _origins(plan.input)
            return [below[e.index] if isinstance(e, ColumnRef) else "" for e in plan.exprs]
        case Join() if plan.kind not in ("semi", "anti"):
            return [*_origins(plan.left), *_origins(plan.right)]
        case Aggregate():
            below = _origins(plan.input)
            return [below[k] for k in plan.keys] + [""] * (len(plan.schema) - len(plan.keys))
        case Filter() | Window() | TimeWindow() | Distinct() | Sort() | Limit() | Join():
            below = _origins(plan.inputs()[0])
            return [*below, *[""] * (len(plan.schema) - len(below))]
    return [""] * len(plan.schema)


def _join_labels(p: Join) -> Schema:
    """Names of both sides' columns; one that both have is told apart by its relation or side."""
    left, right = labels(p.left), labels(p.right)
    taken = set(left.names) & set(right.names)
    left_from, right_from = _origins(p.left), _origins(p.right)
    found = []
    for side, schema, origins, others in (
        ("left", left, left_from, right_from),
        ("right", right, right_from, left_from),
    ):
        for c, origin in zip(schema, origins, strict=True):
            name = c.name
            if name in taken:
                clear = origin and origin not in others
                name = f"{origin if clear else side}.{name}"
            found.append(Column(name, c.type))
    return Schema(tuple(found))


def describe(plan: LogicalPlan) -> str:
    """One node as one line: its SQL word and what it does."""
    return _DESCRIBE[type(plan)](plan)


def _listed(items: Sequence[str]) -> str:
    text = ""
    for n, item in enumerate(items):
        longer = f"{text}, {item}" if text else item
        if len(longer) > MAX_TEXT and text:
            return f"{text}, … {len(items) - n} more"
        text = longer
    return text


def _outputs(exprs: Sequence[Expr], outputs: Schema, source: Schema) -> str:
    items = []
    for e, c in zip(exprs, outputs, strict=True):
        text = render(e, source)
        plain = isinstance(e, ColumnRef) and (text == c.name or not c.name)
        items.append(text if plain or c.name in ("", "?column?") else f"{text} AS {c.name}")
    return _listed(items)


def _scan(p: Scan) -> str:
    head = f"{p.access} on" if p.access else "Scan"
    text = f"{head} {p.name} [{_listed([n or '?' for n in p.schema.names])}]"
    if p.kind != "table":
        text += f" ({p.kind.replace('_', ' ')})"
    if p.append_only:
        text += " append only"
    if p.watermark_column is not None:
        text += f" watermark {p.schema[p.watermark_column].name}"
    return text


def _values(p: Values) -> str:
    if not p.schema:
        return (
            "Values: one row without columns" if len(p.rows) == 1 else f"Values: {len(p.rows)} rows"
        )
    rows = [f"({', '.join(render(e) for e in row)})" for row in p.rows]
    return f"Values {_listed(rows)}" if rows else "Values: no rows"


def _project(p: Project) -> str:
    return f"Project {_outputs(p.exprs, p.schema, labels(p.input))}"


def _filter(p: Filter) -> str:
    return f"Filter {render(p.predicate, labels(p.input))}"


_JOIN_WORDS = {
    "asof": "ASOF",
    "asof_left": "ASOF LEFT",
    "lookup": "TEMPORAL (processing time)",
    "lookup_left": "TEMPORAL (processing time) LEFT",
    "versioned": "TEMPORAL (event time)",
    "versioned_left": "TEMPORAL (event time) LEFT",
}


def _join(p: Join) -> str:
    words = _JOIN_WORDS.get(p.kind, p.kind.upper())
    text = f"{words} JOIN"
    if p.lateral:
        text += " LATERAL"
    if p.condition is not None:
        text += f" ON {render(p.condition, _join_labels(p))}"
    return text + (" (NULL-aware)" if p.null_aware else "")


def _aggregate(p: Aggregate) -> str:
    names = [labels(p.input)[k].name or f"#{k}" for k in p.keys]
    calls = _listed([render_aggregate(a, labels(p.input)) for a in p.aggregates])
    text = "Aggregate"
    if p.grouping_sets is not None:
        sets = ", ".join(f"({', '.join(names[i] for i in s)})" for s in p.grouping_sets)
        text += f" BY GROUPING SETS ({sets})"
    elif names:
        text += f" BY {_listed(names)}"
    return f"{text}: {calls}" if calls else text


def _window(p: Window) -> str:
    return f"Window {_listed([render_window(c, labels(p.input)) for c in p.calls])}"


def spec_text(spec: WindowSpec) -> str:
    """A window size as text."""
    return interval_text(spec.months, spec.days, spec.us)


def _time_window(p: TimeWindow) -> str:
    word = {"session": "gap"}.get(p.kind, "size")
    parts = [labels(p.input)[p.time_column].name or f"#{p.time_column}"]
    parts.append(f"{word} {spec_text(p.size)}")
    if p.slide is not None:
        parts.append(f"{'step' if p.kind == 'cumulate' else 'hop'} {spec_text(p.slide)}")
    if p.offset != WindowSpec():
        parts.append(f"offset {spec_text(p.offset)}")
    if p.max_size is not None:
        parts.append(f"max {spec_text(p.max_size)}")
    if p.partition_by:
        parts.append("partition by " + _listed([labels(p.input)[k].name for k in p.partition_by]))
    if p.tz is not None:
        parts.append(f"time zone {p.tz}")
    return f"{p.kind.capitalize()} window on {', '.join(parts)}"


def _distinct(p: Distinct) -> str:
    return "Distinct"


def _distinct_on(p: DistinctOn) -> str:
    keys = _listed([labels(p.input)[k].name or f"#{k}" for k in p.keys])
    order = render_sort_keys(p.order_by, labels(p.input))
    return f"Distinct on {keys}" + (f", first by {order}" if order else "")


def _sort(p: Sort) -> str:
    return f"Sort {render_sort_keys(p.order_by, labels(p.input))}"


def _limit(p: Limit) -> str:
    parts = []
    if p.limit is not None:
        parts.append(render(p.limit) + (" with ties" if p.with_ties else ""))
    if p.offset is not None:
        parts.append(f"offset {render(p.offset)}")
    text = f"Limit {' '.join(parts)}"
    return text + (f" by {render_sort_keys(p.order_by, labels(p.input))}" if p.order_by else "")


def _set_operation(p: SetOperation) -> str:
    return f"{p.kind.capitalize()}{' all' if p.all else ''}"


def _table_function(p: TableFunction) -> str:
    args = ", ".join(render(a, labels(p.input)) for a in p.args)
    text = f"{'Left table' if p.outer else 'Table'} function {p.function}({args})"
    return text + (" with ordinality" if p.with_ordinality else "")


def _recursive(p: RecursiveCte) -> str:
    return f"Recursive {'union all' if p.all else 'union'} (loop {p.cte_id})"


def _cte_ref(p: CteRef) -> str:
    return f"Rows of loop {p.cte_id} so far"


_DESCRIBE: dict[type[LogicalPlan], Callable[..., str]] = {
    Scan: _scan,
    Values: _values,
    Project: _project,
    Filter: _filter,
    Join: _join,
    Aggregate: _aggregate,
    Window: _window,
    TimeWindow: _time_window,
    Distinct: _distinct,
    DistinctOn: _distinct_on,
    Sort: _sort,
    Limit: _limit,
    SetOperation: _set_operation,
    TableFunction: _table_function,
    RecursiveCte: _recursive,
    CteRef: _cte_ref,
}
