"""ALTER, and ksqlDB's PAUSE and RESUME."""

from __future__ import annotations

from typing import Any

from streamsql.dialect.lexer import Token
from streamsql.dialect.parser import Parser
from streamsql.dialect.span import Span
from streamsql.dialect.statements import Alter, Name, SetVariable, Statement
from streamsql.dialect.utility.columns import parse_column, parse_constraint
from streamsql.dialect.utility.drop import refuse_all
from streamsql.dialect.utility.kinds import object_kind
from streamsql.dialect.utility.settings import variable_name

_Action = tuple[str, dict[str, Any]]

COMBINABLE = ("add_column", "drop_column", "alter_column", "add_constraint", "drop_constraint")
"""Actions that may stand in one statement, all or nothing."""


def parse_alter(parser: Parser) -> Statement:
    """ALTER kind [IF EXISTS] n action.

    `arguments` by action: rename {new_name}; rename_column {column, new_name}; set {options};
    add_column {column: ColumnDef, if_not_exists, span}; drop_column {column, if_exists, cascade};
    swap_with {other: Name}; owner {owner}; set_schema {schema}; alter_column {column, …};
    add_constraint {check: CheckDef} or {unique: UniqueDef}, and span; drop_constraint {constraint,
    if_exists}; several {actions: [(action, arguments)]}, separated by commas; all have if_exists
    when it was written.
    """
    parser.expect("ALTER")
    token = parser.token
    if parser.accept("SYSTEM"):
        return _system(parser)
    kind = object_kind(parser)
    if kind is None:
        if token.key in ("USER", "ROLE"):
            raise parser.not_supported(f"ALTER {token.key}", "Users are configured at the server.")
        if token.key == "CLUSTER":
            raise parser.not_supported("ALTER CLUSTER", "There is one engine.")
        if token.key == "DATABASE":
            raise parser.not_supported("ALTER DATABASE", "Use SET in the session.")
        raise parser.error()
    if_exists = parser.exists_flag(negated=False)
    parser.accept("ONLY")
    name = parser.object_name()
    action, arguments = _action(parser)
    if parser.at(",") and action in COMBINABLE:
        actions = [(action, arguments)]
        while parser.accept(","):
            token = parser.token
            actions.append(_action(parser))
            if actions[-1][0] not in COMBINABLE:
                raise parser.error(token)
        action, arguments = "several", {"actions": actions}
    if if_exists:
        arguments["if_exists"] = True
    return Alter(kind=kind, name=name, action=action, arguments=arguments)


def _system(parser: Parser) -> Statement:
    """ALTER SYSTEM SET name = value."""
    parser.expect("SET")
    name = variable_name(parser)
    if not parser.accept("=", "TO"):
        raise parser.error()
    if parser.accept("DEFAULT"):
        return SetVariable(name=name, value=None)
    return SetVariable(name=name, value=parser.option_value())


def _action(parser: Parser) -> _Action:
    token = parser.token
    if parser.accept("RENAME"):
        return _rename(parser)
    if parser.accept("SET"):
        return _set(parser)
    if parser.accept("SUSPEND"):
        return "suspend", {}
    if parser.accept("RESUME"):
        return "resume", {}
    if parser.accept_sequence("SWAP", "WITH"):
        return "swap_with", {"other": parser.object_name()}
    if parser.accept_sequence("OWNER", "TO"):
        return "owner", {"owner": parser.label()}
    if parser.accept("ADD"):
        return _add(parser)
    if parser.accept("DROP"):
        return _drop(parser)
    if parser.accept("ALTER"):
        return _alter_column(parser)
    if parser.at("REFRESH", "CLUSTER", "ENABLE", "DISABLE", "ATTACH", "DETACH", "INHERIT"):
        raise parser.not_supported(f"ALTER … {token.key}", "Leave it out.")
    raise parser.error(
        hint="Actions are ADD, DROP and ALTER COLUMN, ADD and DROP CONSTRAINT, RENAME, SET, "
        "SUSPEND, RESUME and SWAP WITH."
    )


def _rename(parser: Parser) -> _Action:
    if parser.accept("TO"):
        return "rename", {"new_name": parser.name()}
    parser.accept("COLUMN")
    column = parser.name()
    parser.expect("TO")
    return "rename_column", {"column": column, "new_name": parser.name()}


def _set(parser: Parser) -> _Action:
    if parser.accept("SCHEMA"):
        return "set_schema", {"schema": parser.name()}
    if parser.at("("):
        return "set", {"options": parser.options()}
    name = variable_name(parser)  # RisingWave: ALTER TABLE t SET parallelism = 4
    if not parser.accept("=", "TO"):
        raise parser.error()
    return "set", {"options": {name: parser.option_value()}}


def _add(parser: Parser) -> _Action:
    start = parser.token
    if parser.at("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE"):
        found: dict[str, Any] = dict([parse_constraint(parser)])
        return "add_constraint", {**found, "span": _span(parser, start)}
    parser.accept("COLUMN")
    if_not_exists = parser.exists_flag(negated=True)
    start = parser.token
    column = parse_column(parser)
    span = _span(parser, start)
    return "add_column", {"column": column, "if_not_exists": if_not_exists, "span": span}


def _span(parser: Parser, start: Token) -> Span:
    """From a token to what was read last."""
    return Span(parser.place(start), parser.base + parser.tokens[parser.index - 1].end)


def _drop(parser: Parser) -> _Action:
    if parser.accept("CONSTRAINT"):
        if_exists = parser.exists_flag(negated=False)
        name = parser.name()
        parser.accept("CASCADE", "RESTRICT")
        return "drop_constraint", {"constraint": name, "if_exists": if_exists}
    parser.accept("COLUMN")
    if_exists = parser.exists_flag(negated=False)
    column = parser.name()
    cascade = parser.accept("CASCADE")
    parser.accept("RESTRICT")
    return "drop_column", {"column": column, "if_exists": if_exists, "cascade": cascade}


def _alter_column(parser: Parser) -> _Action:
    """ALTER [COLUMN] c {SET | DROP DEFAULT, SET | DROP NOT NULL, [SET DATA] TYPE t}."""
    parser.accept("COLUMN")
    found: dict[str, Any] = {"column": parser.name()}
    if parser.accept_sequence("SET", "DEFAULT"):
        start = parser.token
        found["default"] = parser.expression()
        found["span"] = _span(parser, start)
    elif parser.accept_sequence("DROP", "DEFAULT"):
        found["default"] = None
    elif parser.accept_sequence("SET", "NOT", "NULL"):
        found["not_null"] = True
    elif parser.accept_sequence("DROP", "NOT", "NULL"):
        found["not_null"] = False
    else:
        parser.accept_sequence("SET", "DATA")
        parser.expect("TYPE")
        found["type"] = parser.sql_type()
        if parser.accept("USING"):
            found["using"] = parser.expression()
    return "alter_column", found


def parse_pause(parser: Parser) -> Statement:
    """PAUSE q, RESUME q: ALTER MATERIALIZED VIEW q SUSPEND | RESUME."""
    word = parser.advance().key
    refuse_all(parser, word)
    action = "suspend" if word == "PAUSE" else "resume"
    parser.accept("QUERY")
    name: Name = parser.object_name()
    return Alter(kind="materialized view", name=name, action=action)
