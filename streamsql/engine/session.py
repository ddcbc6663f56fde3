"""A session: one client's statements, settings, transaction, cursors and prepared statements."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamsql.core.errors import (
    AdminShutdown,
    FeatureNotSupported,
    InFailedTransaction,
    OutOfMemory,
    ProgramLimitExceeded,
    ReadOnlyTransaction,
    StreamSqlError,
    UndefinedColumn,
    UndefinedTable,
)
from streamsql.core.types import TEXT, SqlType
from streamsql.dialect.statements import Statement
from streamsql.engine.activity import Activity
from streamsql.engine.api import CopyIn, CopyOut, Notice, Prepared, Result
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import TEMP_PREFIX, Catalog
from streamsql.engine.ddl import DdlOp, DropRelation, DropSchemaOp
from streamsql.engine.dml.given import Given, view_with
from streamsql.engine.parameters import guess_type, literals, numbered, positional, type_of_oid
from streamsql.engine.pgcatalog.mixed import with_catalog
from streamsql.engine.reads.duck import CancelToken
from streamsql.engine.reads.view import ReadView
from streamsql.engine.relations import DefinitionContext
from streamsql.engine.requests import CommitRequest
from streamsql.engine.settings import Variables, duration_ms, find, split_search_path
from streamsql.engine.statements.handler import Handler, written_at
from streamsql.engine.statements.jobs import change_beside, commit_patiently, run_patiently
from streamsql.engine.statements.registry import handler_of
from streamsql.engine.storage.table import TableState
from streamsql.engine.transaction import Transaction
from streamsql.runtime.scheduler import closed_error

if TYPE_CHECKING:
    from streamsql.engine.database import Database

Outcome = Result | CopyIn | tuple[CopyOut, Result]

_numbers = itertools.count(1)


class Session:
    """Implements `SessionApi`. Used by one thread at a time; `cancel` from any."""

    def __init__(self, database: Database, user: str = "streamsql", backend_pid: int = 0) -> None:
        self.database = database
        self.engine = database.engine
        self.user = user
        self.number = next(_numbers)
        self.backend_pid = backend_pid or self.number
        self.variables = Variables({"session_authorization": user})
        self.transaction: Transaction | None = None
        self.prepared: dict[str, Any] = {}
        self.cursors: dict[str, Any] = {}
        self.given: Given | None = None
        self.recursive: dict[str, tuple[str, ...]] = {}
        self.token = CancelToken()
        self.notices: list[Notice] = []
        self.closed = False
        self.written_version: int | None = None
        self.activity = Activity()
        self._lock = threading.RLock()

    # --- SessionApi -----------------------------------------------------------------------------
    @property
    def on_parameter(self) -> Callable[[str, str], None] | None:
        """Called with (name, value) when a reported variable changes."""
        return self.variables.on_change

    @on_parameter.setter
    def on_parameter(self, hook: Callable[[str, str], None] | None) -> None:
        self.variables.on_change = hook

    @property
    def parameters(self) -> Mapping[str, str]:
        """The variables that clients are told."""
        return self.variables.reported()

    @property
    def transaction_status(self) -> str:
        """ "I" idle, "T" in a transaction, "E" in a failed one."""
        if self.transaction is None or self.transaction.implicit:
            return "I"
        return "E" if self.transaction.failed else "T"

    def parse(self, sql: str) -> list[Statement]:
        """The statements of a text. Raises: SqlSyntaxError (42601) with position."""
        from streamsql.dialect import parse

        return parse(sql, self.variables.get("dialect"))

    def prepare(self, statement: Any, parameter_oids: tuple[int, ...] = ()) -> Prepared:
        """Bind without running."""
        with self._guard(statement):
            declared = [type_of_oid(oid) for oid in parameter_oids]
            return self.describe(statement, declared)

    def describe(self, statement: Statement, declared: list[SqlType | None]) -> Prepared:
        """The types of parameters and result of a statement; declared types may be None."""
        handler = handler_of(statement)
        described = handler.describe(self, statement, declared)
        return Prepared(
            statement,
            described.parameter_types,
            described.columns,
            handler.tag,
            described.parameter_oids,
        )

    def run(self, statement: Any, parameters: tuple[Any, ...] = ()) -> Outcome:
        """Run a statement or a Prepared."""
        with self._lock:
            self._check_open()
            self.token.start()
            prepared = statement if isinstance(statement, Prepared) else None
            tree: Statement = statement if prepared is None else prepared.statement
            with self.activity.statement(tree.sql), self._guard(tree), self._timeout():
                handler = handler_of(tree)
                self._check_transaction(handler)
                for text in tree.notices:
                    self.notice(text)
                if parameters or (prepared is not None and prepared.parameter_types):
                    if prepared is None:
                        prepared = self._describe_for(tree, parameters)
                    values = literals(parameters, prepared.parameter_types, self.timezone)
                    types: list[SqlType | None] = list(prepared.parameter_types)
                    outcome = run_patiently(self, handler, tree, values, types)
                else:
                    outcome = run_patiently(self, handler, tree, (), [])
            return self._with_notices(outcome)

    def _describe_for(self, statement: Statement, values: tuple[Any, ...]) -> Prepared:
        """Types deduced from the statement; where it leaves them open, from the values."""
        found = self.describe(statement, [])
        guesses: list[SqlType | None] = [
            guess_type(v) if t == TEXT else None
            for t, v in zip(found.parameter_types, values, strict=False)
        ]
        if not any(guesses):
            return found
        try:
            return self.describe(statement, guesses)
        except StreamSqlError:
            return found  # the statement needs text there

    def execute(self, sql: str, parameters: Any = None) -> Result:
        """Run all statements of a text, return the last one's result. Placeholders: $1, or ?."""
        values = positional(parameters)
        statements = self.parse(numbered(sql, len(values)) if values and "?" in sql else sql)
        if values and len(statements) > 1:
            raise FeatureNotSupported(
                "parameters are only possible with a single statement",
                hint="Run the statements one by one.",
            )
        result: Result = Result("")
        for i, statement in enumerate(statements):
            outcome = self.run(statement, values)
            if isinstance(outcome, tuple):
                outcome = outcome[1]
            if not isinstance(outcome, Result):
                outcome.fail("COPY FROM STDIN needs a client that sends data")
                raise FeatureNotSupported(
                    "COPY FROM STDIN is not possible here",
                    hint="Use Database.insert() for data in memory.",
                )
            if i + 1 < len(statements) and not outcome.streaming:
                for _ in outcome.batches:
                    pass
            result = outcome
        return result

    def fail_transaction(self) -> None:
        """An error happened outside of `run`: a transaction in progress has failed."""
        if self.transaction is not None:
            self.transaction.failed = True

    def cancel(self) -> None:
        """Stop what runs now, from any thread."""
        self.token.cancel()

    def close(self) -> None:
        """Roll back and free everything; may be called twice."""
        if self.closed:
            return
        self.closed = True
        self.token.cancel("terminating connection due to administrator command")
        with self._lock:
            self.close_cursors(held=True)
            self.end_transaction()
            self.drop_temporary()
            self.database.session_closed(self)

    # --- for the server: several statements in one text ------------------------------------------
    def begin_implicit(self) -> None:
        """The statements that follow are one transaction, unless one of them says otherwise."""
        if self.transaction is None:
            self.transaction = self.new_transaction(implicit=True)

    def end_implicit(self, *, commit: bool) -> None:
        """End what `begin_implicit` began. Raises: errors of the commit."""
        transaction = self.transaction
        if transaction is None or not transaction.implicit:
            return
        if commit and not transaction.failed:
            self.commit_transaction()
        else:
            self.end_transaction()

    # --- for statement handlers -----------------------------------------------------------------
    @property
    def catalog(self) -> Catalog:
        """The catalog as this session sees it."""
        return self.engine.catalog if self.transaction is None else self.transaction.catalog

    @property
    def timezone(self) -> str:
        return self.variables.get("TimeZone")

    @property
    def search_path(self) -> tuple[str, ...]:
        """Schemas that bare names are sought in; the session's temporary schema is first."""
        path = split_search_path(self.variables.get("search_path"), self.user)
        temp = self.temp_schema
        return (temp, *path) if temp in self.catalog.schemas else path

    @property
    def temp_schema(self) -> str:
        """Name of the schema of this session's temporary tables."""
        return f"{TEMP_PREFIX}{self.number}"

    @property
    def definition_context(self) -> DefinitionContext:
        """The settings that a definition depends on."""
        return DefinitionContext(self.search_path, self.timezone, self.variables.get("dialect"))

    @property
    def scope(self) -> BindScope:
        """What names mean here and now."""
        inline = frozenset() if self.transaction is None else self.transaction.inline
        extra = {} if self.given is None else self.given.relations
        return BindScope(self.catalog, self.definition_context, inline, extra)

    @property
    def reading_scope(self) -> BindScope:
        """The same for what is read at once, where PostgreSQL's catalog is known too."""
        return replace(self.scope, pg_catalog=True)

    def notice(
        self, message: str, *, severity: str = "NOTICE", sqlstate: str = "00000",
        hint: str | None = None,
    ) -> None:  # fmt: skip
        """A message for the client, sent with the statement's result."""
        self.notices.append(Notice(message, severity, sqlstate, hint))

    def read_view(self) -> ReadView:
        """What a statement reads: the newest version, or the transaction's."""
        return with_catalog(self._version_view(), self)

    def _version_view(self) -> ReadView:
        transaction = self.transaction
        if transaction is None:
            return self.engine.read_view()
        writes = transaction.writes if self.given is None else self.given.writes
        view = self.engine.read_view(transaction.pin(), writes, transaction.stored)
        view = replace(view, dropped=transaction.dropped)
        return view if self.given is None else view_with(view, self.given.rows)

    def table(self, oid: int) -> TableState | None:
        """The state of a table that this session sees."""
        if self.transaction is not None:
            return self.transaction.table(oid)
        return self.engine.tables.get(oid)

    def now_us(self) -> int:
        """The statement's time, µs."""
        return self.engine.clock_us()

    def commit(self, request: CommitRequest) -> None:
        """Have the engine do it, and remember its version."""
        self.wrote(commit_patiently(self, request))
        for table, count in request.ahead.items():
            rows = "1 row is" if count == 1 else f"{count} rows are"
            self.notice(
                f'{rows} further ahead of the clock than max_future of "{table}" allows, and moved '
                "no watermark",
                severity="WARNING", sqlstate="01000",
                hint="They are listed in streamsql.source_errors; WITH (max_future = 'off') lets "
                "them count.",
            )  # fmt: skip

    def wrote(self, version: int) -> None:
        """A statement's change is there in this version."""
        self.written_version = version
        if self.variables.get("streamsql.version_notice") == "on":
            self.notice(f"version {self.written_version}")

    @property
    def version(self) -> int:
        """`SHOW streamsql.version`: that of the last write, before one the newest."""
        newest = self.engine.version
        return newest if self.written_version is None else self.written_version

    def change_catalog(self, op: DdlOp, tables: dict[int, TableState] | None = None) -> None:
        """One catalog change: at once, or with the transaction."""
        self.change_catalog_all([op], tables)

    def change_catalog_all(
        self, ops: list[DdlOp], tables: dict[int, TableState] | None = None
    ) -> None:
        """Several catalog changes that belong together."""
        transaction = self.transaction
        if transaction is None:
            if not change_beside(self, tuple(ops)):
                self.commit(CommitRequest((), tuple(ops), tables or {}))
            return
        self.check_writable()
        if not transaction.collecting:
            transaction.pin()
        transaction.new_tables.update(tables or {})
        for op in ops:
            transaction.change_catalog(op)

    def set_variable(self, name: str, value: str | None, *, local: bool = False) -> str:
        """SET [LOCAL] name = value (None = its default); returns what is stored."""
        before = self.variables.snapshot()
        stored = self.variables.set(name, value)
        key = find(name).name.lower()
        if key == "transaction_read_only" and self.transaction is not None:
            self.transaction.read_only = stored == "on"
        if local:
            self.restore_at_end(key, before.get(key))
        return stored

    def restore_at_end(self, name: str, value: str | None) -> None:
        """SET LOCAL: the variable goes back to `value` when the transaction ends."""
        if self.transaction is not None:
            self.transaction.local.setdefault(name, value)

    def drop_temporary(self) -> None:
        """Drop this session's temporary tables and their schema."""
        schema = self.temp_schema
        if schema not in self.engine.catalog.schemas or self.engine.closed:
            return
        inside = [r for r in self.engine.catalog.relations.values() if r.schema == schema]
        ops: list[DdlOp] = [
            DropRelation(r.oid, r.name) for r in self.engine.catalog.drop_set(inside)
        ]
        self.engine.commit(CommitRequest((), (*ops, DropSchemaOp(schema))))

    def check_writable(self) -> None:
        """Raises: ReadOnlyTransaction (25006)."""
        transaction = self.transaction
        default = self.variables.get("default_transaction_read_only") == "on"
        if transaction.read_only if transaction is not None else default:
            raise ReadOnlyTransaction("cannot execute this statement in a read-only transaction")

    # --- transactions ---------------------------------------------------------------------------
    def new_transaction(
        self, *, implicit: bool = False, read_only: bool = False, collecting: bool = False
    ) -> Transaction:
        """A transaction that is not yet the session's own."""
        self.activity.transaction_start = self.activity.query_start
        return Transaction(
            self.engine, self.variables.snapshot(), implicit, read_only, collecting=collecting
        )

    def begin(self, *, read_only: bool) -> None:
        """BEGIN: an implicit transaction becomes an explicit one."""
        transaction = self.transaction
        if transaction is not None and transaction.implicit:
            transaction.implicit = False
            transaction.read_only = read_only
            return
        if transaction is not None:
            self.notice(
                "there is already a transaction in progress", severity="WARNING", sqlstate="25001"
            )
            return
        read_only = read_only or self.variables.get("default_transaction_read_only") == "on"
        self.transaction = self.new_transaction(read_only=read_only)

    def commit_transaction(self) -> None:
        """COMMIT; the transaction is over also when it fails."""
        transaction = self.transaction
        if transaction is None:
            return
        try:
            request = transaction.request()
            if request is not None:
                self.commit(request)
        except BaseException:
            self.end_transaction()
            raise
        self.close_cursors(held=False)
        transaction.close()
        self.transaction = None
        self._restore_local(transaction)

    def _restore_local(self, transaction: Transaction) -> None:
        for name, value in transaction.local.items():
            self.variables.set(name, value)

    def end_transaction(self) -> None:
        """ROLLBACK: forget the writes, restore the variables."""
        transaction = self.transaction
        self.transaction = None
        if transaction is not None:
            self.close_cursors(held=False)
            transaction.close()
            self.variables.restore(transaction.variables)

    def close_cursors(self, *, held: bool) -> None:
        """Close the cursors of the transaction; held: also those WITH HOLD."""
        for name, cursor in list(self.cursors.items()):
            if held or not cursor.held:
                cursor.close()
                del self.cursors[name]

    # --- guards ---------------------------------------------------------------------------------
    def _check_open(self) -> None:
        if self.engine.closed:
            raise closed_error()
        if self.closed:
            raise AdminShutdown("terminating connection due to administrator command")

    def _check_transaction(self, handler: Handler) -> None:
        transaction = self.transaction
        if transaction is not None and transaction.failed and not handler.in_failed:
            raise InFailedTransaction(
                "current transaction is aborted, commands ignored until end of transaction block"
            )

    @contextmanager
    def _guard(self, statement: Any) -> Iterator[None]:
        """Errors fail the transaction, and speak of positions in the statement's own text."""
        try:
            yield
        except RecursionError as error:
            self.fail_transaction()
            from streamsql.core.errors import StatementTooComplex

            raise StatementTooComplex(
                "stack depth limit exceeded", hint="Simplify the statement."
            ) from error
        except StreamSqlError as error:
            self.fail_transaction()
            if error.position is None and isinstance(error, UndefinedTable | UndefinedColumn):
                error.position = written_at(statement, error.message)
            raise
        except MemoryError as error:
            self.fail_transaction()
            raise OutOfMemory("out of memory", hint="Ask for less data at once.") from error
        except pa.ArrowCapacityError as error:
            self.fail_transaction()
            raise ProgramLimitExceeded(
                "a column of texts may hold 2 GB in one batch", hint="Ask for less data at once."
            ) from error
        except BaseException:
            self.fail_transaction()
            raise

    @contextmanager
    def _timeout(self) -> Iterator[None]:
        limit = self.variables.get("statement_timeout")
        if limit == "0":
            yield
            return
        timer = threading.Timer(
            duration_ms(limit) / 1000,
            self.token.cancel,
            ["canceling statement due to statement timeout"],
        )
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _with_notices(self, outcome: Outcome) -> Outcome:
        notices, self.notices = self.notices, []
        result = outcome[1] if isinstance(outcome, tuple) else outcome
        if isinstance(result, Result):
            result.notices[:0] = notices
            if result.streaming:
                result.batches = self.activity.streaming(result.batches)
        return outcome
