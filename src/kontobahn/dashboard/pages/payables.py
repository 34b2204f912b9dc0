"""Received invoices: sent here, looked at, assigned to a creditor, released, rejected, held back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from operator import add
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.api.answers import Data
from kontobahn.api.declare import Endpoint
from kontobahn.clock import berlin_date
from kontobahn.dashboard import books as book_pages
from kontobahn.dashboard import figures, sheets, words
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import PAGE_SIZE, Cell
from kontobahn.dashboard.pages import partners
from kontobahn.dashboard.pages.audit_log import names_of_actors
from kontobahn.dashboard.pages.ledger_connections import STATES as TRANSMISSION_STATES
from kontobahn.dashboard.pages.order_files import NoFilters
from kontobahn.dashboard.refusals import words_of
from kontobahn.dashboard.sheets import Column, Part, Sheet
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, NotFound, Refusal
from kontobahn.formats.invoices.model import Finding, Invoice, Remark
from kontobahn.formats.invoices.pdf import Proposal
from kontobahn.ledger.connections import list_clients
from kontobahn.ledger.provider import LedgerClient, Transmission
from kontobahn.money import from_minor, to_minor
from kontobahn.payables import booking, by_hand, document, handover, mailbox, routes, store
from kontobahn.payables.booking import MAX_ROWS, BookingAccount, NewPayableBooking, PayableBooking
from kontobahn.payables.by_hand import NewPayable
from kontobahn.payables.document import Section
from kontobahn.payables.handover import HandoverRow, NewHandover
from kontobahn.payables.intake import NoInvoice
from kontobahn.payables.routes import FilesQuery
from kontobahn.payables.rules import MAY, Status, is_to_be_paid
from kontobahn.payables.store import DueRow, FileRow, PayableRow, StepRow, UnreadRow, Waiting
from kontobahn.payables.wire import Payable, payable_view

PATH = f"{ROOT}/payables"
MAX_ID_LENGTH = 64
UNREAD_SHOWN = 20
CSV_STEP_ROWS = 500
STATES: dict[Status, tuple[str, str]] = {
    "needs_person": (N_("stopped"), "bad"),
    "new": (N_("creditor unknown"), "warn"),
    "to_release": (N_("to be released"), "warn"),
    "released": (N_("released"), "good"),
    "in_payment": (N_("being paid"), "plain"),
    "paid": (N_("paid"), "good"),
    "rejected": (N_("rejected"), "plain"),
}
BOOKING_LINES = 3
BOOKING_STATES = {
    "none": (N_("not booked"), "plain"),
    "accepted": (N_("accounts accepted"), "warn"),
    "booked": (N_("booked"), "good"),
    "known": (N_("was in the books already"), "good"),
    "handed_over": (N_("handed over"), "good"),
}
# The names of the rules that invoices are checked by, as people write them.
RULE_SETS = {"en16931": "EN 16931", "ustg": "UStG", "xrechnung": "XRechnung"}
STEPS = {
    "receive": N_("Received"),
    "assign": N_("Creditor assigned"),
    "release": N_("Released"),
    "reject": N_("Rejected"),
    "hold": N_("Held back"),
    "confirm_iban": N_("New IBAN confirmed"),
    "confirm_another": N_("Confirmed as a further invoice"),
    "accept": N_("Accounts accepted"),
    "book": N_("Booked"),
    "hand_over": N_("Handed over"),
    "pay": N_("In a payment run"),
    "paid": N_("Paid"),
    "payment_failed": N_("The payment has failed"),
    "return": N_("The payment came back"),
    "reopen": N_("Open again: its match was undone"),
    "stop": N_("Stopped: the IBAN is another one"),
}


class PayableFilters(Struct):
    status: Status | Literal[""] = ""


class Line(NamedTuple):
    """An invoice in the list, with its days."""

    row: PayableRow
    issued_on: date
    due_on: date | None


class Listed(NamedTuple):
    rows: list[PayableRow]
    # The number of those that wait, by status.
    waiting: dict[Status, int]
    # Files that no invoice could be read from.
    unread: list[Waiting]
    # Tells that there is a mailbox, and it cannot be read.
    has_mail_trouble: bool


class Facts(NamedTuple):
    row: PayableRow
    files: list[FileRow]
    steps: list[tuple[StepRow, str]]
    booked: PayableBooking


@page("/payables", help="payables")
async def payables(visit: Visit) -> Response:
    filters = visit.filters(PayableFilters)
    listed = await visit.read(_listed, visit.organization_id, filters.wanted.status or None, filters.after)
    return visit.show(
        "payables.html",
        filters=filters,
        list=filters.first_page([_line(row) for row in listed.rows], lambda line: line.row.id),
        states=STATES,
        unread=listed.unread,
        has_mail_trouble=listed.has_mail_trouble,
        tabs=[
            (_(text), filters.url(status=status), listed.waiting.get(status, 0), filters.wanted.status == status)
            for status, (text, _kind) in STATES.items()
        ],
    )


def _listed(tx: Tx, organization_id: str, status: Status | None, before: str) -> Listed:
    read_from = mailbox.of_organization(tx, organization_id)
    return Listed(
        store.latest(tx, organization_id, status, before[:MAX_ID_LENGTH], PAGE_SIZE + 1),
        store.waiting(tx, organization_id),
        store.latest_unread(tx, organization_id, UNREAD_SHOWN),
        read_from is not None and bool(read_from.trouble),
    )


def _line(row: PayableRow) -> Line:
    return Line(row, date.fromisoformat(row.issue_date), date.fromisoformat(row.due_date) if row.due_date else None)


@page("/payables.csv")
async def payables_csv(visit: Visit) -> Response:
    sheet, _heading = await _sheet(visit)
    return await sheets.as_csv(visit, sheet, _("Received invoices"))


@page("/payables.pdf")
async def payables_pdf(visit: Visit) -> Response:
    sheet, heading = await _sheet(visit, sheets.MAX_PRINTED)
    return await sheets.as_pdf(visit, heading, sheet, f"{_('Received invoices')} {visit.today}")


async def _sheet(visit: Visit, most: int | None = None) -> tuple[Sheet, str]:
    """Returns the whole list, or a little more than `most` rows of it, and whose books it is about."""
    status = visit.filters(PayableFilters).wanted.status
    clients = await book_pages.clients_in_time(visit)
    rows, sums, before = list[tuple[Cell, ...]](), dict[str, list[int]](), ""
    books, days = set[tuple[str, str]](), set[date]()
    while found := await visit.read(store.latest, visit.organization_id, status or None, before, CSV_STEP_ROWS):
        before = found[-1].id
        for row in found:
            rows.append(_cells(row, clients))
            add_up(sums, row.currency_code, row.payable_minor, row.total_minor)
            books.add((row.connection_id, row.client_id))
            days.add(berlin_date(row.created_at))
        if most is not None and len(rows) > most:
            break
    columns = [
        Column(_("Supplier"), 10), Column(_("Invoice number"), 10), Column(_("Dated"), 9), Column(_("Due on"), 7),
        Column(_("Status"), 7), Column(_("Amount due"), 7, right=True), Column(_("Total with VAT"), 7, right=True),
        Column(_("Currency"), 6), Column(_("Creditor account"), 7), Column(_("IBAN"), 15, grouped=True),
        Column(_("VAT id"), 7), Column(_("Received"), 7),
    ]  # fmt: skip
    totals = [
        (_("Total"), "", None, None, "", from_minor(owed), from_minor(total), currency, "", "", "", None)
        for currency, (owed, total) in sorted(sums.items())
    ]
    period = (
        _("Received from %(first)s to %(last)s", first=figures.day(min(days)), last=figures.day(max(days)))
        if days
        else ""
    )
    said = " · ".join(
        filter(None, (_("As of %(day)s", day=figures.day(visit.today)), period, status and _(STATES[status][0])))
    )
    notes = [_("Credit notes are negative.")]
    sheet = Sheet(_("Received invoices"), said, columns, [Part(rows, "", totals)], notes, landscape=True)
    return sheet, book_pages.heading_of(clients, books)


def add_up(sums: dict[str, list[int]], currency: str, *amounts: int) -> None:
    """Adds amounts to the sums of their currency."""
    known = sums.setdefault(currency, [0] * len(amounts))
    known[:] = map(add, known, amounts)


def _cells(row: PayableRow, clients: Sequence[LedgerClient]) -> tuple[Cell, ...]:
    line = _line(row)
    return (
        row.creditor_name, row.number, line.issued_on, line.due_on, _(STATES[row.status][0]), from_minor(row.payable_minor),
        from_minor(row.total_minor), row.currency_code, written_in(clients, row), row.creditor_iban, row.creditor_vat_id,
        berlin_date(row.created_at),
    )  # fmt: skip


def written_in(clients: Sequence[LedgerClient], row: PayableRow | DueRow) -> str:
    """Returns the creditor's account as the client writes it; nothing if there is none."""
    if not row.konto:
        return ""
    return book_pages.as_written(clients, row.connection_id, row.client_id, row.konto)[0]


@action("/payables", takes_file=True)
async def receive(visit: Visit) -> Response:
    call = visit.call(routes.receive_file)
    try:
        upload = await visit.receive_file()
        query = FilesQuery(organization_id=visit.organization_id)
        answer = await routes.receive_file.handler(call, query=query, body=upload)
    except NoInvoice as refusal:
        # The page of the file says why.
        return visit.redirect(f"{PATH}/files/{refusal.extra['file_id']}")
    except Refusal as error:
        visit.form.fail("", words_of(error))
    else:
        text = _("The invoice has been received.") if call.status == 201 else _("This invoice is already known.")
        return visit.redirect(f"{PATH}/{answer.data.id}", text)
    response: Response = await payables.handler(visit)
    return response


@page("/payables/{id}", help="payables")
async def payable(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit, id)
    row, language = facts.row, words.language()
    invoice = msgspec.json.decode(row.invoice, type=Invoice)
    view = payable_view(row)
    written = await book_pages.writer(visit, row.connection_id, row.client_id) if row.connection_id else str
    return visit.show(
        "payable.html",
        frames=True,
        pdf=next((file for file in facts.files if file.media_type == "application/pdf"), None),
        row=row,
        view=view,
        state=STATES[row.status],
        konto=written(row.konto) if row.konto else "",
        proposed_konto=written(view.proposals.konto) if view.proposals else "",
        share=view.proposals.reason.split("/") if view.proposals else [],
        rule_sets=RULE_SETS,
        chosen_konto=visit.query.get("konto", [""])[-1][:9],
        new_supplier=_new_supplier(row, invoice) if not row.konto and visit.may("bookkeeping") else "",
        sections=[(section, _columns(section)) for section in document.sections(invoice, language)],
        title=document.title_of(invoice, language),
        findings=[(one, one.message(language)) for one in msgspec.json.decode(row.findings, type=list[Finding])],
        warnings=[one.message(language) for one in msgspec.json.decode(row.warnings, type=list[Remark])],
        to_be_paid=is_to_be_paid(row.means_code, row.payable_minor),
        files=facts.files,
        steps=_steps(facts.steps, await names_of_actors(visit, row.organization_id)),
        may={name: row.status in statuses for name, statuses in MAY.items()},
        booked=facts.booked,
        booking_state=BOOKING_STATES[facts.booked.state],
        accounts=_padded(_typed(visit.form) or _accounts(row, view, facts.booked, written)),
        written=written,
        may_book=bool(row.konto) and row.status != "rejected" and row.currency_code == "EUR",
    )


def _steps(steps: list[tuple[StepRow, str]], names: dict[str, str]) -> list[tuple[str, str, int, str]]:
    """The steps of an invoice for a timeline: what was done, by whom and with which words, and when."""
    return [
        (
            _(STEPS[step.action]),
            " · ".join(filter(None, (names.get(step.actor, name), _comment(step)))),
            step.created_at,
            "good",
        )
        for step, name in steps
    ]


def _comment(step: StepRow) -> str:
    """A payment run notes the amount that it pays."""
    return figures.money(Decimal(step.comment)) if step.action == "pay" else step.comment


def _new_supplier(row: PayableRow, invoice: Invoice) -> str:
    """The address of the form for a supplier with what the invoice says of it; empty without books."""
    if not (row.connection_id and row.client_id):
        return ""
    seller = invoice.seller
    place = seller.address
    proposed = {
        "name": row.creditor_name,
        "street": place and place.street,
        "postal_code": place and place.postal_code,
        "city": place and place.city,
        "email": seller.contact and seller.contact.email,
        "phone": seller.contact and seller.contact.phone,
        "iban": row.creditor_iban,
        "vat_id": row.creditor_vat_id,
    }
    return partners.proposal_url(row.connection_id, row.client_id, row.id, proposed)


def _accounts(
    row: PayableRow, view: Payable, booked: PayableBooking, written: Callable[[str], str]
) -> list[tuple[str, str, str]]:
    """Account, tax key and amount for each line of the form: as accepted, else as proposed for the whole amount."""
    found = [(written(one.konto), one.steuer, figures.plain_amount(to_minor(one.amount))) for one in booked.accounts]
    if not found:
        proposed = view.proposals
        konto, steuer = (written(proposed.konto), proposed.steuer) if proposed else ("", "")
        found = [(konto, steuer, figures.plain_amount(abs(row.total_minor)))]
    return found


def _padded(lines: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """With empty lines behind them, so that an amount can be divided."""
    return lines + [("", "", "")] * (BOOKING_LINES - len(lines))


def _columns(section: Section) -> dict[str, tuple[str, str]]:
    """The columns of a table, by names that its cells are called by."""
    return {
        f"c{place}": (title, "amount" if place in section.figures else "" if title else "bare")
        for place, title in enumerate(section.titles)
    }


def _facts(tx: Tx, visit: Visit, payable_id: str) -> Facts:
    if len(payable_id) > MAX_ID_LENGTH:
        raise NotFound("Payable not found.")
    row = store.find(tx, visit.principal, payable_id)
    steps = [(step, audit.name_of(tx, row.organization_id, step.actor)) for step in store.steps_of(tx, row)]
    return Facts(row, store.files_of(tx, row), steps, booking.view(row.id, booking.of_payable(tx, row)))


@page("/payables/{id}/files/{file_id}/file")
async def payable_file(visit: Visit, id: str, file_id: str) -> Response:
    """A file that the invoice came in or with: the first one, another form of it, a PDF for people to read."""
    file, content = await visit.read(_content, visit, id, file_id)
    return visit.framed(content, file.media_type, file.file_name)


def _content(tx: Tx, visit: Visit, payable_id: str, file_id: str) -> tuple[FileRow, bytes]:
    found = next((file for file in _facts(tx, visit, payable_id).files if file.id == file_id), None)
    if found is None:
        raise NotFound("File not found.")
    return found, store.content_of(tx, found)


async def _decide(visit: Visit, payable_id: str, endpoint: Endpoint, notice: Callable[[Payable], str]) -> Response:
    """Makes the call that decides about an invoice, with the fields of its form, and says what came of it."""
    assert endpoint.body is not None
    wanted = visit.form.read(endpoint.body)
    if wanted is not None:
        with visit.form.refusals():
            answer: Data[Payable] = await visit.ask(endpoint, id=payable_id, body=wanted)
            return visit.redirect(f"{PATH}/{payable_id}", notice(answer.data))
    response: Response = await payable.handler(visit, payable_id)
    return response


@action("/payables/{id}/creditor")
async def assign(visit: Visit, id: str) -> Response:
    return await _decide(visit, id, routes.assign_creditor, lambda _payable: _("The creditor is assigned."))


@action("/payables/{id}/booking")
async def accept(visit: Visit, id: str) -> Response:
    """Takes the accounts of the form; lines without one are left out."""
    with visit.form.refusals():
        body = NewPayableBooking(accounts=[_account(*line) for line in _typed(visit.form) if line[0]])
        if not body.accounts:
            raise BadRequest("Enter at least one account.")
        answer: Data[PayableBooking] = await visit.ask(booking.accept_accounts, id=id, body=body)
        texts = {
            "accepted": _("The accounts are accepted."),
            "booked": _("The invoice is booked."),
            "known": _("The books have this invoice already; nothing was booked."),
        }
        return visit.redirect(f"{PATH}/{id}", texts[answer.data.state])
    response: Response = await payable.handler(visit, id)
    return response


def _typed(form: Form) -> list[tuple[str, str, str]]:
    """Account, tax key and amount of each line, as they were typed."""
    columns = [[text.strip() for text in form.all(name)[:MAX_ROWS]] for name in ("account", "steuer", "amount")]
    return list(zip(*columns, strict=False))


def _account(konto: str, steuer: str, amount: str) -> BookingAccount:
    try:
        if not (re.fullmatch(r"[0-9]{4,9}", konto) and re.fullmatch(r"[0-9]{0,4}", steuer)):
            raise ValueError
        return BookingAccount(konto=konto, steuer=steuer, amount=figures.parse_amount(amount))
    except ValueError:
        raise BadRequest(
            "An account has 4 to 9 digits, a tax key up to 4, and an amount at most two decimals."
        ) from None


@action("/payables/{id}/release", role="member")
async def release(visit: Visit, id: str) -> Response:
    def notice(row: Payable) -> str:
        if row.status == "released":
            return _("The invoice is released.")
        return _("Noted. A second person has to release it as well.")

    return await _decide(visit, id, routes.release_payable, notice)


@action("/payables/{id}/reject")
async def reject(visit: Visit, id: str) -> Response:
    return await _decide(visit, id, routes.reject_payable, lambda _payable: _("The invoice is rejected."))


@action("/payables/{id}/hold")
async def hold(visit: Visit, id: str) -> Response:
    return await _decide(visit, id, routes.hold_payable, lambda _payable: _("The invoice waits."))


@action("/payables/{id}/confirm", role="member", confirm=True)
async def confirm(visit: Visit, id: str) -> Response:
    return await _decide(visit, id, routes.confirm_stop, lambda _payable: _("Confirmed. The invoice can be released."))


# Files that no invoice could be read from: looked at, and typed as an invoice beside the file, or set aside.


KINDS = {"invoice": N_("Invoice"), "credit_note": N_("Credit note")}


class FileFacts(NamedTuple):
    file: FileRow
    waiting: UnreadRow | None
    payable_id: str


@page("/payables/files/{id}", help="payables-by-hand")
async def unread_file(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts_of_file, visit, id)
    if facts.payable_id:
        return visit.redirect(f"{PATH}/{facts.payable_id}")
    proposal = facts.waiting.proposed if facts.waiting else store.NOTHING_PROPOSED
    findings = msgspec.json.decode(facts.file.refused, type=list[Finding])
    return visit.show(
        "payable_by_hand.html",
        frames=True,
        file=facts.file,
        is_pdf=facts.file.media_type == "application/pdf",
        is_waiting=facts.waiting is not None,
        note=facts.waiting.note if facts.waiting else "",
        reasons=[one.message(words.language()) for one in findings[:3]],
        proposed=_proposed(proposal),
        kinds=[(kind, _(text)) for kind, text in KINDS.items()],
    )


def _facts_of_file(tx: Tx, visit: Visit, file_id: str) -> FileFacts:
    if len(file_id) > MAX_ID_LENGTH:
        raise NotFound("File not found.")
    file = store.find_file(tx, visit.principal, file_id)
    payable = store.payable_in(tx, file.organization_id, file.id)
    return FileFacts(file, store.find_unread(tx, file.organization_id, file.id), payable.id if payable else "")


def _proposed(proposal: Proposal) -> dict[str, str]:
    """The facts that its text says plainly, as they stand in the fields of the form."""
    total = proposal.total_minor
    return {
        "number": proposal.number or "",
        "issue_date": proposal.issued_on.isoformat() if proposal.issued_on else "",
        "total": "" if total is None else figures.plain_amount(total),
        "iban": proposal.iban or "",
    }


@action("/payables/files/{id}")
async def type_payable(visit: Visit, id: str) -> Response:
    values = visit.form.values
    values["file_id"] = [id]
    for name in ("currency_code", "vat_id"):
        values[name] = ["".join(visit.form.text(name).upper().split())]
    typed = visit.form.read(NewPayable)
    if typed is not None:
        with visit.form.refusals():
            answer = await visit.ask(by_hand.create_payable, body=typed)
            return visit.redirect(f"{PATH}/{answer.data.id}", _("The invoice has been entered."))
    response: Response = await unread_file.handler(visit, id)
    return response


@page("/payables/files/{id}/file")
async def unread_content(visit: Visit, id: str) -> Response:
    if len(id) > MAX_ID_LENGTH:
        raise NotFound("File not found.")
    file = await visit.ask(routes.get_received_file, id=id)
    return visit.framed(file.content, file.media_type, file.file_name)


@action("/payables/files/{id}/aside")
async def set_aside(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts_of_file, visit, id)
    await visit.write(store.remove_unread, facts.file.organization_id, facts.file.id)
    return visit.redirect(PATH, _("The file is set aside. It is kept."))


# Received invoices for whoever keeps the books elsewhere: what waits to be handed over, and what was.


HANDOVERS_PATH = f"{ROOT}/payables/handovers"


class HandoverForm(Struct):
    connection_id: Annotated[str, Meta(min_length=1, max_length=64)]
    client_id: Annotated[str, Meta(max_length=64)] = ""


@page("/payables/handovers", help="payables-handover")
async def handovers(visit: Visit) -> Response:
    filters = visit.filters(NoFilters)
    rows, waiting, sent = await visit.read(_facts_of_handovers, visit.organization_id, filters.after[:64])
    names = {
        (one.connection_id, one.client_id): one.name for one in await list_clients(visit.context, visit.organization_id)
    }
    return visit.show(
        "payables_handovers.html",
        sent=sent,
        states=TRANSMISSION_STATES,
        list=filters.first_page(rows, lambda row: row.id),
        waiting=[(*books, names.get(books, books[1]), number) for books, number in sorted(waiting.items())],
        names=names,
        authors=await names_of_actors(visit, visit.organization_id),
        at=HANDOVERS_PATH,
    )


def _facts_of_handovers(
    tx: Tx, organization_id: str, before: str
) -> tuple[list[HandoverRow], dict[tuple[str, str], int], dict[str, list[Transmission]]]:
    """Hand-overs, invoices that wait by books, and the files of each hand-over that go to a provider by themselves."""
    rows = handover.latest(tx, organization_id, before, PAGE_SIZE + 1)
    sent = {row.id: handover.sent_files(tx, row) for row in rows}
    return rows, handover.count_waiting(tx, organization_id), sent


@action("/payables/handovers")
async def hand_over(visit: Visit) -> Response:
    wanted = visit.form.read(HandoverForm)
    if wanted is not None:
        with visit.form.refusals(connection_id="", client_id=""):
            body = NewHandover(connection_id=wanted.connection_id, client_id=wanted.client_id or None)
            made = (await visit.ask(handover.create_payables_handover, body=body)).data
            text = ngettext("One invoice was handed over.", "%(num)s invoices were handed over.", made.invoices)
            return visit.redirect(HANDOVERS_PATH, text)
    response: Response = await handovers.handler(visit)
    return response


@page("/payables/handovers/{id}/file")
async def handover_file(visit: Visit, id: str) -> Response:
    return visit.stream(await visit.ask(handover.get_payables_handover_file, id=id[:64]))
