"""A database for testing the protocol alone: SessionApi over DuckDB, with a few made-up statements.

SLEEP s; SERIES n (n numbers, in small batches); SUBSCRIBE (endless heartbeats, one row first);
FAIL code; NOTICE text; everything else is DuckDB's.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv

from streamsql.core import errors, types
from streamsql.engine.api import CopyOut, Notice, Prepared, Result, ResultColumn

_PARAMETER = re.compile(r"\$(\d+)(?:::(\w+))?")


@dataclass(frozen=True)
class FakeStatement:
    sql: str
    position: int = 0


class Empty(FakeStatement):
    """Only blanks."""


@dataclass
class FakeCopyIn:
    session: FakeSession
    table: str
    format: str = "csv"
    column_count: int = 2
    data: io.BytesIO = field(default_factory=io.BytesIO)
    failed: str | None = None

    def write(self, data: bytes) -> None:
        if b"bad" in data:
            raise errors.BadCopyFileFormat("missing data for column")
        self.data.write(data)

    def finish(self) -> Result:
        rows = pyarrow.csv.read_csv(
            io.BytesIO(self.data.getvalue()),
            read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=True),
        )
        self.session.con.register("_copy", rows)
        self.session.con.execute(f"INSERT INTO {self.table} SELECT * FROM _copy")
        self.session.con.unregister("_copy")
        return Result(f"COPY {rows.num_rows}")

    def fail(self, message: str) -> None:
        self.failed = message


class FakeSession:
    def __init__(self, database: FakeDatabase, user: str) -> None:
        self.con = database.con.cursor()
        self.database = database
        self.user = user
        self.settings: dict[str, str] = {"TimeZone": "UTC", "application_name": ""}
        self.status = "I"
        self.implicit = False
        self.stop = threading.Event()
        self.running = threading.Event()
        self.closed = False
        self.log: list[str] = []

    # --- SessionApi -------------------------------------------------------------------------------
    def parse(self, sql: str) -> list[Any]:
        if sql.count("'") % 2:
            raise errors.SqlSyntaxError("unterminated quoted string", position=sql.index("'"))
        out: list[Any] = []
        at = 0
        for part in re.split(r";(?=(?:[^']*'[^']*')*[^']*$)", sql):
            if part.strip():
                code = part.rpartition("*/")[2]
                out.append(FakeStatement(code.strip(), at + part.index(code.strip())))
            at += len(part) + 1
        return out

    def prepare(self, statement: Any, parameter_oids: tuple[int, ...] = ()) -> Prepared:
        sql, found = statement.sql, {}
        for number, name in _PARAMETER.findall(sql):
            found.setdefault(int(number), types.type_named(name) if name else types.TEXT)
        by_oid = {t.oid: t for t in (types.INTEGER, types.BIGINT, types.SMALLINT, types.TEXT, types.DOUBLE, types.NUMERIC, types.BOOLEAN, types.TIMESTAMP)}  # fmt: skip
        for i, oid in enumerate(parameter_oids):
            if oid in by_oid:
                found[i + 1] = by_oid[oid]
        parameters = tuple(found[i] for i in sorted(found))
        word = sql.split()[0].upper()
        if word == "FETCH":
            raise errors.InvalidCursorName(f"cursor {sql.split()[-1]} does not exist")
        columns: tuple[ResultColumn, ...] | None = None
        if word in ("SELECT", "VALUES", "FROM", "WITH"):
            typed = re.sub(r"\$(\d+)", lambda m: f"CAST(NULL AS {found[int(m[1])].duckdb})", sql)
            columns = self._columns(self._duck(typed + " LIMIT 0", ()))
        elif word == "ACL":
            columns = (ResultColumn("a", types.TEXT, oid=1033),)
        elif word in ("SERIES", "SUBSCRIBE", "HALFWAY"):
            columns = (ResultColumn("n", types.BIGINT),)
        return Prepared(statement, parameters, columns, "SELECT" if columns else word)

    def run(self, statement: Any, parameters: tuple[Any, ...] = ()) -> Any:
        self.stop.clear()
        sql = (statement.statement if isinstance(statement, Prepared) else statement).sql
        self.log.append(sql)
        if isinstance(statement, Prepared):
            known = statement.parameter_types
            sql = re.sub(
                r"\$(\d+)", lambda m: f"CAST(${m[1]} AS {known[int(m[1]) - 1].duckdb})", sql
            )
        word, _, rest = sql.partition(" ")
        word = word.upper()
        if self.status == "E" and word not in ("ROLLBACK", "COMMIT"):
            raise errors.InFailedTransaction(
                "current transaction is aborted, commands ignored until end of transaction block"
            )
        special = getattr(self, f"_{word.lower()}", None)
        try:
            if special is not None:
                return special(rest)
            table = self._duck(sql, parameters)
        except errors.StreamSqlError:
            self.fail_transaction()
            raise
        if word in ("SELECT", "VALUES", "FROM", "WITH"):
            return self._result(table)
        count = table.column(0)[0].as_py() if table.num_rows else 0
        tags = {"INSERT": f"INSERT 0 {count}", "DELETE": f"DELETE {count}"}
        return Result(tags.get(word, " ".join(sql.split()[:2]).upper()))

    def execute(self, sql: str, parameters: Any = None) -> Result:
        result = Result("")
        for statement in self.parse(sql):
            result = self.run(statement)
        return result

    @property
    def transaction_status(self) -> str:
        return self.status

    @property
    def parameters(self) -> Mapping[str, str]:
        return self.settings

    def fail_transaction(self) -> None:
        if self.status == "T":
            self.status = "E"

    def begin_implicit(self) -> None:
        if self.implicit or self.status != "I":
            return
        self.log.append("begin implicit")
        self.con.execute("BEGIN")
        self.implicit = True

    def end_implicit(self, *, commit: bool) -> None:
        if self.implicit:
            self.log.append("commit implicit" if commit else "rollback implicit")
            self.con.execute("COMMIT" if commit else "ROLLBACK")
        self.implicit = False

    def cancel(self) -> None:
        self.stop.set()
        self.con.interrupt()

    def close(self) -> None:
        if self.status != "I":
            self._rollback("")
        self.closed = True

    # --- statements -------------------------------------------------------------------------------
    def _begin(self, rest: str) -> Result:
        if self.status == "T":
            return Result(
                "BEGIN",
                notices=[Notice("there is already a transaction in progress", "WARNING", "25001")],
            )
        if not self.implicit:
            self.con.execute("BEGIN")
        self.implicit, self.status = False, "T"
        return Result("BEGIN")

    def _commit(self, rest: str) -> Result:
        failed = self.status == "E"
        if self.status != "I" or self.implicit:
            self.con.execute("ROLLBACK" if failed else "COMMIT")
        self.status, self.implicit = "I", False
        return Result("ROLLBACK" if failed else "COMMIT")

    def _rollback(self, rest: str) -> Result:
        if self.status != "I" or self.implicit:
            self.con.execute("ROLLBACK")
        self.status, self.implicit = "I", False
        return Result("ROLLBACK")

    def _set(self, rest: str) -> Result:
        name, value = re.split(r"\s*=\s*|\s+TO\s+", rest, maxsplit=1)
        name = {"timezone": "TimeZone"}.get(name.strip('"').lower(), name.strip('"').lower())
        if name == "nonsense":
            raise errors.UndefinedObject(f'unrecognized configuration parameter "{name}"')
        self.settings[name] = value.strip("'").replace("''", "'")
        return Result("SET")

    def _deallocate(self, rest: str) -> Result:
        if rest.upper() == "ALL":
            return Result("DEALLOCATE ALL")
        raise errors.InvalidPreparedStatementName(f"prepared statement {rest} does not exist")

    def _sleep(self, rest: str) -> Result:
        self.running.set()
        stopped = self.stop.wait(float(rest))
        self.running.clear()
        if stopped:
            raise errors.QueryCanceled("canceling statement due to user request")
        return Result("SLEEP")

    def _series(self, rest: str) -> Result:
        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, int(rest), 1000):
                stop = min(start + 1000, int(rest))
                yield pa.RecordBatch.from_arrays([pa.array(range(start, stop), pa.int64())], ["c0"])

        return Result("SELECT", (ResultColumn("n", types.BIGINT),), batches())

    def _halfway(self, rest: str) -> Result:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int64())], ["c0"])
            raise errors.DivisionByZero("division by zero")

        return Result("SELECT", (ResultColumn("n", types.BIGINT),), batches())

    def _acl(self, rest: str) -> Result:
        rows = pa.RecordBatch.from_arrays([pa.array(["x"])], ["c0"])
        return Result("SELECT", (ResultColumn("a", types.TEXT, oid=1033),), iter([rows]))

    def _subscribe(self, rest: str) -> Result:
        def batches() -> Iterator[pa.RecordBatch]:
            one = pa.RecordBatch.from_arrays([pa.array([1], pa.int64())], ["c0"])
            yield one
            self.running.set()
            try:
                while not self.stop.wait(0.01):
                    yield one.slice(0, 0)
            finally:
                self.running.clear()
            raise errors.QueryCanceled("canceling statement due to user request")

        return Result("SELECT", (ResultColumn("n", types.BIGINT),), batches(), streaming=True)

    def _fail(self, rest: str) -> Result:
        if rest == "hard":
            raise ZeroDivisionError("a bug")
        raise errors.DivisionByZero("division by zero", position=3, hint="Do not.", detail="It is.")

    def _notice(self, rest: str) -> Result:
        return Result("NOTICE", notices=[Notice(rest, hint="A hint.")])

    def _copy(self, rest: str) -> Any:
        source = re.match(r"\s*(\w+) FROM STDIN", rest, re.IGNORECASE)
        if source:
            return FakeCopyIn(self, source[1])
        query, format_ = re.fullmatch(
            r"\s*\((.*)\) TO STDOUT(?: (\w+))?", rest, re.IGNORECASE
        ).groups()  # type: ignore[union-attr]
        result = self.run(FakeStatement(query))
        if format_ == "csv":
            return CopyOut("csv", header=True, delimiter=",", null=""), result
        return CopyOut(format_ or "text"), result

    # --- DuckDB -----------------------------------------------------------------------------------
    def _duck(self, sql: str, parameters: tuple[Any, ...]) -> pa.Table:
        try:
            self.running.set()
            relation = self.con.sql(sql, params=list(parameters) or None)
            return pa.table({}) if relation is None else relation.to_arrow_table()
        except duckdb.InterruptException:
            raise errors.QueryCanceled("canceling statement due to user request") from None
        except duckdb.CatalogException as error:
            raise errors.UndefinedTable(str(error).splitlines()[0]) from None
        except duckdb.Error as error:
            raise errors.SqlSyntaxError(str(error).splitlines()[0]) from None
        finally:
            self.running.clear()

    def _columns(self, table: pa.Table) -> tuple[ResultColumn, ...]:
        return tuple(ResultColumn(f.name, types.from_arrow(f.type)) for f in table.schema)

    def _result(self, table: pa.Table) -> Result:
        columns = self._columns(table)
        named = table.rename_columns([f"c{i}" for i in range(table.num_columns)])
        return Result("SELECT", columns, iter(named.to_batches(max_chunksize=65_536)))


class FakeDatabase:
    def __init__(self) -> None:
        self.con = duckdb.connect()
        self.sessions: list[FakeSession] = []

    def session(self, *, user: str = "streamsql", backend_pid: int = 0) -> FakeSession:
        session = FakeSession(self, user)
        self.sessions.append(session)
        return session

    def close(self) -> None:
        self.con.close()
