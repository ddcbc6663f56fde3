"""Statements that PostgreSQL has and we don't: a clear refusal and a way round."""

from __future__ import annotations

from streamsql.core.errors import StreamSqlError
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement

_CREATE: dict[str, str] = {
    "FUNCTION": "Write the expression in the view itself, or nest views.",
    "PROCEDURE": "Send the statements one by one.",
    "AGGREGATE": "Use the built-in aggregates.",
    "TRIGGER": "SUBSCRIBE to the table, or create a materialized view.",
    "RULE": "Create a materialized view.",
    "SEQUENCE": "Let the writer give the number.",
    "TYPE": "Use STRUCT(…), arrays or MAP(…).",
    "DOMAIN": "Use the base type.",
    "EXTENSION": "All functions are built in.",
    "ROLE": "Users are configured at the server.",
    "USER": "Users are configured at the server.",
    "DATABASE": "There is one database; use schemas.",
    "TABLESPACE": "Choose the data directory at the start of the server.",
    "POLICY": "Create views that show what may be seen.",
    "PUBLICATION": "SUBSCRIBE to a view.",
    "CONNECTION": "Put the options into WITH of each source or sink.",
    "SECRET": "Put the option into WITH.",
    "CLUSTER": "There is one engine.",
    "CATALOG": "Use schemas.",
    "FOREIGN": "Use CREATE SOURCE.",
    "CAST": "Use CAST in the query.",
    "OPERATOR": "Use the built-in operators.",
    "COLLATION": "Text sorts by code point.",
    "STATISTICS": "There is nothing to gather.",
    "LINEAR": "Use the built-in aggregates.",
    "LANGUAGE": "Write the expression in SQL.",
}

OTHERS: dict[str, str] = {
    "GRANT": "Every user may do everything; guard the server's address instead.",
    "REVOKE": "Every user may do everything; guard the server's address instead.",
    "VACUUM": "There is nothing to vacuum: state is compacted by itself.",
    "ANALYZE": "There are no statistics to gather.",
    "ANALYSE": "There are no statistics to gather.",
    "CLUSTER": "Rows have no order on disk.",
    "REINDEX": "Indexes are always up to date.",
    "REFRESH": "Materialized views are always up to date; FLUSH waits for the sources.",
    "CHECKPOINT": "Checkpoints are taken by the engine.",
    "LOCK": "Writers never wait: a transaction's writes are one tick.",
    "DO": "Send the statements one by one.",
    "CALL": "Send the statements one by one.",
    "REASSIGN": "Objects have no owners.",
    "SECURITY": "Objects have no labels.",
    "IMPORT": "Use CREATE SOURCE, or COPY … FROM STDIN.",
    "LOAD": "All functions are built in.",
    "STOP": "ALTER MATERIALIZED VIEW v SUSPEND, or DROP it.",
    "ADD": "All functions are built in.",
    "RUN": "Send the statements of the script.",
    "DEFINE": "Write the value out.",
    "UNDEFINE": "Write the value out.",
    "ASSERT": "Compare the rows of a SELECT.",
    "REMOVE": "Write DELETE FROM t WHERE ….",
    "LATENESS": "Write LATENESS behind the column in CREATE TABLE.",
    "RECOVER": "The engine recovers by itself.",
    "ATTACH": "There is one database; use CREATE SOURCE for outside data.",
}


def refuse_create(parser: Parser) -> StreamSqlError:
    """The error for CREATE <kind> where the kind is not ours."""
    token = parser.token
    hint = _CREATE.get(token.key)
    if hint is None:
        return parser.error()
    return parser.not_supported(f"CREATE {token.key}", hint)


def refuse(parser: Parser) -> Statement:
    """Registered for every word of OTHERS: always raises FeatureNotSupported (0A000)."""
    token = parser.token
    raise parser.not_supported(token.key, OTHERS[token.key])
