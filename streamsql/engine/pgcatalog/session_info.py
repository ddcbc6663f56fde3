"""What catalog queries ask of a session, and the relations whose rows it makes."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from streamsql.engine.catalog import DATABASE, DATABASE_OID, OWNER_OID
from streamsql.engine.pgcatalog.static import system_relations
from streamsql.engine.settings import SETTINGS

LET_IN_OID = 16_383
"""Role OID of a session's user that is not the owner."""

Volatile = tuple[Any, Callable[[], pa.Table]]
"""(what the rows depend on, None = everything; how to make them)."""

STARTED = datetime.datetime.now(datetime.UTC)


IDLE = {"I": "idle", "T": "idle in transaction", "E": "idle in transaction (aborted)"}
"""Transaction status → what pg_stat_activity calls a session that waits for its client."""


class SessionInfo:
    """A view of one session for one query."""

    database_name = DATABASE
    started = STARTED

    def __init__(self, session: Any) -> None:
        self._session = session

    @property
    def user(self) -> str:
        return str(self._session.user)

    @property
    def backend_pid(self) -> int:
        return int(self._session.backend_pid)

    @property
    def version(self) -> int:
        return int(getattr(getattr(self._session, "engine", None), "version", 1))

    @property
    def search_path(self) -> tuple[str, ...]:
        return tuple(self._session.search_path)

    def version_text(self) -> str:
        """What `SELECT version()` says: clients read the number behind `PostgreSQL`."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            ours = version("streamsql")
        except PackageNotFoundError:
            ours = "0"
        return f"PostgreSQL {self.setting('server_version')} (streamsql {ours})"

    def current_schema(self) -> str | None:
        """The first schema of the search path that exists."""
        existing = self.schemas(False)
        return existing[0] if existing else None

    def schemas(self, implicit: bool) -> list[str]:
        """Schemas of the search path that exist; implicit: with pg_catalog, always first."""
        known = self._session.catalog.schemas
        found = [s for s in self.search_path if s in known]
        if implicit and "pg_catalog" not in found:
            found.insert(0, "pg_catalog")
        return found

    def setting(self, name: str) -> str:
        """Value of a variable."""
        from streamsql.engine.statements.variables import value_of

        return value_of(self._session, name)

    # --- relations ------------------------------------------------------------------------------
    def settings_table(self) -> pa.Table:
        """Every variable we know and its value, for current_setting()."""
        pairs = [(s.name, self.setting(s.name)) for s in SETTINGS]
        for row in system_relations()["pg_catalog", "pg_settings"].rows.to_pylist():
            pairs.append((row["name"], row["setting"]))
        seen: dict[str, str] = {}
        for name, value in pairs:
            seen.setdefault(name.lower(), value)
        return pa.table({"lowered": list(seen), "setting": list(seen.values())})

    def pg_settings(self) -> pa.Table:
        """PostgreSQL's list with our values."""
        table = system_relations()["pg_catalog", "pg_settings"].rows
        ours = {s.name.lower(): self.setting(s.name) for s in SETTINGS}
        names = table["name"].to_pylist()
        values = [
            ours.get(name.lower(), old)
            for name, old in zip(names, table["setting"].to_pylist(), strict=True)
        ]
        place = table.column_names.index("setting")
        table = table.set_column(place, "setting", pa.array(values, pa.string()))
        known = {name.lower() for name in names}
        more = [
            {
                "name": s.name, "setting": ours[s.name.lower()], "category": "streamsql",
                "short_desc": s.description, "context": "user", "vartype": "string",
                "source": "default", "boot_val": s.default, "reset_val": s.default,
                "pending_restart": False,
            }
            for s in SETTINGS
            if not s.inert and s.name.lower() not in known
        ]  # fmt: skip
        return pa.concat_tables([table, pa.Table.from_pylist(more, schema=table.schema)])

    def pg_stat_activity(self) -> pa.Table:
        """The open sessions of the database, what they run and since when."""
        relation = system_relations()["pg_catalog", "pg_stat_activity"]
        database = getattr(self._session, "database", None)
        sessions = list(getattr(database, "sessions", ())) or [self._session]
        rows = []
        for session in sorted(sessions, key=lambda s: s.backend_pid):
            activity = session.activity
            transaction = session.transaction
            began = None if transaction is None else activity.transaction_start
            active = activity.running > 0
            rows.append(
                {
                    "datid": DATABASE_OID, "datname": DATABASE, "pid": session.backend_pid,
                    "usesysid": OWNER_OID, "usename": session.user,
                    "application_name": session.variables.get("application_name"),
                    "backend_start": activity.connected,
                    "xact_start": began or (activity.query_start if active else None),
                    "query_start": activity.query_start, "state_change": activity.state_change,
                    "state": "active" if active else IDLE[session.transaction_status],
                    "query": activity.query, "backend_type": "client backend",
                }
            )  # fmt: skip
        schema = relation.rows.schema
        return pa.Table.from_pylist(rows, schema=schema)

    def roles(self, name: str) -> pa.Table:
        """pg_roles or pg_user: whoever was let in exists, with the owner's rights."""
        table = system_relations()["pg_catalog", name].rows
        column, oid = ("rolname", "oid") if name == "pg_roles" else ("usename", "usesysid")
        rows = table.to_pylist()
        if all(row[column] != self.user for row in rows):
            owner = next(row for row in rows if row[oid] == OWNER_OID)
            rows.append({**owner, column: self.user, oid: LET_IN_OID})
        return pa.Table.from_pylist(rows, schema=table.schema)

    def volatile(self, sql: str) -> dict[str, Volatile]:
        """The relations that a text reads and whose rows depend on the session."""
        found: dict[str, Volatile] = {}
        if "pgc._settings" in sql or "pgc.pg_settings" in sql:
            values = tuple(self.setting(s.name) for s in SETTINGS)
            found["pgc._settings"] = (values, self.settings_table)
            found["pgc.pg_settings"] = (values, self.pg_settings)
        if "pgc.pg_stat_activity" in sql:
            found["pgc.pg_stat_activity"] = (None, self.pg_stat_activity)
        for name in ("pg_roles", "pg_user"):
            if f"pgc.{name}" in sql:
                found[f"pgc.{name}"] = (self.user, functools.partial(self.roles, name))
        return found
