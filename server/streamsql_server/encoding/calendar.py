"""Where PostgreSQL's calendar differs from ours: its epoch, and how infinity is stored."""

from __future__ import annotations

PG_EPOCH_DAYS = 10_957  # 2000-01-01 in days since 1970-01-01
DAY_US = 86_400_000_000
PG_EPOCH_US = PG_EPOCH_DAYS * DAY_US
FIRST_DAY = -719_162  # 0001-01-01, the first that Python knows
LAST_DAY = 2_932_896  # 9999-12-31, the last
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
