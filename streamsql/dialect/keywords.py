"""Which words may be names, by PostgreSQL's four classes of keywords, and our own few."""

from __future__ import annotations

_RESERVED = """
all analyse analyze and any array as asc asymmetric both case cast check collate column constraint
create current_catalog current_date current_role current_time current_timestamp current_user default
deferrable desc distinct do else end except false fetch for foreign from grant group having in
initially intersect into lateral leading limit localtime localtimestamp not null offset on only or
order placing primary references returning select session_user some symmetric table then to trailing
true union unique user using variadic when where window with
"""

_TYPE_FUNCTION = """
authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull
join left like natural notnull outer overlaps right similar tablesample verbose
"""

_COLUMN_NAME = """
between bigint bit boolean char character coalesce dec decimal exists extract float greatest
grouping inout int integer interval least national nchar none normalize nullif numeric out overlay
position precision real row setof smallint substring time timestamp treat trim values varchar
xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
xmlserialize xmltable
"""

# words PostgreSQL allows as a label only after AS (not reserved ones; those can't be labels without
# AS either, so the union of both sets is what a bare label may not be)
_NEEDS_AS = """
char character create day filter grant hour intersect into isnull limit minute month notnull over
overlaps precision second varying within without year
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.upper().split())


# QUALIFY is ours: a clause of SELECT, so it can't follow a relation or an expression as its alias
RESERVED = _words(_RESERVED) | {"QUALIFY"}
TYPE_FUNCTION = _words(_TYPE_FUNCTION)
COLUMN_NAME = _words(_COLUMN_NAME)

NOT_COLUMN = RESERVED | TYPE_FUNCTION
"""Not a column, relation or alias name unless quoted."""

NOT_FUNCTION = RESERVED | COLUMN_NAME
"""Not a plain function's or type's name unless quoted."""

# PostgreSQL 14 and later let a reserved word like `user` be a bare label, but nobody writes that
# and it would make the error of a forgotten comma or clause point to the wrong place
NOT_BARE_LABEL = (RESERVED | _words(_NEEDS_AS)) - {"USER"}

NOT_TABLE_ALIAS = NOT_COLUMN | {"MATCH_CONDITION"}

EMIT_WORDS = frozenset({"CHANGES", "FINAL", "IMMEDIATELY", "ON", "AFTER"})
"""What follows EMIT where it is the clause and not an alias."""
