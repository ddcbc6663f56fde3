"""Where the history of what was typed is kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def state_folder() -> Path:
    """The platform's folder for the state of programs: STREAMSQL_STATE_DIR if it is set,
    else XDG_STATE_HOME, ~/Library/Application Support or %LOCALAPPDATA%."""
    own = os.environ.get("STREAMSQL_STATE_DIR")
    if own:
        return Path(own)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "streamsql"
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/streamsql"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "streamsql"


def history_file() -> Path | None:
    """The history file, readable only by its owner; None if it can't be made."""
    folder = state_folder()
    path = folder / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return None
    return path
