"""Names of calls as people write them."""

from __future__ import annotations


def call_name(function: str) -> str:
    """The SQL name of a registry function.

    >>> call_name("count_star"), call_name("duckdb:levenshtein")
    ('count', 'levenshtein')
    """
    return "count" if function == "count_star" else function.removeprefix("duckdb:")
