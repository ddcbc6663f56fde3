"""Session variables: what SET, SHOW and RESET know.

PostgreSQL's and RisingWave's variables that clients set are accepted. Those that change nothing
here are marked `inert`; `without_effect` says which of them tell so when they are set: those that
would change an answer or stop a statement elsewhere.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from streamsql.core.errors import (
    CannotChangeRuntimeParameter,
    FeatureNotSupported,
    InvalidParameterValue,
    UndefinedObject,
)
from streamsql.dialect.dialects import dialect_named

SERVER_VERSION = "15.0"
SERVER_VERSION_NUM = "150000"

Check = Callable[[str, str], str]
"""(setting's name, text) → the text that is stored; raises InvalidParameterValue (22023)."""


@dataclass(frozen=True)
class Setting:
    """One variable. name: PostgreSQL's spelling. report: sent to clients as ParameterStatus."""

    name: str
    default: str
    check: Check | None = None
    report: bool = False
    inert: bool = False
    description: str = ""


_TRUE = {"on", "true", "yes", "1", "t", "y", "tr", "tru", "ye"}
_FALSE = {"off", "false", "no", "0", "f", "n", "of", "fa", "fal", "fals"}


def boolean(name: str, text: str) -> str:
    """on | off."""
    if text.lower() in _TRUE:
        return "on"
    if text.lower() in _FALSE:
        return "off"
    raise InvalidParameterValue(f'parameter "{name}" requires a Boolean value')


def one_of(*words: str) -> Check:
    """A check for one of these words; the case of the answer is that of the list."""

    def check(name: str, text: str) -> str:
        for word in words:
            if text.lower() == word.lower():
                return word
        raise InvalidParameterValue(
            f'invalid value for parameter "{name}": "{text}"',
            hint=f"Available values: {', '.join(words)}.",
        )

    return check


def integer(low: int, high: int) -> Check:
    """A check for a whole number between two bounds."""

    def check(name: str, text: str) -> str:
        try:
            value = int(text)
        except ValueError:
            raise InvalidParameterValue(f'invalid value for parameter "{name}": "{text}"') from None
        if not low <= value <= high:
            raise InvalidParameterValue(
                f'{value} is outside the valid range for parameter "{name}" ({low} .. {high})'
            )
        return str(value)

    return check


_TIME_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(name: str, text: str) -> str:
    """A duration, stored as PostgreSQL shows it ("0", "500ms", "5s", "1min")."""
    value = text.strip().lower()
    digits = value.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = value[len(digits) :].strip() or "ms"
    try:
        amount = float(digits) * _TIME_UNITS_MS[unit]
    except (ValueError, KeyError):
        raise InvalidParameterValue(
            f'invalid value for parameter "{name}": "{text}"',
            hint='Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
        ) from None
    whole = round(amount)
    if not 0 <= whole <= 2**31 - 1:
        raise InvalidParameterValue(
            f'{whole} ms is outside the valid range for parameter "{name}" (0 ms .. 2147483647 ms)',
            hint="0 turns it off.",
        )
    if whole == 0:
        return "0"
    for unit in ("d", "h", "min", "s"):
        size = int(_TIME_UNITS_MS[unit])
        if whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}ms"


def duration_ms(text: str) -> int:
    """Milliseconds of a value that `milliseconds` stored."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(float(digits) * _TIME_UNITS_MS[text[len(digits) :] or "ms"])


_FIXED_ZONES = {"utc": "UTC", "gmt": "GMT", "z": "UTC", "zulu": "UTC", "local": "UTC", "0": "UTC"}


def timezone(name: str, text: str) -> str:
    """A zone of the tz database, in its own spelling."""
    plain = text.strip().strip("'")
    fixed = _FIXED_ZONES.get(plain.lower())
    if fixed is not None:
        return fixed
    try:
        ZoneInfo(plain)
        return plain
    except Exception:
        pass
    import zoneinfo

    folded = {z.lower(): z for z in zoneinfo.available_timezones()}
    found = folded.get(plain.lower())
    if found is None:
        raise InvalidParameterValue(f'invalid value for parameter "TimeZone": "{text}"')
    return found


def datestyle(name: str, text: str) -> str:
    """Only ISO output is implemented; the field order is remembered."""
    order = "MDY"
    for word in text.replace(",", " ").split():
        upper = word.strip("'\"").upper()
        if upper in ("MDY", "DMY", "YMD"):
            order = upper
        elif upper in ("US", "NONEURO", "NONEUROPEAN"):
            order = "MDY"
        elif upper in ("EURO", "EUROPEAN"):
            order = "DMY"
        elif upper in ("SQL", "POSTGRES", "GERMAN"):
            raise FeatureNotSupported(
                f"DateStyle {word} is not supported", hint="Use ISO, or to_char() in the query."
            )
        elif upper not in ("ISO", "DEFAULT"):
            raise InvalidParameterValue(f'invalid value for parameter "DateStyle": "{text}"')
    return f"ISO, {order}"


def encoding(name: str, text: str) -> str:
    """UTF8 under all its names."""
    if text.strip("'\"").lower().replace("-", "") in ("utf8", "unicode", "sqlascii", "sql_ascii"):
        return "UTF8"
    raise FeatureNotSupported(
        f'client encoding "{text}" is not supported', hint="Use client_encoding UTF8."
    )


def iso_intervals(name: str, text: str) -> str:
    """Only PostgreSQL's own style is implemented."""
    if text.lower() == "postgres":
        return "postgres"
    raise FeatureNotSupported(
        f"IntervalStyle {text} is not supported", hint="Use IntervalStyle postgres."
    )


def span(name: str, text: str) -> str:
    """A retention: a time, or a number of versions."""
    from streamsql.engine.storage.retention import parse_span

    return text if parse_span(text, name) is not None else "off"


def memory(name: str, text: str) -> str:
    """A number of bytes with its unit."""
    from streamsql.engine.storage.retention import memory_bytes

    memory_bytes(text)
    return text


def must_be(value: str) -> Check:
    """A variable that can only have one value."""

    def check(name: str, text: str) -> str:
        if text.lower() != value:
            raise FeatureNotSupported(
                f'parameter "{name}" can only be "{value}"', hint="Leave it at its default."
            )
        return value

    return check


def read_only(name: str, text: str) -> str:
    """A preset value that SHOW gives and SET refuses."""
    raise CannotChangeRuntimeParameter(f'parameter "{name}" cannot be changed')


_ISOLATION = one_of(
    "read committed", "repeatable read", "serializable", "read uncommitted", "strict serializable"
)

SETTINGS: tuple[Setting, ...] = (
    # reported to clients
    Setting("application_name", "", report=True, description="Name of the client application."),
    Setting("client_encoding", "UTF8", encoding, report=True),
    Setting("DateStyle", "ISO, MDY", datestyle, report=True),
    Setting("default_transaction_read_only", "off", boolean, report=True),
    Setting("in_hot_standby", "off", read_only, report=True),
    Setting("integer_datetimes", "on", read_only, report=True),
    Setting("IntervalStyle", "postgres", iso_intervals, report=True),
    Setting("is_superuser", "on", read_only, report=True),
    Setting("server_encoding", "UTF8", read_only, report=True),
    Setting("server_version", SERVER_VERSION, read_only, report=True),
    Setting("session_authorization", "streamsql", report=True, inert=True),
    Setting("standard_conforming_strings", "on", must_be("on"), report=True),
    Setting("TimeZone", "UTC", timezone, report=True, description="Zone of TIMESTAMPTZ text."),
    # that do something
    Setting("search_path", '"$user", public',
            description="Schemas that bare names are sought in"),
    Setting("statement_timeout", "0", milliseconds,
            description="Stops longer statements; 0 = off."),
    Setting("transaction_isolation", "repeatable read", _ISOLATION),
    Setting("default_transaction_isolation", "repeatable read", _ISOLATION),
    Setting("transaction_read_only", "off", boolean),
    Setting("dialect", "streamsql",
            lambda name, value: dialect_named(value),
            description="Whose defaults statements follow."),
    Setting("streamsql.clock", "system", one_of("system", "manual"),
            description="manual: time moves by ADVANCE CLOCK only; for the whole server."),
    Setting("streamsql.retention", "off", span,
            description="Which old versions AS OF can read: a time, or '1000 versions'; off = the"
            " last 32 MB of each relation; for the whole server."),
    Setting("streamsql.retention_memory", "1GB", memory,
            description="Memory for old versions; beyond it the oldest go; for the whole server."),
    Setting("streamsql.version", "0", read_only,
            description="Version of the session's last write; before one, the newest."),
    Setting("streamsql.version_notice", "off", boolean,
            description="Each write tells its version in a NOTICE."),
    Setting("background_ddl", "off", boolean,
            description="CREATE MATERIALIZED VIEW returns at once; the view appears when filled."),
    Setting("idle_in_transaction_session_timeout", "0", milliseconds, inert=True),
    Setting("server_version_num", SERVER_VERSION_NUM, read_only),
    Setting("max_identifier_length", "63", read_only),
    Setting("max_index_keys", "32", read_only),
    Setting("block_size", "8192", read_only),
    Setting("lc_collate", "C", read_only),
    Setting("lc_ctype", "C.UTF-8", read_only),
    Setting("max_connections", "1000", read_only),
    Setting("password_encryption", "scram-sha-256", inert=True),
    Setting("ssl", "off", read_only),
    # accepted, without effect on answers
    Setting("extra_float_digits", "1", integer(-15, 3), inert=True),
    *(Setting(name, default, inert=True) for name, default in {
        "client_min_messages": "notice", "lock_timeout": "0",
        "bytea_output": "hex", "xmloption": "content", "check_function_bodies": "on",
        "row_security": "on", "synchronous_commit": "on", "default_tablespace": "",
        "temp_tablespaces": "", "default_table_access_method": "heap",
        "escape_string_warning": "on",
        "array_nulls": "on",
        "backslash_quote": "safe_encoding", "quote_all_identifiers": "off",
        "transform_null_equals": "off", "default_transaction_deferrable": "off",
        "transaction_deferrable": "off", "role": "none", "seed": "unavailable", "jit": "off",
        "enable_seqscan": "on", "enable_indexscan": "on", "enable_bitmapscan": "on",
        "enable_hashjoin": "on", "enable_mergejoin": "on", "enable_nestloop": "on",
        "enable_sort": "on", "enable_hashagg": "on", "enable_material": "on",
        "enable_indexonlyscan": "on", "enable_tidscan": "on", "geqo": "on", "work_mem": "4MB",
        "maintenance_work_mem": "64MB", "effective_cache_size": "4GB", "random_page_cost": "4",
        "seq_page_cost": "1", "cpu_tuple_cost": "0.01", "from_collapse_limit": "8",
        "join_collapse_limit": "8", "force_parallel_mode": "off", "debug_parallel_query": "off",
        "max_parallel_workers_per_gather": "2", "constraint_exclusion": "partition",
        "plan_cache_mode": "auto", "lc_messages": "C", "lc_monetary": "C", "lc_numeric": "C",
        "lc_time": "C", "default_text_search_config": "pg_catalog.simple",
        "tcp_keepalives_idle": "0",
        "tcp_keepalives_interval": "0", "tcp_keepalives_count": "0", "tcp_user_timeout": "0",
        "log_statement": "none", "log_min_duration_statement": "-1", "log_duration": "off",
        "idle_session_timeout": "0", "client_connection_check_interval": "0",
        "track_activities": "on", "vacuum_cost_delay": "0", "createrole_self_grant": "",
        "default_toast_compression": "pglz", "wal_level": "replica", "max_stack_depth": "2MB",
        "statement_mem": "0", "hba_file": "", "config_file": "", "data_directory": "",
    }.items()),
    # RisingWave's
    *(Setting(name, default, inert=True) for name, default in {
        "rw_implicit_flush": "on", "implicit_flush": "on", "streaming_parallelism": "default",
        "rw_streaming_enable_delta_join": "off", "streaming_enable_delta_join": "off",
        "query_mode": "auto", "query_epoch": "0", "visibility_mode": "default",
        "rw_enable_join_ordering": "on", "enable_join_ordering": "on",
        "rw_enable_two_phase_agg": "on", "enable_two_phase_agg": "on",
        "rw_force_two_phase_agg": "off", "force_two_phase_agg": "off",
        "rw_enable_share_plan": "on", "enable_share_plan": "on",
        "create_compaction_group_for_mv": "off",
        "batch_enable_distributed_dml": "off", "batch_parallelism": "default",
        "streaming_use_arrangement_backfill": "on", "streaming_use_snapshot_backfill": "off",
        "streaming_allow_jsonb_in_stream_key": "off", "source_rate_limit": "default",
        "backfill_rate_limit": "default", "sink_rate_limit": "default", "dml_rate_limit": "default",
        "enable_materialized_view_as_table": "off", "recovery": "on", "synchronize_seqscans": "on",
        "streaming_over_window_cache_policy": "full", "sink_decouple": "default",
        "cdc_source_wait_streaming_start_timeout": "30", "timezone_abbreviations": "Default",
    }.items()),
    # Materialize's
    *(Setting(name, default, inert=True) for name, default in {
        "cluster": "default", "cluster_replica": "", "database": "streamsql",
        "transaction_isolation_mode": "strict serializable", "auto_route_catalog_queries": "on",
        "emit_timestamp_notice": "off", "emit_trace_id_notice": "off", "welcome_message": "off",
        "real_time_recency": "off", "statement_logging_sample_rate": "0",
    }.items()),
)  # fmt: skip

ALIASES = {
    "time zone": "timezone",
    "names": "client_encoding",
    "schema": "search_path",
    "transaction isolation level": "transaction_isolation",
    "isolation level": "transaction_isolation",
    "session authorization": "session_authorization",
    "streamsql.dialect": "dialect",
    "session characteristics as transaction isolation level": "default_transaction_isolation",
}

BY_NAME: Mapping[str, Setting] = {s.name.lower(): s for s in SETTINGS}


def _unrecognized(name: str) -> UndefinedObject:
    close = difflib.get_close_matches(name.lower(), BY_NAME, n=1, cutoff=0.7)
    return UndefinedObject(
        f'unrecognized configuration parameter "{name}"',
        hint=f'Perhaps you meant "{BY_NAME[close[0]].name}".'
        if close
        else "SHOW ALL lists those that there are; options of a relation stand in its WITH (…).",
    )


def find(name: str) -> Setting:
    """The variable of that name; a name with a dot is a custom variable, as in PostgreSQL.

    Raises: UndefinedObject (42704).
    """
    key = name.lower().strip()
    key = ALIASES.get(key, key)
    found = BY_NAME.get(key)
    if found is not None:
        return found
    if "." in key and not key.startswith("streamsql."):
        return Setting(key, "", inert=True)
    raise _unrecognized(name)


class Variables:
    """The variables of one session.

    `on_change(name, value)` is called for reported ones. SET LOCAL and rollback: `snapshot()` and
    `restore()`.
    """

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        self._defaults: dict[str, str] = dict(overrides or {})
        self.on_change: Callable[[str, str], None] | None = None
        # what `get` and `reported` gave since the last change: every statement asks for a dozen
        self._given: dict[str, str] = {}
        self._reported: dict[str, str] | None = None

    def get(self, name: str) -> str:
        """Raises: UndefinedObject (42704)."""
        given = self._given.get(name)
        if given is None:
            given = self._given[name] = self._get(name)
        return given

    def _changed(self) -> None:
        self._given = {}
        self._reported = None

    def _get(self, name: str) -> str:
        setting = find(name)
        key = setting.name.lower()
        if key in self._values:
            return self._values[key]
        if key in self._defaults:
            return self._defaults[key]
        if key not in BY_NAME:
            raise _unrecognized(name)
        return setting.default

    def set(self, name: str, value: str | None) -> str:
        """Set (None = reset), returns the stored text.

        Raises: UndefinedObject (42704), InvalidParameterValue (22023), FeatureNotSupported (0A000).
        """
        setting = find(name)
        key = setting.name.lower()
        before = self._values.get(key, self._defaults.get(key, setting.default))
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = setting.check(setting.name, value) if setting.check else value
        self._changed()
        after = self._values.get(key, self._defaults.get(key, setting.default))
        if setting.report and after != before and self.on_change is not None:
            self.on_change(setting.name, after)
        return after

    def reset_all(self) -> None:
        """RESET ALL: the variables go back to their defaults."""
        for key in list(self._values):
            self.set(key, None)

    def snapshot(self) -> dict[str, str]:
        """Present values, for `restore`."""
        return dict(self._values)

    def restore(self, values: Mapping[str, str]) -> None:
        """Go back to a snapshot, telling `on_change` what changed."""
        for key in {*self._values, *values}:
            if self._values.get(key) != values.get(key):
                setting = find(key)
                if key in values:
                    self._values[key] = values[key]
                else:
                    self._values.pop(key)
                self._changed()
                if setting.report and self.on_change is not None:
                    self.on_change(setting.name, self.get(key))

    def all(self) -> list[tuple[str, str, str]]:
        """(name, value, description) of every variable, by name."""
        rows = [(s.name, self.get(s.name), s.description) for s in SETTINGS]
        rows += [(key, v, "") for key, v in self._values.items() if key not in BY_NAME]
        return sorted(rows, key=lambda r: r[0].lower())

    def reported(self) -> dict[str, str]:
        """The variables that a server tells its clients."""
        if self._reported is None:
            self._reported = {s.name: self.get(s.name) for s in SETTINGS if s.report}
        return self._reported


def split_search_path(text: str, user: str) -> tuple[str, ...]:
    """The schemas of a search_path text, `"$user"` filled in (but never a system schema).

    >>> split_search_path('"$user", public', "ann")
    ('ann', 'public')
    """
    names = []
    for part in text.split(","):
        item = part.strip()
        if item.startswith('"') and item.endswith('"') and len(item) > 1:
            name = item[1:-1].replace('""', '"')
        else:
            name = item.strip("'").lower()
        if name == "$user":
            name = "" if user in ("streamsql", "information_schema", "pg_catalog") else user
        if name:
            names.append(name)
    return tuple(names)
