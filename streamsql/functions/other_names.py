"""Functions of other systems that there are none of here, and what to write instead."""

from __future__ import annotations

HINTS: dict[str, str] = {
    # Flink
    "current_watermark": "SELECT watermark FROM streamsql.watermarks WHERE relation = 't'.",
    "parse_url": "Use substring(url FROM pattern).",
    # ksqlDB
    "mask": "Use regexp_replace(text, '[a-z]', 'n', 'g').",
    "geo_distance": "Write the formula with sin, cos and acos of radians(…).",
    "as_map": "Write MAP {key: value, …}.",
    "slice": "Write array[from:to].",
    # Materialize
    "mz_version": "Use version().",
    "mz_environment_id": "There is one engine; use version().",
    "repeat_row": "Join with generate_series(1, n).",
    # Feldera
    "safe_offset": "Write array[n]: beyond the end it is NULL.",
    "bround": "round(x::double precision) rounds halves to the even number.",
    "element": "Write array[1].",
    "gunzip": "Decompress the text before it is inserted.",
}


def hint_for(name: str) -> str | None:
    """What to write instead of another system's function."""
    return HINTS.get(name)
