"""What the backslash commands switch."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_ROW_LIMIT = 1000


@dataclass
class Settings:
    """expanded: on, off or auto (when columns don't fit). row_limit: rows shown of one result,
    0 = all. verbose: SQLSTATE in errors. stop_on_error: scripts end at the first error."""

    expanded: str = "auto"
    timing: bool = False
    row_limit: int = 0
    verbose: bool = False
    stop_on_error: bool = False
