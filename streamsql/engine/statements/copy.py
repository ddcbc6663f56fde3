"""COPY: data in and out in PostgreSQL's three formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamsql.core.errors import (
    DuplicateColumn,
    FeatureNotSupported,
    InvalidParameterValue,
    QueryCanceled,
    StreamSqlError,
    UndefinedColumn,
)
from streamsql.core.schema import Schema
from streamsql.dialect.statements import Copy, Query
from streamsql.engine.api import CopyOut, Result
from streamsql.engine.binding import BindScope
from streamsql.engine.copy_in.binary import BinaryReader
from streamsql.engine.copy_in.delimited import Dialect, read_block, split_block, strip_end
from streamsql.engine.definitions import standing_program
from streamsql.engine.dml.batches import one_batch
from streamsql.engine.dml.conflicts import Resolved
from streamsql.engine.dml.execute import carry_out, state_of, target_table
from streamsql.engine.dml.insert import by_policy
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.given_rows import first_bad
from streamsql.engine.relations import Relation
from streamsql.engine.statements import queries, subscribe
from streamsql.engine.statements.common import lookup
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.functions.expressions import Literal
from streamsql.functions.textio import parse_text

if TYPE_CHECKING:
    from streamsql.engine.session import Session

BLOCK_BYTES = 4 << 20


class RowsWrite:
    """Whole rows on their way into a table, by the table's own conflict policy."""

    def __init__(self, relation: Relation, rows: pa.RecordBatch) -> None:
        self.relation_id = relation.oid
        self.schema = relation.columns
        self.rules = relation.rules
        self.relation = relation
        self.rows = rows
        self.resolved: Resolved | None = None

    def evaluate(self) -> None:
        """The rows are given."""

    def resolve(self, image: TableImage) -> Resolved:
        """See `Write`."""
        self.resolved = by_policy(self.relation, image, self.rows)
        return self.resolved


class CopyFrom:
    """COPY … FROM STDIN in progress: implements `CopyIn`. Blocks are decoded as they come; the
    table gets all rows in one tick at `finish`."""

    def __init__(self, session: Session, statement: Copy) -> None:
        self.session = session
        assert statement.table is not None
        self.relation = lookup(session, statement.table)
        target_table(self.relation, what="copy to", changes_rows=False)
        session.check_writable()
        self.table = state_of(session, self.relation)
        scope = BindScope(session.catalog, self.relation.context)
        self.maker = RowMaker(self.relation, standing_program(self.relation, scope))
        self.columns = copy_columns(statement.columns, self.relation, self.maker.generated)
        self.schema: Schema = self.relation.columns.select(self.columns)
        self.format = statement.format
        self.column_count = len(self.columns)
        self._header = statement.header
        self._dialect = copy_dialect(statement)
        name = self.relation.name
        self._binary = BinaryReader(self.schema, name) if self.format == "binary" else None
        self._buffer: list[bytes] = []
        self._size = 0
        self._line = 1
        self._parts: list[pa.RecordBatch] = []
        self._timezone = session.timezone
        self._done = False

    def write(self, data: bytes) -> None:
        """More bytes, cut anywhere. Raises: 22P04, 22P02, 22021, …."""
        self._check()
        self._buffer.append(bytes(data))
        self._size += len(data)
        if self._size >= BLOCK_BYTES:
            self._decode(last=False)

    def finish(self) -> Result:
        """All data is there: insert it. Raises: errors of the data and of constraints."""
        self._check()
        self._done = True
        try:
            self._decode(last=True)
            rows = self._rows()
            write = RowsWrite(self.relation, rows)
            carry_out(self.session, self.table, write)
        except BaseException:
            self.session.fail_transaction()
            raise
        return Result(f"COPY {rows.num_rows}", row_count=rows.num_rows)

    def fail(self, message: str) -> None:
        """The client gave up."""
        self._done = True
        self._parts.clear()
        self.session.fail_transaction()

    def _check(self) -> None:
        if self._done:
            raise QueryCanceled("COPY has ended already")
        self.session.token.check()

    def _decode(self, *, last: bool) -> None:
        data = b"".join(self._buffer)
        self._buffer.clear()
        if self._binary is not None:
            self._binary.feed(data)
            self._parts += self._binary.rows()
            if last:
                self._binary.finish()
        else:
            block, rest = split_block(data, self._dialect, last=last)
            if rest:
                self._buffer.append(rest)
            self._decode_lines(strip_end(block) if last else block)
        self._size = sum(map(len, self._buffer))

    def _decode_lines(self, block: bytes) -> None:
        if self._header and block:
            cut = block.find(b"\n")
            block = block[cut + 1 :] if cut >= 0 else b""
            self._header = False
            self._line += 1
        if not block:
            return
        names = list(self.schema.names)
        name = self.relation.name
        texts = read_block(block, names, self._dialect, name, self._line)
        arrays = []
        for column, text in zip(self.schema, texts.columns, strict=True):
            whole = text.combine_chunks()
            whole = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
            arrays.append(self._parsed(whole, column.name, column.type))
        self._parts.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow))
        self._line += texts.num_rows

    def _parsed(self, texts: pa.Array, name: str, type_: Any) -> pa.Array:
        try:
            return parse_text(texts, type_, self._timezone)
        except StreamSqlError as error:
            row = first_bad(texts, type_, self._timezone)
            value = texts[row].as_py()
            place = f'COPY {self.relation.name}, line {self._line + row}, column {name}: "{value}"'
            raise type(error)(error.message, detail=place, hint=error.hint) from None

    def _rows(self) -> pa.RecordBatch:
        table = pa.Table.from_batches(self._parts, schema=self.schema.arrow)
        self._parts.clear()
        whole = one_batch(table, self.schema)
        given = dict(zip(self.columns, whole.columns, strict=True))
        now_us = self.session.now_us()
        rows = self.maker.complete(given, whole.num_rows, now_us, self._timezone)
        self.maker.check(rows)
        return rows


def copy_columns(
    names: tuple[str, ...], relation: Relation, generated: set[int]
) -> tuple[int, ...]:
    """Positions of the columns that the data has. Raises: 42703, 42701, 42P10."""
    if not names:
        return tuple(i for i in range(len(relation.columns)) if i not in generated)
    found: list[int] = []
    for name in names:
        at = relation.columns.index(name)
        if at < 0:
            raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
        if at in found:
            raise DuplicateColumn(f'column "{name}" specified more than once')
        if at in generated:
            from streamsql.core.errors import InvalidColumnReference

            raise InvalidColumnReference(
                f'column "{name}" is a generated column',
                detail="Generated columns cannot be used in COPY.",
            )
        found.append(at)
    return tuple(found)


def copy_dialect(statement: Copy) -> Dialect:
    """The options, with PostgreSQL's defaults. Raises: InvalidParameterValue (22023)."""
    is_csv = statement.format == "csv"
    delimiter = statement.delimiter or ("," if is_csv else "\t")
    quote = statement.quote or '"'
    for name, value in (("delimiter", delimiter), ("quote", quote)):
        if len(value.encode()) != 1:
            raise InvalidParameterValue(
                f"COPY {name} must be a single one-byte character",
                hint="Write E'\\t' for a tab." if name == "delimiter" else None,
            )
    if not is_csv and (delimiter in "\\.abcdefghijklmnopqrstuvwxyz0123456789\r\n"):
        raise InvalidParameterValue(
            f'COPY delimiter cannot be "{delimiter}"',
            hint="Take a character that is no lower-case letter, digit, dot or backslash, or csv.",
        )
    null = statement.null if statement.null is not None else ("" if is_csv else "\\N")
    return Dialect(is_csv, delimiter, null, quote, statement.escape or quote)


def copy_out(statement: Copy) -> CopyOut:
    """What the encoder is told."""
    dialect = copy_dialect(statement)
    return CopyOut(
        statement.format, statement.header, dialect.delimiter, dialect.null, dialect.quote
    )


def describe(session: Session, statement: Copy, declared: Types) -> Description:
    """COPY has no result columns in the protocol's sense."""
    return Description()


def run(
    session: Session, statement: Copy, values: tuple[Literal, ...], declared: Types
) -> CopyFrom | tuple[CopyOut, Result]:
    """COPY FROM STDIN gives a CopyIn, COPY TO STDOUT its rows."""
    if statement.format not in ("text", "csv", "binary"):
        raise InvalidParameterValue(f'COPY format "{statement.format}" not recognized')
    if statement.direction == "from":
        return CopyFrom(session, statement)
    if statement.subscribe is not None:
        result = subscribe.run(session, statement.subscribe, values, declared)
        return copy_out(statement), result
    query = statement.query
    if query is None:
        query = table_query(session, statement)
    inner = Query(query=query, sql=statement.sql, position=statement.position)
    result = queries.run_query(session, inner, values, declared)
    return copy_out(statement), Result("COPY", result.columns, result.batches)


def table_query(session: Session, statement: Copy) -> Any:
    """SELECT columns FROM table."""
    from sqlglot import exp

    from streamsql.engine.dml.returning import table_node

    assert statement.table is not None
    relation = lookup(session, statement.table)
    if relation.kind == "view":
        raise FeatureNotSupported(
            f'cannot copy from view "{relation.name}"',
            hint="Try the COPY (SELECT ...) TO variant.",
        )
    items: list[exp.Expression] = [exp.Star()]
    if statement.columns:
        copy_columns(statement.columns, relation, set())
        items = [exp.Column(this=exp.to_identifier(c, quoted=True)) for c in statement.columns]
    return exp.Select(expressions=items, from_=exp.From(this=table_node(relation, None)))


HANDLER = Handler(run, describe, "COPY")
