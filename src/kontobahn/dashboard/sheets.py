"""Sheets of the books as files: a CSV to count with, and a document to print, with all rows and its head on every page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from itertools import groupby, islice
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from kontobahn import log
from kontobahn.clock import SECOND
from kontobahn.dashboard import figures, prints
from kontobahn.dashboard.lists import Cell
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, language
from kontobahn.errors import BadRequest, Unavailable
from kontobahn.mobility.invoices.pdf import make_printable
from kontobahn.mobility.invoices.typesetter import Failed, Typesetter
from kontobahn.threads import Pool

# A row takes about two milliseconds to typeset.
MAX_PRINTED = 5_000
MANY_ROWS = 500
PDF = "application/pdf"
SIDES = N_("Amounts in euros. S: debit balance, H: credit balance.")


class Column(NamedTuple):
    title: str
    # Its share of the width of the paper.
    width: int = 2
    # Amounts and numbers.
    right: bool = False
    # A balance, printed with its side as on the pages. In a CSV, Soll is positive and Haben negative.
    sided: bool = False
    # Zeros say nothing here, so they are printed in sums only.
    sparse: bool = False
    # An IBAN, printed in groups of four.
    grouped: bool = False


class Part(NamedTuple):
    """Rows under a heading of their own, with the sums below them."""

    rows: Iterable[Sequence[Cell]]
    title: str = ""
    sums: Sequence[Sequence[Cell]] = ()
    # The rows that are sums of others, by their place.
    strong: frozenset[int] = frozenset()
    # The balance of what came before the rows.
    carried: Sequence[Cell] = ()
    # The column whose sum is printed below rows that begin with the same cell.
    summed: int | None = None


class Sheet(NamedTuple):
    title: str
    # The days that it is about, in words.
    period: str
    columns: Sequence[Column]
    parts: Sequence[Part]
    notes: Sequence[str] = ()
    landscape: bool = False


async def as_csv(visit: Visit, sheet: Sheet, name: str) -> Response:
    """The rows of all parts, without sums: a spreadsheet adds up by itself."""
    head = [column.title for column in sheet.columns]
    return await visit.csv(_marked(visit, name), head, (row for part in sheet.parts for row in part.rows))


async def as_pdf(visit: Visit, heading: str, sheet: Sheet, name: str) -> Response:
    """Prints a sheet; `heading` says whose books it is about. Raises BadRequest if it has more rows than are printed."""
    data = await visit.off_loop(_composed, sheet, _head(visit, heading))
    return await typeset(visit, "sheet", {"data": data}, name)


async def typeset(visit: Visit, template: str, inputs: dict[str, str], name: str) -> Response:
    """Answers with a printed document. Raises Unavailable if it cannot be made now."""
    is_large = inputs["data"].count('"cells"') > MANY_ROWS
    try:
        made = await _pool().run(
            _typesetter().run, prints.make, template, inputs, visit.now // SECOND, is_large=is_large
        )
    except Failed as error:
        log.warning("print_failed", template=template, detail=str(error))
        raise Unavailable(_("This could not be printed. Choose fewer rows, or take the CSV file.")) from None
    return visit.framed(made[0].content, PDF, f"{_marked(visit, name)}.pdf")


def _marked(visit: Visit, name: str) -> str:
    """Figures beside accounts that do not exist are not taken for those of a real company, wherever the file ends up."""
    assert visit.person is not None
    return f"{_('Sandbox')} {name}" if visit.person.has_sandbox else name


@cache
def _pool() -> Pool:
    """One thread: documents are made one after the other, by one process; organisations take turns."""
    return Pool("prints", threads=1, waiting=16)


@cache
def _typesetter() -> Typesetter:
    return Typesetter()


def _head(visit: Visit, heading: str) -> dict[str, str]:
    assert visit.person is not None
    company = visit.person.looking_at.name
    # A company's own books need not name it twice.
    if heading.startswith(f"{company} ("):
        heading = _("Client %(number)s", number=heading.removeprefix(f"{company} (").removesuffix(")"))
    printed = _("Printed on %(moment)s by %(name)s", moment=figures.moment(visit.now), name=visit.person.user.name)
    return {
        "company": company,
        "client": heading,
        "printed": f"{printed} · {_('Sandbox')}" if visit.person.has_sandbox else printed,
        "page": _("Page {page} of {pages}"),
        "language": language(),
    }  # fmt: skip


def _composed(sheet: Sheet, head: dict[str, str]) -> str:
    parts, count = [], 0
    for part in sheet.parts:
        rows = list(islice(part.rows, MAX_PRINTED + 1 - count))
        count += len(rows)
        if count > MAX_PRINTED:
            raise BadRequest(
                _("At most %(count)s rows are printed. Set a filter, or take the CSV file.", count=figures.number(MAX_PRINTED))
            )  # fmt: skip
        above = [_row(sheet.columns, part.carried, is_strong=True)] if part.carried else []
        shown = list(_with_subtotals(sheet.columns, part, rows))
        sums = [_row(sheet.columns, row, is_strong=True) for row in part.sums]
        parts.append({"title": part.title, "rows": above + shown + sums})
    columns = [column._asdict() for column in sheet.columns]
    data: dict[str, Any] = {
        "title": sheet.title, "period": sheet.period, "columns": columns, "parts": parts,
        "notes": list(sheet.notes), "landscape": sheet.landscape, **head,
    }  # fmt: skip
    return msgspec.json.encode(make_printable(data)).decode()


def _with_subtotals(columns: Sequence[Column], part: Part, rows: list[Sequence[Cell]]) -> Iterator[dict[str, Any]]:
    for first, some in groupby(enumerate(rows), key=lambda one: one[1][0]):
        group = list(some)
        yield from (_row(columns, row, is_strong=place in part.strong) for place, row in group)
        if part.summed is not None and len(group) > 1:
            total = sum((Decimal(str(row[part.summed])) for _place, row in group), Decimal())
            cells: list[Cell] = [None] * len(columns)
            cells[1], cells[part.summed] = f"{_('Total')} {first}", total
            yield _row(columns, cells, is_strong=True) | {"sub": True}


def _row(columns: Sequence[Column], row: Sequence[Cell], *, is_strong: bool) -> dict[str, Any]:
    cells = [
        "" if column.sparse and not cell and not is_strong else _text(column, cell)
        for column, cell in zip(columns, row, strict=True)
    ]
    return {"cells": cells, "strong": is_strong, "sub": False}


def _text(column: Column, cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Decimal):
        if column.sided:
            side = (_("S") if cell > 0 else _("H")) if cell else ""
            return f"{figures.number(abs(cell), 2)}|{side}"
        return figures.number(cell, 2)
    if isinstance(cell, date):
        return figures.in_one_line(figures.day(cell))
    return figures.in_one_line(figures.iban(str(cell))) if column.grouped else str(cell)
