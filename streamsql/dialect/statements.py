"""The statements of the dialect as plain data: what the parser returns and the engine executes.

Queries and expressions inside are sqlglot trees (ended by the binder); everything else is ours.
`position` fields are 0-based character offsets in the whole text that was parsed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from streamsql.core.types import SqlType

Name = tuple[str, ...]
"""A possibly qualified name, folded already: ("t",), ("public", "t")."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Base. sql: the user's own text of this statement (no trailing semicolon); position: where it
    starts in the whole text; notices: what was accepted and has no effect."""

    sql: str = field(default="", compare=False)
    position: int = field(default=0, compare=False)
    notices: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, kw_only=True)
class Query(Statement):
    """SELECT / VALUES / TABLE t / WITH …."""

    query: exp.Expression


@dataclass(frozen=True, kw_only=True)
class ColumnDef:
    """One column of CREATE TABLE. type is None only for an untyped generated column (Flink)."""

    name: str
    type: SqlType | None
    not_null: bool = False
    primary_key: bool = False
    unique: bool = False
    default: exp.Expression | None = None
    generated: exp.Expression | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class CheckDef:
    """[CONSTRAINT name] CHECK (condition)."""

    condition: exp.Expression
    name: str | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class UniqueDef:
    """[CONSTRAINT name] UNIQUE (columns)."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class WatermarkDef:
    """WATERMARK FOR column AS expression, or PERCENTILE(fraction, interval)."""

    column: str
    expression: exp.Expression | None
    percentile: float | None = None
    percentile_span_us: int | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class FormatDef:
    """FORMAT name ENCODE encode (options)."""

    format: str = "plain"
    encode: str = "json"
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CreateTable(Statement):
    """CREATE TABLE or CREATE SOURCE (`is_source`). on_conflict: error | overwrite | do_nothing |
    update_if_not_null | default (not written). schema_star: the `*` of `CREATE SOURCE s (*)`.
    partial: ksqlDB/Flink spellings were normalised. temporary: CREATE TEMP TABLE."""

    name: Name
    columns: tuple[ColumnDef, ...]
    if_not_exists: bool = False
    is_source: bool = False
    primary_key: tuple[str, ...] = ()
    checks: tuple[CheckDef, ...] = ()
    uniques: tuple[UniqueDef, ...] = ()
    watermark: WatermarkDef | None = None
    append_only: bool = False
    on_conflict: str = "default"
    options: dict[str, str] = field(default_factory=dict)
    format: FormatDef | None = None
    include: tuple[tuple[str, str], ...] = ()
    as_query: exp.Expression | None = None
    as_columns: tuple[str, ...] = ()  # names of as_query's first columns
    temporary: bool = False
    schema_star: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateView(Statement):
    """query_sql: the text of the query alone. emit: None | immediately | on_window_close."""

    name: Name
    query: exp.Expression
    query_sql: str
    columns: tuple[str, ...] = ()
    materialized: bool = False
    or_replace: bool = False
    if_not_exists: bool = False
    options: dict[str, str] = field(default_factory=dict)
    emit: str | None = None
    temporary: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateSchema(Statement):
    """CREATE SCHEMA [IF NOT EXISTS] name."""

    name: str
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class Drop(Statement):
    """kind: table | source | view | schema | … made_by_query: also said of materialized views."""

    kind: str
    names: tuple[Name, ...]
    if_exists: bool = False
    cascade: bool = False
    made_by_query: bool = False


@dataclass(frozen=True, kw_only=True)
class OnConflict:
    """ON CONFLICT of INSERT. action: nothing | update. targets: the named columns; constraint: the
    named constraint."""

    action: str
    targets: tuple[str, ...] = ()
    constraint: str | None = None
    assignments: tuple[tuple[str, exp.Expression], ...] = ()
    where: exp.Expression | None = None


@dataclass(frozen=True, kw_only=True)
class Insert(Statement):
    """query is None for DEFAULT VALUES. A bare DEFAULT inside VALUES is `exp.Var("DEFAULT")`."""

    table: Name
    columns: tuple[str, ...] = ()
    query: exp.Expression | None = None
    on_conflict: OnConflict | None = None
    returning: tuple[exp.Expression, ...] = ()
    alias: str | None = None


@dataclass(frozen=True, kw_only=True)
class Update(Statement):
    """UPDATE table [alias] SET … [FROM …] [WHERE …] [RETURNING …]."""

    table: Name
    assignments: tuple[tuple[str, exp.Expression], ...]
    alias: str | None = None
    from_: tuple[exp.Expression, ...] = ()
    where: exp.Expression | None = None
    returning: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Delete(Statement):
    """DELETE FROM table [alias] [USING …] [WHERE …] [RETURNING …]."""

    table: Name
    alias: str | None = None
    using: tuple[exp.Expression, ...] = ()
    where: exp.Expression | None = None
    returning: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Truncate(Statement):
    """TRUNCATE [TABLE] name, …."""

    tables: tuple[Name, ...]


@dataclass(frozen=True, kw_only=True)
class Copy(Statement):
    """COPY {table [(cols)] | (query) | (subscribe)} {FROM STDIN | TO STDOUT} (options)."""

    direction: str  # from | to
    table: Name | None = None
    columns: tuple[str, ...] = ()
    query: exp.Expression | None = None
    subscribe: Subscribe | None = None
    format: str = "text"
    header: bool = False
    delimiter: str | None = None
    null: str | None = None
    quote: str | None = None
    escape: str | None = None


@dataclass(frozen=True, kw_only=True)
class Transaction(Statement):
    """action: begin | commit | rollback | savepoint | release | rollback_to."""

    action: str
    name: str | None = None
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Subscribe(Statement):
    """SUBSCRIBE. as_of, up_to: a version, or an expression for one. limit: of rows."""

    relation: Name | None = None
    query: exp.Expression | None = None
    snapshot: bool = True
    progress: bool = False
    as_of: int | exp.Expression | None = None
    up_to: int | exp.Expression | None = None
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN. materialized_view: EXPLAIN ANALYZE MATERIALIZED VIEW v."""

    statement: Statement | None
    analyze: bool = False
    verbose: bool = False
    format: str = "text"
    materialized_view: Name | None = None


@dataclass(frozen=True, kw_only=True)
class SetVariable(Statement):
    """SET [LOCAL] name = value; None = DEFAULT and RESET; name "all" = RESET ALL."""

    name: str
    value: str | None
    local: bool = False


@dataclass(frozen=True, kw_only=True)
class ShowVariable(Statement):
    """SHOW name (name "all" = SHOW ALL)."""

    name: str


@dataclass(frozen=True, kw_only=True)
class ShowObjects(Statement):
    """kind: tables | sources | materialized views | views | sinks | indexes | jobs | subscriptions
    | schemas | databases | functions | columns (of `relation`)."""

    kind: str
    relation: Name | None = None
    schema: str | None = None
    like: str | None = None


@dataclass(frozen=True, kw_only=True)
class ShowCreate(Statement):
    """SHOW CREATE kind name."""

    kind: str
    name: Name


@dataclass(frozen=True, kw_only=True)
class Describe(Statement):
    """DESCRIBE name."""

    name: Name


@dataclass(frozen=True, kw_only=True)
class Flush(Statement):
    """FLUSH and WAIT."""


@dataclass(frozen=True, kw_only=True)
class AdvanceClock(Statement):
    """to: timestamp text; by_us: interval in µs; one of them."""

    to: str | None = None
    by_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class AdvanceWatermark(Statement):
    """ADVANCE WATERMARK FOR relation TO '…'."""

    relation: Name
    to: str


@dataclass(frozen=True, kw_only=True)
class DeclareCursor(Statement):
    """DECLARE name CURSOR FOR query | SUBSCRIBE, or SUBSCRIPTION CURSOR FOR s (`subscription`)."""

    name: str
    query: exp.Expression | None = None
    subscribe: Subscribe | None = None
    subscription: Name | None = None
    since: str | None = None
    full: bool = False
    with_hold: bool = False
    scroll: bool = False


@dataclass(frozen=True, kw_only=True)
class Fetch(Statement):
    """count: rows; None = ALL; negative = backward. timeout_us: WITH (timeout = …)."""

    cursor: str
    count: int | None
    move: bool = False
    timeout_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class CloseCursor(Statement):
    """name None = CLOSE ALL."""

    name: str | None


@dataclass(frozen=True, kw_only=True)
class PrepareStatement(Statement):
    """PREPARE name (types) AS statement."""

    name: str
    types: tuple[SqlType, ...]
    statement: Statement


@dataclass(frozen=True, kw_only=True)
class ExecuteStatement(Statement):
    """EXECUTE name (arguments)."""

    name: str
    arguments: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Deallocate(Statement):
    """name None = ALL."""

    name: str | None


@dataclass(frozen=True, kw_only=True)
class Discard(Statement):
    """DISCARD {ALL | PLANS | TEMP | SEQUENCES}."""

    what: str = "all"


@dataclass(frozen=True, kw_only=True)
class CreateIndex(Statement):
    """CREATE INDEX [name] ON table (expressions) [INCLUDE (columns)]."""

    name: Name | None
    table: Name
    expressions: tuple[exp.Expression, ...]
    unique: bool = False
    if_not_exists: bool = False
    include: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Comment(Statement):
    """COMMENT ON kind name [.column] IS text."""

    kind: str
    name: Name
    column: str | None
    text: str | None


@dataclass(frozen=True, kw_only=True)
class Alter(Statement):
    """ALTER kind name action (see `utility/alter.py`); arguments hold what the action needs."""

    kind: str
    name: Name
    action: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CreateSink(Statement):
    """CREATE SINK name [INTO t] {FROM v | AS q} WITH (…)."""

    name: Name
    from_relation: Name | None = None
    query: exp.Expression | None = None
    into: Name | None = None
    if_not_exists: bool = False
    options: dict[str, str] = field(default_factory=dict)
    format: FormatDef | None = None


@dataclass(frozen=True, kw_only=True)
class CreateSubscription(Statement):
    """CREATE SUBSCRIPTION name FROM v WITH (…)."""

    name: Name
    relation: Name
    options: dict[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class Merge(Statement):
    """MERGE INTO …; kept as its sqlglot tree."""

    tree: exp.Expression


@dataclass(frozen=True, kw_only=True)
class WriteCte:
    """name [(columns)] AS (INSERT | UPDATE | DELETE | MERGE …) of a WITH."""

    name: str
    statement: Statement
    columns: tuple[str, ...] = ()
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class WithWrites(Statement):
    """WITH whose CTEs write, before a query or DML. Queries among the CTEs are in the trees of what
    follows them."""

    ctes: tuple[WriteCte, ...]
    statement: Statement


@dataclass(frozen=True, kw_only=True)
class DeclareRecursive(Statement):
    """DECLARE RECURSIVE VIEW name (columns): for the CREATE VIEW of that name that follows."""

    name: Name
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Verify(Statement):
    """VERIFY MATERIALIZED VIEW name."""

    name: Name


@dataclass(frozen=True, kw_only=True)
class CancelJobs(Statement):
    """CANCEL JOB[S] n, …; ids None = all."""

    ids: tuple[int, ...] | None


@dataclass(frozen=True, kw_only=True)
class Translate(Statement):
    """TRANSLATE '…' [FROM 'dialect' (None = the session's)]; text: None = $1; start: its offset."""

    text: str | None
    dialect: str | None = None
    start: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class Notify(Statement):
    """LISTEN / UNLISTEN / NOTIFY; action says which."""

    action: str
    channel: str | None = None
    payload: str | None = None


@dataclass(frozen=True, kw_only=True)
class Empty(Statement):
    """An empty statement (only blanks or comments)."""
