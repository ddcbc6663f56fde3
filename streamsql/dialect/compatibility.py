"""Refuse the compiled build of sqlglot, which breaks every subclass of its nodes."""

from __future__ import annotations


def refuse_compiled_sqlglot() -> None:
    """Raise ImportError if `sqlglotc` overlays the installed sqlglot.

    Its compiled classes can't be subclassed or extended, so our nodes would fail somewhere deep in
    a statement; one clear line at the first parse is better.
    """
    from sqlglot import tokens

    if getattr(tokens, "SQLGLOTC_INSTALLED", False):
        raise ImportError(
            "streamsql needs the plain sqlglot package, but the compiled sqlglotc is installed,"
            " which its dialect can't extend;"
            " run: pip uninstall sqlglotc && pip install --force-reinstall sqlglot"
        )
