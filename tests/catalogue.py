"""The schema of a database as its own catalogue has it, to compare two databases of one engine, however they came about."""

from __future__ import annotations

import re
from typing import Any

from kontobahn.db import Tx

# Kind, name and definition. Constraints have no name here: nobody names them, and PostgreSQL numbers them in a table that was made anew.
# Columns are counted without the gaps that dropped ones leave.
_POSTGRES = r"""
SELECT 'column', format('%s %s', attrelid::regclass, lpad((row_number() OVER (PARTITION BY attrelid ORDER BY attnum))::text, 3, '0')),
    concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'not null' END, collname,
    pg_get_expr(adbin, adrelid))
  FROM pg_attribute
  JOIN pg_class c ON c.oid = attrelid AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
  LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum LEFT JOIN pg_collation l ON l.oid = attcollation
  WHERE attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'constraint', conrelid::regclass::text, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
UNION ALL SELECT 'index', indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
  JOIN pg_class c ON c.oid = indexrelid AND c.relnamespace = current_schema()::regnamespace WHERE NOT indisprimary
UNION ALL SELECT 'trigger', format('%s %s', tgrelid::regclass, tgname), pg_get_triggerdef(oid)
  FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid)
  FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
"""


def catalogue(tx: Tx, engine: str) -> set[tuple[Any, ...]]:
    """Returns tables with their columns in order, constraints, indexes, triggers and functions: equal sets are equal schemas."""
    if engine == "postgres":
        return {_without_blanks(row) for row in tx.all(_POSTGRES)}
    rows = tx.all("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
    return {(kind, name, *(_table(sql) if kind == "table" else (_plain(sql),))) for kind, name, sql in rows}


def _without_blanks(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(" ".join(str(value).split()) for value in row)


def _table(sql: str) -> tuple[Any, ...]:
    """Columns in their order, constraints in any: SQLite puts a column that is added later after these."""
    opened, _, rest = _plain(sql).partition("(")
    inner, _, kind = rest.rpartition(")")
    parts, depth = [""], 0
    for character in inner:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    constraints = [part for part in parts if re.match(r"(PRIMARY KEY|FOREIGN KEY|CHECK|UNIQUE)\b", part)]
    return opened, tuple(part for part in parts if part not in constraints), frozenset(constraints), kind


def _plain(sql: str) -> str:
    """Without comments, quotes of names, and blanks that mean nothing."""
    text = " ".join(re.sub(r"--[^\n]*", "", sql).replace('"', "").split())
    return re.sub(r" ?([(),;]) ?", r"\1", text)
