"""Aggregates of floats whose result does not fit: 22003, as in PostgreSQL, and no Infinity.

A sum is out of range when it, or a sum on the way, is; a spread (variance, correlation) when a
number has no square. Infinities and NaN among the values give what they give in PostgreSQL. Over
frames of OVER a result fails where its own frame does.
"""

from __future__ import annotations

from streamsql.functions.definitions import AggregateSql

LARGEST = 1.0e140
"""Finite numbers beyond it have no squares that could be summed up."""
_ERROR = "error('streamsql:22003:value out of range: overflow')"


def checked_sum(sql: str, a: AggregateSql) -> str:
    """SUM or AVG of finite floats that is not finite."""
    finite = f"bool_and(isfinite({a.args[0]})){a.tail}"
    return f"CASE WHEN isfinite({sql}) OR NOT {finite} THEN {sql} WHEN {finite} THEN {_ERROR} END"


def checked_spread(sql: str, a: AggregateSql) -> str:
    """A variance, or an aggregate of pairs, of finite numbers of which one is too large."""
    there = " AND ".join(f"{x} IS NOT NULL" for x in a.args)
    finite = " AND ".join(f"isfinite(CAST({x} AS DOUBLE))" for x in a.args)
    large = " OR ".join(f"abs(CAST({x} AS DOUBLE)) > {LARGEST!r}" for x in a.args)
    every = f"bool_and(CASE WHEN {there} THEN {finite} END){a.tail}"
    some = f"bool_or(CASE WHEN {there} THEN {large} END){a.tail}"
    return f"CASE WHEN {sql} IS NOT NULL AND {every} AND {some} THEN {_ERROR} ELSE {sql} END"
