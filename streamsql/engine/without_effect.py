"""Settings that are accepted and change nothing here: which of them say so.

A NOTICE is due where somebody may count on the setting: it would change an answer, stop a statement
or close a session elsewhere. What only makes plans, logs or memory different passes in silence, and
so does what drivers set when they connect (`extra_float_digits = 3`, `client_min_messages`).
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsql.engine.settings import ALIASES, BY_NAME, find

NOTICED: Mapping[str, str | None] = {
    "array_nulls": None,
    "backslash_quote": None,
    "bytea_output": "encode(x, 'escape') gives the other form.",
    "database": "There is one database; SET search_path chooses a schema.",
    "emit_timestamp_notice": "SET streamsql.version_notice = 'on' does this.",
    "extra_float_digits": "round(x::numeric, n) gives fewer digits.",
    "idle_in_transaction_session_timeout": None,
    "idle_session_timeout": None,
    "lock_timeout": "SET statement_timeout also ends a statement that waits.",
    "query_epoch": "FOR SYSTEM_TIME AS OF reads an older version.",
    "real_time_recency": "FLUSH waits for what sources have delivered.",
    "role": None,
    "seed": None,
    "session_authorization": None,
    "timezone_abbreviations": None,
    "transform_null_equals": "Write IS NULL, or IS NOT DISTINCT FROM.",
    "visibility_mode": "Reads see every tick that is durable.",
    "xmloption": None,
    **dict.fromkeys(
        ("source_rate_limit", "backfill_rate_limit", "sink_rate_limit", "dml_rate_limit")
    ),
}
"""Setting → the way round, if there is one."""

COUNTERPARTS: Mapping[str, str] = {
    "table.exec.source.idle-timeout": "WITH (idle_timeout = '30s') of a table or source does this.",
    "table.exec.state.ttl": "Windows and temporal filters (WHERE t > now() - …) free state.",
    "table.local-time-zone": "SET timezone = 'UTC' does this.",
}
"""Settings of Flink → what to write here."""

Told = tuple[str, str | None]
"""(message, hint)"""


def foreign_without_effect(name: str) -> Told | None:
    """What to say of a setting of another system that changes nothing; None for others."""
    key = name.lower().strip()
    if key in BY_NAME or key in ALIASES or "." not in key:
        return None
    return f'parameter "{name}" has no effect', COUNTERPARTS.get(key)


def without_effect(name: str, value: str) -> Told | None:
    """What to say of a setting of ours that changes nothing. value: as it is stored.

    >>> without_effect("lock_timeout", "0") is None
    True
    >>> without_effect("lock_timeout", "5s")[0]
    'parameter "lock_timeout" has no effect'
    """
    setting = find(name)
    if setting.name.lower() not in NOTICED or _is_default(value, setting.default):
        return None
    if setting.name == "extra_float_digits" and int(value) > 0:
        return None  # as many digits as tell a value apart, as here
    return f'parameter "{setting.name}" has no effect', NOTICED[setting.name.lower()]


def _is_default(value: str, default: str) -> bool:
    """Whether the text says the same; a boolean or a time may be written in several ways."""
    on, off = ("on", "true", "yes", "1"), ("off", "false", "no", "0", "0s", "0ms", "0min")
    return any(
        value.lower() in words and default.lower() in words for words in (on, off, (default,))
    ) or value.lower() in (default.lower(), "default")
