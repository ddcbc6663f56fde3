"""Events of the engine: to structlog where the process has set it up (the server does), else to the
standard library's logger `streamsql`, which an embedding program configures as it likes."""

from __future__ import annotations

import logging

_standard = logging.getLogger("streamsql")


def _say(level: int, event: str, fields: dict[str, object]) -> None:
    import structlog

    if structlog.is_configured():
        name = logging.getLevelName(level).lower()
        getattr(structlog.get_logger("streamsql.engine"), name)(event, **fields)
        return
    text = " ".join(f"{key}={value!r}" for key, value in fields.items())
    _standard.log(level, "%s %s", event, text)


def info(event: str, **fields: object) -> None:
    """Something that was done."""
    _say(logging.INFO, event, fields)


def warning(event: str, **fields: object) -> None:
    """Something that failed and will be tried again."""
    _say(logging.WARNING, event, fields)


def error(event: str, **fields: object) -> None:
    """Something that is broken until somebody acts."""
    _say(logging.ERROR, event, fields)
