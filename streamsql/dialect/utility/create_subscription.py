"""CREATE SUBSCRIPTION."""

from __future__ import annotations

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CreateSubscription, Statement


def parse_create_subscription(parser: Parser) -> Statement:
    """After CREATE SUBSCRIPTION: s FROM v [WITH (retention = '1 day')]."""
    if_not_exists = parser.exists_flag(negated=True)
    name = parser.object_name()
    if parser.at("CONNECTION"):
        raise parser.not_supported(
            "logical replication", "Write CREATE SUBSCRIPTION name FROM view WITH (retention = …)."
        )
    parser.expect("FROM")
    relation = parser.object_name()
    return CreateSubscription(
        name=name, relation=relation, if_not_exists=if_not_exists, options=parser.with_options()
    )
