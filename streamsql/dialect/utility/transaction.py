"""BEGIN, COMMIT, ROLLBACK, savepoints."""

from __future__ import annotations

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement, Transaction


def parse_begin(parser: Parser) -> Statement:
    """BEGIN [WORK | TRANSACTION] [modes] and START TRANSACTION [modes]."""
    if parser.advance().key == "START":
        parser.expect("TRANSACTION")
    else:
        if parser.accept_sequence("STATEMENT", "SET"):  # Flink
            return Transaction(action="begin")
        parser.accept("WORK", "TRANSACTION")
    return Transaction(action="begin", read_only=transaction_modes(parser))


def transaction_modes(parser: Parser) -> bool:
    """ISOLATION LEVEL …, READ ONLY | WRITE, [NOT] DEFERRABLE; True if READ ONLY.

    Every isolation level is accepted: transactions are always serializable here.
    """
    read_only = False
    first = True
    while not parser.at_end() and not parser.at(")"):
        if not first:
            parser.accept(",")
        first = False
        if parser.accept_sequence("ISOLATION", "LEVEL"):
            levels = (
                ("SERIALIZABLE",),
                ("REPEATABLE", "READ"),
                ("READ", "COMMITTED"),
                ("READ", "UNCOMMITTED"),
                ("SNAPSHOT",),
            )
            if not any(parser.accept_sequence(*level) for level in levels):
                raise parser.error()
        elif parser.accept_sequence("READ", "ONLY"):
            read_only = True
        elif parser.accept_sequence("READ", "WRITE"):
            read_only = False
        elif not (parser.accept("DEFERRABLE") or parser.accept_sequence("NOT", "DEFERRABLE")):
            raise parser.error()
    return read_only


def parse_commit(parser: Parser) -> Statement:
    """COMMIT and END [WORK | TRANSACTION] [AND [NO] CHAIN]."""
    if parser.advance().key == "COMMIT" and parser.at("PREPARED"):
        raise parser.not_supported("two-phase commit", "Use COMMIT.")
    _end_options(parser)
    return Transaction(action="commit")


def parse_rollback(parser: Parser) -> Statement:
    """ROLLBACK and ABORT [WORK | TRANSACTION] [TO [SAVEPOINT] name]."""
    if parser.advance().key == "ROLLBACK" and parser.at("PREPARED"):
        raise parser.not_supported("two-phase commit", "Use ROLLBACK.")
    parser.accept("WORK", "TRANSACTION")
    if parser.accept("TO"):
        parser.accept("SAVEPOINT")
        return Transaction(action="rollback_to", name=parser.name())
    _end_options(parser)
    return Transaction(action="rollback")


def _end_options(parser: Parser) -> None:
    parser.accept("WORK", "TRANSACTION")
    token = parser.token
    if parser.accept_sequence("AND", "NO", "CHAIN"):
        return
    if parser.accept_sequence("AND", "CHAIN"):
        raise parser.not_supported("AND CHAIN", "BEGIN the next transaction by itself.", token)


def parse_savepoint(parser: Parser) -> Statement:
    """SAVEPOINT name."""
    parser.expect("SAVEPOINT")
    return Transaction(action="savepoint", name=parser.name())


def parse_release(parser: Parser) -> Statement:
    """RELEASE [SAVEPOINT] name."""
    parser.expect("RELEASE")
    parser.accept("SAVEPOINT")
    return Transaction(action="release", name=parser.name())


def parse_prepare_transaction(parser: Parser) -> Statement:
    """PREPARE TRANSACTION: refused."""
    raise parser.not_supported("PREPARE TRANSACTION", "Use COMMIT.")
