"""From the catalog to the binder: what a name means in a statement, with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from streamsql.core.errors import WrongObjectType
from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.engine.catalog import Catalog
from streamsql.engine.names import parts_of
from streamsql.engine.relations import OBJECTS, DefinitionContext, Relation
from streamsql.functions.expressions import Expr
from streamsql.plan.binder.context import NOW_FREE, NOW_REFUSED, NOW_TICK, BindContext, RelationInfo


@dataclass(frozen=True)
class BindScope:
    """What binding depends on besides the statement; `cache_key` says it for a cache.

    inline: materialized views that are not built yet (made in this transaction): read as views.
    extra: names that hide the catalog's, for the target of UPDATE and DELETE. pg_catalog: whether
    PostgreSQL's catalog relations are known too. standing: the definition is in force already, and
    reads the clock where a new one must not.
    """

    catalog: Catalog
    definition: DefinitionContext
    inline: frozenset[int] = frozenset()
    extra: Mapping[tuple[str, ...], RelationInfo] = field(default_factory=dict)
    pg_catalog: bool = False
    standing: bool = False

    @property
    def cache_key(self) -> tuple[Any, ...]:
        return (self.catalog.version, self.definition, self.inline)

    def relation(self, parts: Sequence[str]) -> Relation | None:
        """The relation that a name means, or None."""
        return self.catalog.resolve(tuple(parts), self.definition.search_path)

    def resolve(self, parts: tuple[str, ...]) -> RelationInfo | None:
        """What the binder asks."""
        found = self.extra.get(parts)
        if found is not None:
            return found
        relation = self.relation(parts)
        if relation is not None:
            check_readable(relation)
            return relation_info(relation, self.inline)
        if not self.pg_catalog:
            return None
        from streamsql.engine.pgcatalog.mixed import mixed_relation

        return mixed_relation(parts)

    def context(
        self,
        *,
        parameter_types: list[SqlType | None] | None = None,
        volatile_allowed: bool = True,
        now: str = NOW_FREE,
        text: str | None = None,
    ) -> BindContext:
        """The binder's context. parameter_types None = no parameters allowed."""
        return BindContext(
            resolve=self.resolve,
            search_path=self.definition.search_path,
            timezone=self.definition.timezone,
            parameter_types=parameter_types,
            volatile_allowed=volatile_allowed,
            now=NOW_TICK if self.standing and now == NOW_REFUSED else now,
            source_text=text,
        )


def check_readable(relation: Relation, position: int | None = None) -> None:
    """Raises: WrongObjectType (42809) for what has a relation's name and no rows."""
    if relation.kind in OBJECTS:
        plural = "indexes" if relation.kind == "index" else "subscriptions"
        raise WrongObjectType(
            f'cannot open relation "{relation.name}"',
            detail=f"This operation is not supported for {plural}.",
            position=position,
        )


def relation_info(
    relation: Relation, inline: frozenset[int] = frozenset(), extra: Schema | None = None
) -> RelationInfo:
    """The binder's view of a relation. extra: hidden columns that stand after the user's."""
    kind = "view" if relation.oid in inline else relation.kind
    return RelationInfo(
        relation_id=relation.oid,
        name=relation.name,
        schema_name=relation.schema,
        schema=relation.columns if extra is None else relation.columns + extra,
        kind=kind,
        unique_keys=relation.unique_keys,
        append_only=relation.append_only,
        watermark_column=relation.watermark_column,
        view_query=relation.query if kind == "view" else None,
        proctime_columns=relation.proctime_columns,
    )


def bind_scalar(
    tree: exp.Expression,
    schema: Schema,
    context: BindContext,
    relation_name: str | None = None,
    target: SqlType | None = None,
) -> Expr:
    """An expression over one row of `schema`; target: the type it is assigned to."""
    from streamsql.plan.binder import bind_expression

    return bind_expression(tree, schema, context, relation_name, target=target)


def target_name(table: exp.Table) -> str:
    """The last part of a relation's name: what its columns are qualified with."""
    return parts_of(table)[-1]
