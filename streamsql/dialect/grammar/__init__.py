"""The grammar of queries and expressions: tokens to sqlglot trees, by PostgreSQL's rules."""
