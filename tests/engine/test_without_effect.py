"""Settings that change nothing here: those that somebody may count on say so, the others do not."""

from __future__ import annotations

import pytest

from streamsql.engine.database import Database
from streamsql.engine.settings import BY_NAME
from streamsql.engine.without_effect import NOTICED


def _notices(db: Database, sql: str) -> list[tuple[str, str | None]]:
    return [(n.message, n.hint) for n in db.execute(sql).notices]


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SET lock_timeout = '5s'", "SET statement_timeout also ends a statement that waits."),
        ("SET bytea_output = 'escape'", "encode(x, 'escape') gives the other form."),
        ("SET SESSION idle_in_transaction_session_timeout TO 1000", None),
        ("SET extra_float_digits = -2", "round(x::numeric, n) gives fewer digits."),
        ("SET transform_null_equals = on", "Write IS NULL, or IS NOT DISTINCT FROM."),
        ("SET query_epoch = 7", "FOR SYSTEM_TIME AS OF reads an older version."),
    ],
)
def test_a_setting_that_would_matter_elsewhere_says_so(db: Database, sql: str, hint: str) -> None:
    ((message, given),) = _notices(db, sql)
    assert message.endswith(" has no effect")
    assert given == hint


@pytest.mark.parametrize(
    "sql",
    [
        # what drivers, pg_dump and psql send
        "SET extra_float_digits = 3", "SET DateStyle = 'ISO'", "SET client_encoding = 'UTF8'",
        "SET application_name = 'x'", "SET statement_timeout = 0", "SET lock_timeout = 0",
        "SET idle_in_transaction_session_timeout = 0", "SET bytea_output = 'hex'",
        "SET client_min_messages = warning", "SET xmloption = content", "SET row_security = off",
        "SET check_function_bodies = false", "SET default_tablespace = ''", "SET jit = off",
        "SET standard_conforming_strings = on", "SET synchronous_commit = off",
        "SET work_mem = '64MB'", "SET enable_seqscan = off", "SET rw_implicit_flush = on",
        "SET array_nulls = true", "SET role = none", "RESET lock_timeout", "SET my.variable = 'x'",
    ],
)  # fmt: skip
def test_what_makes_no_difference_is_silent(db: Database, sql: str) -> None:
    assert _notices(db, sql) == []


def test_only_settings_without_effect_say_so() -> None:
    assert [name for name in NOTICED if not BY_NAME[name].inert] == []
