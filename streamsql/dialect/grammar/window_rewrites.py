"""Windows written outside FROM become window functions in FROM.

Three spellings: `GROUP BY TUMBLE(c, i)` with TUMBLE_START(…) and its kin in the select list
(Flink's first window syntax), ksqlDB's WINDOW clause, and Arroyo's `tumble(i)` as a grouped column.
"""

from __future__ import annotations

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported, SqlSyntaxError
from streamsql.dialect.grammar.time_windows import TimeWindowGrammar, WindowClause
from streamsql.dialect.nodes import WindowTvf
from streamsql.dialect.positions import mark, position_of

_GROUP_WINDOWS = {"tumble": ("size",), "hop": ("slide", "size"), "session": ("size",)}
_COLUMNS = {"start": "window_start", "end": "window_end", "rowtime": "window_time",
            "proctime": "window_time"}  # fmt: skip
_PSEUDO_COLUMNS = {"windowstart": "window_start", "windowend": "window_end"}


def rewrite_group_windows(select: exp.Select) -> None:
    """GROUP BY TUMBLE(c, i), HOP(c, slide, size), SESSION(c, gap): window the relation of c."""
    group = select.args.get("group")
    if group is None:
        return
    calls = [item for item in group.expressions if _is_group_window(item)]
    if not calls:
        return
    if len(calls) > 1:
        raise SqlSyntaxError("only one time window per GROUP BY", position=position_of(calls[1]))
    call = calls[0]
    names = _GROUP_WINDOWS[call.name.lower()]
    column, sizes = call.expressions[0], call.expressions[1:]
    if not isinstance(column, exp.Column):
        raise SqlSyntaxError(
            "a window's time column must be a plain column", position=position_of(column)
        )
    window = WindowTvf(kind=call.name.lower(), time_column=column)
    for name, size in zip(names, sizes, strict=False):
        window.set(name, TimeWindowGrammar.window_interval(size))
    keys = [item for item in group.expressions if item is not call]
    if window.kind == "session":
        window.set("partition_by", _partition_columns(keys))
    _put_over_source(select, window, column)
    select.meta["group_window"] = window.kind
    for key in ("expressions", "having", "qualify"):
        _replace_calls(select, key)
    columns = _window_columns()
    if any(column.name == "window_time" for column in select.find_all(exp.Column)):
        columns.append(_column("window_time"))  # one a window: groups stay what they were
    group.set("expressions", [*keys, *columns])


def rewrite_bare_windows(select: exp.Select) -> None:
    """Arroyo's `SELECT tumble(i) AS w, … GROUP BY w`: a window over the watermark column of the
    relation; the column itself becomes a struct of the window's start and end."""
    group = select.args.get("group")
    if group is None:
        return
    keys, calls = [], []
    for key in group.expressions:
        call = _bare_window(_grouped(select, key))
        if call is None:
            keys.append(key)
        else:
            calls.append(call)
    if not calls:
        return
    call = calls[0]
    if any(other != call for other in calls):
        raise SqlSyntaxError("only one time window per GROUP BY", position=position_of(calls[1]))
    kind = call.name.lower()
    window = WindowTvf(kind=kind)
    for name, size in zip(_GROUP_WINDOWS[kind], call.expressions, strict=True):
        window.set(name, TimeWindowGrammar.window_interval(size.copy()))
    if kind == "session":
        window.set("partition_by", _partition_columns([_grouped(select, key) for key in keys]))
    window.meta["start"] = position_of(call)
    items = []
    for item in select.expressions:
        if isinstance(item, exp.Alias) and item.this == call:
            item.set("this", _window_struct())
        elif item == call:
            label = exp.Identifier(this="window", quoted=True)
            items.append(exp.Alias(this=_window_struct(), alias=label))
            continue
        items.append(item)
    select.set("expressions", items)
    _put_over_source(select, window, None)
    group.set("expressions", [*keys, *_window_columns()])


def _grouped(select: exp.Select, key: exp.Expression) -> exp.Expression:
    """What a key of GROUP BY means: the item of the select list that it names or counts."""
    items = select.expressions
    if isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
        at = int(key.name) - 1
        key = items[at] if 0 <= at < len(items) else key
        return key.this if isinstance(key, exp.Alias) else key
    if isinstance(key, exp.Column) and not key.table:
        for item in items:
            if isinstance(item, exp.Alias) and item.alias == key.name:
                inner: exp.Expression = item.this
                return inner
    return key


def _bare_window(item: exp.Expression) -> exp.Anonymous | None:
    """A window function with nothing but intervals."""
    if not isinstance(item, exp.Anonymous):
        return None
    names = _GROUP_WINDOWS.get(item.name.lower())
    if names is None or len(item.expressions) != len(names):
        return None
    return item if all(isinstance(a, exp.Interval) for a in item.expressions) else None


def _window_struct() -> exp.Struct:
    fields = [
        exp.PropertyEQ(this=exp.Identifier(this=name, quoted=True), expression=_column(column))
        for name, column in (("start", "window_start"), ("end", "window_end"))
    ]
    return exp.Struct(expressions=fields)


def rewrite_window_clause(select: exp.Select, clause: WindowClause) -> None:
    """ksqlDB's WINDOW clause: window the relation by its watermark column, group by window too."""
    group = select.args.get("group")
    if group is None:
        raise SqlSyntaxError("WINDOW needs GROUP BY", position=clause.token.start)
    window = WindowTvf(kind=clause.kind, size=clause.size, slide=clause.slide)
    if clause.kind == "session":
        window.set("partition_by", _partition_columns(list(group.expressions)))
    mark(window, clause.token)
    _put_over_source(select, window, None)
    for column in list(select.find_all(exp.Column)):
        target = _PSEUDO_COLUMNS.get(column.name)
        if target is not None and not isinstance(column.this, exp.Star):
            column.this.set("this", target)
    group.set("expressions", [*group.expressions, *_window_columns()])


def _is_group_window(item: exp.Expression) -> bool:
    return isinstance(item, exp.Anonymous) and (
        len(item.expressions) == 1 + len(_GROUP_WINDOWS.get(item.name.lower(), ()))
        and item.name.lower() in _GROUP_WINDOWS
    )


def _window_columns() -> list[exp.Expression]:
    return [_column("window_start"), _column("window_end")]


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def _partition_columns(keys: list[exp.Expression]) -> list[exp.Column]:
    """The other group keys, which a session window is kept per."""
    for key in keys:
        if not isinstance(key, exp.Column):
            raise FeatureNotSupported(
                "SESSION in GROUP BY beside a key that is not a plain column",
                position=position_of(key),
                hint="Compute the key in a subquery, or use SESSION(…) in FROM.",
            )
    return [key.copy() for key in keys]


def _put_over_source(select: exp.Select, window: WindowTvf, column: exp.Column | None) -> None:
    """Replace the relation that holds the time column by the window over it."""
    from_ = select.args.get("from_")
    if from_ is None:
        raise SqlSyntaxError("a time window needs FROM", position=position_of(window))
    holders = [from_, *select.args.get("joins", [])]
    qualifier = column.args.get("table") if column is not None else None
    chosen = [h for h in holders if qualifier is None or h.this.alias_or_name == qualifier.name]
    if len(chosen) != 1:
        raise FeatureNotSupported(
            "a time window in GROUP BY over a join whose time column is not qualified",
            position=position_of(column or window),
            hint="Write the relation's name before the column, or use TUMBLE(…) in FROM.",
        )
    holder = chosen[0]
    source = holder.this
    if isinstance(source, (exp.Lateral, exp.Paren)):
        raise FeatureNotSupported(
            "a time window in GROUP BY over this relation",
            position=position_of(source),
            hint="Use TUMBLE(…), HOP(…) or SESSION(…) in FROM.",
        )
    alias = source.args.get("alias")
    if isinstance(source, exp.Table) and alias is None:
        alias = exp.TableAlias(this=source.this.copy())
    window.set("joins", source.args.get("joins"))
    source.set("joins", None)
    if isinstance(source, exp.Table) and not (alias and alias.args.get("columns")):
        source.set("alias", None)
        window.set("this", source)
    else:
        window.set("this", source if isinstance(source, exp.Subquery) else _subquery(source))
    if column is not None:
        bare = column.copy()
        bare.set("table", None)
        window.set("time_column", bare)
    window.set("partition_by", [_bare(key) for key in window.args.get("partition_by") or []])
    window.set("alias", exp.TableAlias(this=alias.this.copy()) if alias and alias.this else None)
    start = position_of(source)
    if start is not None and "start" not in window.meta:
        window.meta["start"] = start
    holder.set("this", window)


def _bare(key: exp.Column) -> exp.Column:
    key.set("table", None)
    return key


def _subquery(source: exp.Expression) -> exp.Subquery:
    return exp.Subquery(this=exp.Select(expressions=[exp.Star()], from_=exp.From(this=source)))


def rewrite_sort_keys(select: exp.Select) -> None:
    """TUMBLE_START(c, i) and the like in ORDER BY, which is read after the rest of the query."""
    if select.meta.get("group_window"):
        _replace_calls(select, "order")


def _replace_calls(select: exp.Select, clause: str) -> None:
    """TUMBLE_START(c, i) and the like become columns of the window."""
    prefix = f"{select.meta['group_window']}_"
    value = select.args.get(clause)
    for root in value if isinstance(value, list) else [value]:
        if not isinstance(root, exp.Expression):
            continue
        for call in list(root.find_all(exp.Anonymous)):
            name = call.name.lower()
            target = _COLUMNS.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
            if target is not None:
                column = _column(target)
                column.meta.update(call.meta)
                call.replace(column)
