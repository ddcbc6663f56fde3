"""The binder: sqlglot trees to bound plans, by PostgreSQL's rules for names and types."""

from streamsql.plan.binder.context import BindContext, RelationInfo
from streamsql.plan.binder.entry import (
    bind_expression,
    bind_insert_source,
    bind_predicate,
    bind_query,
)

__all__ = [
    "BindContext",
    "RelationInfo",
    "bind_expression",
    "bind_insert_source",
    "bind_predicate",
    "bind_query",
]
