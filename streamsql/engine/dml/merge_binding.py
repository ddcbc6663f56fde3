"""MERGE from its tree to a `BoundMerge`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from streamsql.core.errors import (
    DuplicateColumn,
    GeneratedAlways,
    SqlSyntaxError,
    UndefinedColumn,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, TEXT, SqlType
from streamsql.dialect import position_of
from streamsql.dialect.statements import Merge
from streamsql.engine.api import ResultColumn
from streamsql.engine.binding import BindScope, relation_info
from streamsql.engine.definitions import TableProgram, standing_program
from streamsql.engine.dml.given import given_info, given_table, qualified_column, scope_with
from streamsql.engine.dml.merge import BoundMerge, BoundWhen
from streamsql.engine.dml.modify import TARGET
from streamsql.engine.parameters import settle
from streamsql.engine.reads.select import result_columns
from streamsql.engine.storage.table import TableState
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.optimizer import optimize

NUMBER = "\x00number"
PRESENT = "\x00present"
ACTION = "\x00action"
_TARGET, _SOURCE, _RESULT = "\x00merge target", "\x00merge source", "\x00merge result"


def bind_merge(
    statement: Merge, table: TableState, scope: BindScope, declared: Sequence[SqlType | None]
) -> BoundMerge:
    """Raises: 42601, 42703, 42701, 42804, 428C9, 42P01, 42712."""
    return _Binder(statement, table, scope, list(declared)).run()


@dataclass
class _Binder:
    statement: Merge
    table: TableState
    scope: BindScope
    types: list[SqlType | None]

    def __post_init__(self) -> None:
        tree = self.statement.tree
        self.relation = self.table.relation
        self.program: TableProgram = standing_program(
            self.relation, BindScope(self.scope.catalog, self.relation.context)
        )
        self.generated = {i for i, _ in self.program.generated}
        self.alias: str = tree.this.alias or self.relation.name
        using = tree.args["using"]
        if isinstance(using, exp.Paren) or not using.alias_or_name:
            raise SqlSyntaxError(
                "the source of MERGE needs a name",
                position=position_of(using),
                hint="Write USING relation AS name, or USING (SELECT …) AS name.",
            )
        self.source_alias: str = using.alias_or_name

    def run(self) -> BoundMerge:
        tree = self.statement.tree
        whens = list(tree.args["whens"].expressions)
        self.check_reachable(whens)
        kinds = {_kind(when) for when in whens}
        join = self.join(kinds)
        stored = self.table.schema
        columns = join.schema.columns[len(stored) : -1]
        number = Column(NUMBER, BIGINT)
        user = [Column(c.name, c.type) for c in self.relation.columns]
        self.source = Schema((*columns, number))
        self.target = Schema((*user, number))
        self.result = Schema((*user, number, Column(ACTION, TEXT)))
        self.inner = scope_with(
            self.scope,
            {
                _TARGET: given_info(0, self.alias, self.target),
                _SOURCE: given_info(1, self.source_alias, self.source),
                _RESULT: given_info(2, self.alias, self.result),
            },
        )
        bound_whens = tuple(self.when(when) for when in whens)
        returning: LogicalPlan | None = None
        returned: tuple[ResultColumn, ...] = ()
        if tree.args.get("returning") is not None:
            returning, returned = self.returning(tree.args["returning"].expressions)
        return BoundMerge(
            relation=self.relation,
            program=self.program,
            join=join,
            stored=stored,
            target=self.target,
            source=self.source,
            result=self.result,
            whens=bound_whens,
            returning=returning,
            returned=returned,
            parameter_types=settle(self.types),
        )

    def check_reachable(self, whens: list[exp.Expression]) -> None:
        """Raises: SqlSyntaxError (42601) for what stands behind a WHEN without a condition."""
        closed: set[str] = set()
        for when in whens:
            if _kind(when) in closed:
                raise SqlSyntaxError(
                    "unreachable WHEN clause specified after unconditional WHEN clause",
                    position=position_of(when),
                )
            if when.args.get("condition") is None:
                closed.add(_kind(when))

    # --- the join -------------------------------------------------------------------------------
    def join(self, kinds: set[str]) -> LogicalPlan:
        """Stored columns of the target, the source's columns, PRESENT."""
        from streamsql.plan.binder import bind_query

        tree = self.statement.tree
        hidden = Schema(self.table.schema.columns[self.table.num_columns :])
        info = relation_info(self.relation, extra=hidden)
        scope = scope_with(self.scope, {TARGET: info})
        present = exp.Alias(this=exp.true(), alias=exp.to_identifier(PRESENT, quoted=True))
        inner = exp.Select(
            expressions=[exp.Star(), present], from_=exp.From(this=tree.args["using"].copy())
        )
        name = exp.TableAlias(this=exp.to_identifier(self.source_alias, quoted=True))
        source = exp.Subquery(this=inner, alias=name)
        items: list[exp.Expression] = [
            qualified_column(c.name, self.alias) for c in self.table.schema.columns
        ]
        star = exp.to_identifier(self.source_alias, quoted=True)
        items.append(exp.Column(this=exp.Star(), table=star))
        sides = {
            (False, False): None,
            (True, False): "RIGHT",
            (False, True): "LEFT",
            (True, True): "FULL",
        }
        side = sides["by_target" in kinds, "by_source" in kinds]
        select = exp.Select(
            expressions=items,
            from_=exp.From(this=given_table(TARGET, self.alias)),
            joins=[exp.Join(this=source, on=tree.args["on"].copy(), side=side)],
        )
        context = scope.context(parameter_types=self.types, text=self.statement.sql)
        return optimize(bind_query(select, context).plan)

    # --- WHEN -----------------------------------------------------------------------------------
    def when(self, when: exp.Expression) -> BoundWhen:
        kind, action = _kind(when), when.args["then"]
        condition = None
        if when.args.get("condition") is not None:
            condition = self.over_pairs(kind, [], [], when.args["condition"])
        if isinstance(action, exp.Var):
            name = "delete" if action.name == "DELETE" else "nothing"
            return BoundWhen(kind, name, condition)
        pairs = self.insert_pairs(action) if isinstance(action, exp.Insert) else [
            (self.column(change.this), change.expression) for change in action.expressions
        ]  # fmt: skip
        given: list[int] = []
        trees: list[exp.Expression] = []
        defaulted: list[int] = []
        inserts = isinstance(action, exp.Insert)
        for at, tree in pairs:
            if at in given or at in defaulted:
                self.repeated(at, inserts)
            if isinstance(tree, exp.Var) and tree.name.upper() == "DEFAULT":
                defaulted.append(at)
            else:
                self.refuse_generated(at, inserts)
                given.append(at)
                trees.append(tree)
        values = self.over_pairs(kind, given, trees, None) if given else None
        name = "insert" if inserts else "update"
        return BoundWhen(kind, name, condition, values, tuple(given), tuple(defaulted))

    def insert_pairs(self, action: exp.Insert) -> list[tuple[int, exp.Expression]]:
        """(column, value) of INSERT [(columns)] VALUES (…)."""
        if action.expression is None:
            return []
        values = action.expression.expressions
        if action.this is None:
            if len(values) > len(self.relation.columns):
                raise SqlSyntaxError(
                    "INSERT has more expressions than target columns",
                    position=position_of(values[len(self.relation.columns)]),
                )
            return list(enumerate(values))
        targets = [self.column(name) for name in action.this.expressions]
        if len(targets) != len(values):
            more = "expressions" if len(values) > len(targets) else "target columns"
            fewer = "target columns" if len(values) > len(targets) else "expressions"
            raise SqlSyntaxError(
                f"INSERT has more {more} than {fewer}", position=position_of(action.expression)
            )
        return list(zip(targets, values, strict=True))

    def column(self, node: exp.Expression) -> int:
        at = self.relation.columns.index(node.name)
        if at < 0:
            raise UndefinedColumn(
                f'column "{node.name}" of relation "{self.relation.name}" does not exist',
                position=position_of(node),
            )
        return at

    def repeated(self, at: int, inserts: bool) -> None:
        name = self.relation.columns[at].name
        if inserts:
            raise DuplicateColumn(f'column "{name}" specified more than once')
        raise SqlSyntaxError(f'multiple assignments to same column "{name}"')

    def refuse_generated(self, at: int, inserts: bool) -> None:
        if at in self.generated:
            name = self.relation.columns[at].name
            raise GeneratedAlways(
                f'cannot insert a non-DEFAULT value into column "{name}"'
                if inserts
                else f'column "{name}" can only be updated to DEFAULT',
                detail=f'Column "{name}" is a generated column.',
            )

    def over_pairs(
        self,
        kind: str,
        columns: list[int],
        trees: list[exp.Expression],
        condition: exp.Expression | None,
    ) -> LogicalPlan:
        """SELECT number, values FROM the sides that a kind knows [WHERE condition]."""
        from streamsql.plan.binder import bind_insert_source

        sides = {
            "matched": [(_TARGET, self.alias), (_SOURCE, self.source_alias)],
            "by_target": [(_SOURCE, self.source_alias)],
            "by_source": [(_TARGET, self.alias)],
        }[kind]
        number = qualified_column(NUMBER, sides[0][1])
        select = exp.Select(
            expressions=[number, *(tree.copy() for tree in trees)],
            from_=exp.From(this=given_table(*sides[0])),
        )
        conditions = [] if condition is None else [exp.Paren(this=condition.copy())]
        if len(sides) == 2:
            same = exp.EQ(this=number.copy(), expression=qualified_column(NUMBER, sides[1][1]))
            select.set("joins", [exp.Join(this=given_table(*sides[1]), on=same)])
        if conditions:
            select.set("where", exp.Where(this=conditions[0]))
        wanted = [Column(NUMBER, BIGINT)]
        wanted += [
            Column(self.relation.columns[i].name, self.relation.columns[i].type) for i in columns
        ]
        context = self.inner.context(parameter_types=self.types, text=self.statement.sql)
        return optimize(bind_insert_source(select, wanted, context).plan)

    # --- RETURNING ------------------------------------------------------------------------------
    def returning(
        self, items: list[exp.Expression]
    ) -> tuple[LogicalPlan, tuple[ResultColumn, ...]]:
        """Over the row after the action and the source's; `*` is the source's columns, then the
        table's."""
        from streamsql.plan.binder import bind_query

        source = [qualified_column(c.name, self.source_alias) for c in self.source.columns[:-1]]
        target = [qualified_column(c.name, self.alias) for c in self.relation.columns]
        expanded: list[exp.Expression] = []
        for item in items:
            owner = item.args.get("table") if item.is_star else None
            if isinstance(item, exp.Star):
                expanded += [*source, *target]
            elif owner is not None and owner.name == self.source_alias:
                expanded += source
            elif owner is not None and owner.name == self.alias:
                expanded += target
            else:
                expanded.append(item.copy().transform(self.merge_action))
        result, number = given_table(_RESULT, self.alias), qualified_column(NUMBER, self.alias)
        same = exp.EQ(this=number, expression=qualified_column(NUMBER, self.source_alias))
        select = exp.Select(
            expressions=[item.copy() for item in expanded],
            from_=exp.From(this=result),
            joins=[exp.Join(this=given_table(_SOURCE, self.source_alias), on=same)],
            order=exp.Order(expressions=[exp.Ordered(this=number.copy(), nulls_first=False)]),
        )
        context = self.inner.context(parameter_types=self.types, text=self.statement.sql)
        bound = bind_query(select, context)
        columns = result_columns(bound.plan.schema, bound.origins, self.scope.catalog)
        return optimize(bound.plan), columns

    def merge_action(self, node: exp.Expression) -> exp.Expression:
        """merge_action() is a column of the result."""
        if isinstance(node, exp.Anonymous) and node.name == "merge_action" and not node.expressions:
            found: exp.Expression = qualified_column(ACTION, self.alias)
            if not isinstance(node.parent, exp.Alias):
                found = exp.Alias(this=found, alias=exp.to_identifier("merge_action", quoted=True))
            return found
        return node


def _kind(when: exp.Expression) -> str:
    if when.args["matched"]:
        return "matched"
    return "by_source" if when.args.get("source") else "by_target"
