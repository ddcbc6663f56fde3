"""The canonical text of a statement is the statement: parsed again it is the same tree."""

from __future__ import annotations

import dataclasses

from streamsql.core.errors import StreamSqlError
from streamsql.dialect import parse
from streamsql.dialect import statements as s
from streamsql.dialect.canonical import statement_sql
from streamsql.dialect.dialects import DIALECTS

from .corpus import statements


def comparable(statement: s.Statement) -> s.Statement:
    """Without what two spellings of one thing may differ in: where the key is written, the text."""
    if isinstance(statement, s.CreateView):
        return dataclasses.replace(statement, query_sql="")
    if isinstance(statement, (s.PrepareStatement, s.Explain)) and statement.statement is not None:
        return dataclasses.replace(statement, statement=comparable(statement.statement))
    if isinstance(statement, s.CreateTable):
        key = statement.primary_key or tuple(c.name for c in statement.columns if c.primary_key)
        columns = tuple(dataclasses.replace(c, primary_key=False) for c in statement.columns)
        return dataclasses.replace(statement, primary_key=key, columns=columns)
    return statement


def test_canonical_text_of_every_statement_is_that_statement() -> None:
    wrong = []
    found = statements()
    for statement in found:
        text = statement_sql(statement)
        (again,) = parse(text)
        if comparable(again) != comparable(statement) or statement_sql(again) != text:
            wrong.append((statement.sql, text))
    assert wrong == []
    assert len(found) > 1500


def test_canonical_text_under_every_dialect_reads_back_the_same() -> None:
    """Each statement under one of the dialects, in turn; what that dialect refuses is left out."""
    wrong = []
    for i, statement in enumerate(statements()):
        try:
            (found,) = parse(statement.sql, DIALECTS[i % len(DIALECTS)])
        except StreamSqlError:
            continue
        text = statement_sql(found)
        (again,) = parse(text)
        if statement_sql(again) != text:
            wrong.append((statement.sql, text))
    assert wrong == []
