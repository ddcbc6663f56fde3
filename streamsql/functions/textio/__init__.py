"""PostgreSQL's text form of every type, a column at a time: `parse_text` reads, `to_text` writes.

The names are loaded on first use: binding needs only the scalar readers, not Arrow's kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsql.functions.textio.output import to_text
    from streamsql.functions.textio.reading import parse_text

__all__ = ["parse_text", "to_text"]


def __getattr__(name: str) -> Any:
    if name == "parse_text":
        from streamsql.functions.textio.reading import parse_text

        return parse_text
    if name == "to_text":
        from streamsql.functions.textio.output import to_text

        return to_text
    raise AttributeError(name)
