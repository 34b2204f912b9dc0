"""Statement files: sent here, with a report of what came of each."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.api.answers import Data
from kontobahn.banking.imports import routes
from kontobahn.banking.imports import store as imports
from kontobahn.banking.imports.routes import StatementImportReport, StatementsQuery
from kontobahn.banking.imports.store import ImportRow
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages import first_steps
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.errors import NotFound, Refusal
from kontobahn.formats.statements import ALLOW_GAPS, UNBALANCED

PATH = f"{ROOT}/statements"
MAX_ID_LENGTH = 64
STATES = {
    "running": (N_("being imported"), "warn"),
    "done": (N_("imported"), "good"),
    "failed": (N_("refused"), "bad"),
}


class NoFilters(Struct):
    pass


class Choices(Struct):
    allow_gaps: bool = False
    unbalanced: bool = False
    iban: Annotated[str, Meta(max_length=4000)] = ""
    # Sent from the page that adds an account: then the next of the first steps follows.
    is_first_step: bool = False


@page("/statements", poll=5, help="statement-files")
async def statements(visit: Visit) -> Response:
    filters = visit.filters(NoFilters)
    before = _place(filters.after)
    rows = await visit.read(imports.listing, (visit.organization_id,), PAGE_SIZE + 1, before)
    return visit.show(
        "statements.html",
        list=filters.first_page(rows, lambda row: f"{row.created_at}_{row.id}"),
        states=STATES,
        said=_said,
    )


def _place(after: str) -> imports.Place:
    """Reads what the address of a page says of the last import before it."""
    at, _mark, last_id = after.partition("_")
    return (int(at), last_id) if at.isascii() and at.isdigit() and len(at) < 19 else (imports.LATEST[0], last_id)


@action("/statements", takes_file=True)
async def read_statements(visit: Visit) -> Response:
    upload = await visit.receive_file()
    choices = visit.form.read(Choices)
    if choices is not None:
        query = StatementsQuery(
            organization_id=visit.organization_id, allow_gaps=choices.allow_gaps, unbalanced=choices.unbalanced,
            iban=choices.iban or None,
        )  # fmt: skip
        try:
            answer: Data[StatementImportReport] = await visit.ask(routes.import_statements, query=query, body=upload)
        except Refusal as error:
            field = str(error.extra.get("field", ""))
            visit.form.fail(field if field in visit.form else "", _said(str(error)))
        else:
            return await _on(visit, answer.data, is_first_step=choices.is_first_step)
    response: Response = await statements.handler(visit)
    return response


async def _on(visit: Visit, report: StatementImportReport, *, is_first_step: bool) -> Response:
    """Leads to the report, or to the next of the first steps once something was imported."""
    if is_first_step and report.status == "done":
        steps = await visit.read(first_steps.find, visit.organization_id)
        if first_steps.is_open(steps):
            text = ngettext("One transaction was imported.", "%(num)s transactions were imported.", report.added)
            return visit.redirect(
                first_steps.PATH, text if report.added else _("All transactions of this file were already known.")
            )
    return visit.redirect(f"{PATH}/{report.id}")


@page("/statements/{id}", poll=2, help="statement-files")
async def statement_import(visit: Visit, id: str) -> Response:
    if len(id) > MAX_ID_LENGTH:
        raise NotFound("Import not found.")
    row: ImportRow = await visit.read(imports.find, visit.principal, id)
    sentence = row.result().refusal or row.error or ""
    return visit.show(
        "statement_import.html",
        row=row,
        result=row.result(),
        state=STATES[row.status],
        error=_said(sentence),
        may_be_right=UNBALANCED in sentence or ALLOW_GAPS in sentence,
        actor=await visit.read(audit.name_of, row.organization_id, row.actor),
        counts=_counts(row),
        nothing_new=_is_known(row),
    )


def _said(sentence: str) -> str:
    """Returns what is wrong with a file; how to say on the command line that it is right is of no use here."""
    return refusal(sentence, left_out=(UNBALANCED, ALLOW_GAPS))


def _counts(row: ImportRow) -> list[tuple[str, int]]:
    result = row.result()
    counts = [
        (_("Transactions added"), result.added),
        (_("Statements"), result.statements),
        (_("Statements already known"), result.repeated),
        (_("Transactions changed"), result.modified),
        (_("Pending transactions removed"), result.removed),
        (_("Entries left out"), result.left_out),
        (_("Payments updated"), result.payments),
        (_("Accounts"), result.accounts),
    ]
    return [(label, count) for label, count in counts if count or label == counts[0][0]]


def _is_known(row: ImportRow) -> bool:
    result = row.result()
    return row.status == "done" and not (result.added or result.modified or result.removed or result.payments)
