"""Which parts a change of the catalog has: what is made beside the running engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamsql.engine.beside import (
    Part,
    TableStep,
    filled_views,
    new_indexes,
    stored_rows,
    table_steps,
)
from streamsql.engine.catalog import Catalog
from streamsql.engine.ddl import AlterRelations, DdlOp, applied
from streamsql.engine.indexes import owner_oid
from streamsql.engine.relations import Relation
from streamsql.engine.side_check import SideCheck, Validator, validator
from streamsql.engine.side_circuit import NotBeside, SideCircuit
from streamsql.engine.side_index import SideIndex
from streamsql.engine.side_table import SideTable

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine


def rows_of_parts(ops: Sequence[DdlOp], engine: Engine) -> int:
    """How many rows the largest part would start from; 0 = there is nothing to be made.

    Raises: what the operations raise.
    """
    catalog = engine.catalog
    after = applied(ops, catalog)
    steps = table_steps(ops, catalog)
    oids = [oid for oid in steps if oid in engine.tables]
    oids += [owner_oid(r) for r in new_indexes(ops, engine)]
    oids += [oid for oid, wanted in _constraints(ops, catalog).items() if wanted]
    oids = [oid for oid in oids if not after.relations[oid].temporary]
    views = [rows_below(v, engine) for v in filled_views(ops, catalog, after)]
    return max([0, *views, *(stored_rows(engine, oid) for oid in oids)])


def rows_below(relation: Relation, engine: Engine) -> int:
    """Rows that a view would be filled from."""
    rows = 0
    seen: set[int] = set()
    stack = list(relation.depends_on)
    while stack:
        oid = stack.pop()
        other = engine.catalog.relations.get(oid)
        if other is None or oid in seen:
            continue
        seen.add(oid)
        if other.kind == "view":
            stack.extend(other.depends_on)
        elif oid in engine.sources and other.kind == "source":
            rows += engine.sources[oid].rows
        else:
            rows += stored_rows(engine, oid)
    return rows


def _constraints(ops: Sequence[DdlOp], before: Catalog) -> dict[int, Validator]:
    """By table, what its rows have to keep that they had not to keep before."""
    found: dict[int, Validator] = {}
    catalog = before.fork()
    for op in ops:
        old = dict(catalog.relations)
        op.apply(catalog)
        for relation in op.relations if isinstance(op, AlterRelations) else ():
            if relation.kind == "table" and isinstance(op, AlterRelations):
                new = catalog.relations[relation.oid]
                wanted = validator(op, old[relation.oid], new, catalog)
                known = found.get(relation.oid)
                if known is not None:  # several changes of one table: all that was asked so far
                    checks = wanted.checks | known.checks
                    keys = [k for k in new.keys if k in (*known.keys, *wanted.keys)]
                    wanted = Validator(new, checks, keys, catalog)
                found[relation.oid] = wanted
    return found


def make_parts(ops: Sequence[DdlOp], engine: Engine, after: Catalog) -> list[Part]:
    """All parts of a change. Engine thread. after: the catalog with it.

    Raises: errors of binding. A replay makes views only: all else is the same at any time.
    """
    from streamsql.engine.alterations import check_inputs_run

    catalog = engine.catalog
    steps = table_steps(ops, catalog)
    views = filled_views(ops, catalog, after)
    parts: list[Part] = []
    if views:
        made = {view.oid for view in views}
        stay = {oid: state for oid, state in engine.views.items() if oid not in made}
        for view in views:
            check_inputs_run(view, after, stay)
        try:
            moved = {oid: _columns(found) for oid, found in steps.items()}
            parts.append(SideCircuit.begin(engine, views, moved, after))
        except NotBeside:  # they are made at once, when all they read is there
            pass
    if engine.replay_us is not None:
        return parts
    constraints = _constraints(ops, catalog)
    for oid, found in steps.items():
        wanted = constraints.pop(oid, None) or Validator(found[-1].new, frozenset(), (), after)
        parts.append(SideTable(engine, oid, found, wanted))
    parts += [SideCheck(engine, oid, wanted) for oid, wanted in constraints.items() if wanted]
    parts += [SideIndex(engine, index, after) for index in new_indexes(ops, engine)]
    return parts


def _columns(steps: Sequence[TableStep]) -> tuple[int | None, ...]:
    """For each column at the end the position it had at the beginning, None = it is new."""
    places = steps[0].change.columns
    for step in steps[1:]:
        places = tuple(None if p is None else places[p] for p in step.change.columns)
    return places
