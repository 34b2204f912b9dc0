"""Received files on their way in: kept byte for byte, read, recognised, and entered as payables. The same for every way in."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec

from kontobahn import log
from kontobahn.access import organizations
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, KontobahnError, SetupError, Unreadable
from kontobahn.formats.invoice_files import read
from kontobahn.formats.invoices import rule_sets
from kontobahn.formats.invoices.model import CORRECTION, Finding, Invoice, InvoiceError, Remark, Text
from kontobahn.formats.invoices.pdf import Proposal as Typed
from kontobahn.formats.invoices.rule_sets import RuleSetError, RuleSets, Used
from kontobahn.formats.invoices.source import MAX_FILE_BYTES
from kontobahn.ids import new_id
from kontobahn.ledger.connections import list_clients, open_books, open_client
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.personenkonto import Geschaeftspartner
from kontobahn.ledger.provider import ClientBooks
from kontobahn.ledger.wire import SheetSelection
from kontobahn.money import from_minor
from kontobahn.payables import pdf_reader, rules, store
from kontobahn.payables.rules import EarlierLeg, Kind, Proposal, Seller
from kontobahn.payables.store import FileRow, PayableRow
from kontobahn.payables.wire import SkontoTerm, emit_received, finding_view
from kontobahn.settings import Settings
from kontobahn.threads import Pool, work_for

# Reading is bounded in time and memory, and done beside the event loop.
_READERS = Pool("invoices", threads=2, waiting=100)
PREPAYMENT = 386
_KINDS: dict[int | None, Kind] = {CORRECTION: "correction", PREPAYMENT: "prepayment"}


class Arrival(NamedTuple):
    """A file that has just come in, and who brought it."""

    organization_id: str
    file_name: str
    sha256: str
    content: bytes
    actor: Actor
    user_id: str
    # The sender and the subject of the mail it came by, for its history.
    note: str = ""


class NoInvoice(Unreadable):
    """A file that no invoice can be read from, with what was found in it, and what its text says plainly."""

    def __init__(self, findings: Sequence[Finding], proposal: Typed | None = None) -> None:
        super().__init__(
            "No invoice could be read from the file. It is kept.", findings=[finding_view(one) for one in findings]
        )
        self.findings = findings
        self.proposal = proposal


class Taken(NamedTuple):
    """A file that came in, and its invoice or why there is none."""

    file_id: str
    payable: PayableRow | None
    is_new: bool = False
    refusal: NoInvoice | None = None


class Books(NamedTuple):
    """The books that an invoice belongs to, open."""

    connection_id: str
    client: ClientBooks


class Paper(NamedTuple):
    """An invoice that was read, and what was found in it."""

    invoice: Invoice
    format: str
    profile: str
    findings: Sequence[Finding]
    warnings: Sequence[Remark]
    rule_sets: Sequence[Used] = ()


class Understood(NamedTuple):
    """An invoice, and what the books know of its sender."""

    paper: Paper
    books: Books | None
    creditor: Geschaeftspartner | None
    look_alikes: Sequence[Geschaeftspartner]
    proposal: Proposal | None
    # Creditors it may be, where none was found.
    alike: Sequence[Geschaeftspartner] = ()


# --- The books


async def books_for(
    context: Context, principal: Principal, organization_id: str, connection_id: str | None, client_id: str | None
) -> Books | None:
    """Returns the books asked for, else those of the settings, else the only ones there are. None if these cannot be opened.

    Books that were asked for and cannot be opened are refused.
    """
    if connection_id is not None:
        access = await open_books(context, principal, connection_id, client_id)
        async with access.to("personenkonten") as client:
            return Books(connection_id.lower(), client)
    if client_id is not None:
        raise BadRequest("The query parameter `client_id` needs `connection_id`.", field="connection_id")
    settings = await context.db.read(store.settings_of, organization_id)
    if settings is not None and settings.connection_id:
        where = (settings.connection_id, settings.client_id or None)
    else:
        clients = await list_clients(context, organization_id)
        if len(clients) != 1:
            return None
        where = (clients[0].connection_id, clients[0].client_id)
    try:
        return Books(where[0], await open_client(context, principal, *where))
    except (ProviderError, KontobahnError) as error:
        log.info("payable_without_books", connection=where[0], detail=str(error))
        return None


async def take(context: Context, principal: Principal, arrival: Arrival) -> Taken:
    """Takes a file in on behalf of the organisation. Whatever comes of it, the file is kept."""
    books = await books_for(context, principal, arrival.organization_id, None, None)
    try:
        understood = await understand(context, arrival, books)
    except NoInvoice as refusal:
        file = await context.db.write(keep_refused, arrival, refusal)
        return Taken(file.id, None, refusal=refusal)
    row, is_new = await context.db.write(enter, arrival, understood)
    return Taken(row.file_id, row, is_new)


# --- Reading and understanding


async def understand(context: Context, arrival: Arrival, books: Books | None) -> Understood:
    """Reads the file and looks for its sender in the books. Raises NoInvoice if no invoice is in it that could be paid."""
    paper = await _READERS.run(_read, arrival, berlin_date(context.clock.now()), context.settings)
    return await recognise(context, arrival.organization_id, paper, books)


def rules_of(settings: Settings) -> RuleSets:
    """Returns the sets of rules of this version, and those that the operator has put beside them. Raises SetupError."""
    folder = settings.invoice_rules_folder
    try:
        return rule_sets.load(Path(folder).expanduser() if folder else None)
    except RuleSetError as error:
        raise SetupError(f"invoice_rules_folder: {error}") from None


async def recognise(context: Context, organization_id: str, paper: Paper, books: Books | None) -> Understood:
    """Looks for the sender of an invoice in the books."""
    if books is None:
        return Understood(paper, None, None, (), None)
    try:
        partners = await books.client.geschaeftspartner()
        seller = seller_of(paper.invoice)
        if tax_number := paper.invoice.seller.tax_number:
            place = (organization_id, books.connection_id, books.client.client_id)
            seller = seller._replace(konto=await context.db.read(store.konto_by_tax_number, place, tax_number))
        categories = [item.category for item in paper.invoice.vat_breakdown]
        creditor = rules.find_creditor(seller, partners)
        proposal = None if creditor is None else await _proposal(books.client, creditor.konto, categories)
    except ProviderError as error:
        # It is received all the same: a person assigns the creditor.
        log.info("creditor_not_looked_up", connection=books.connection_id, detail=str(error))
        return Understood(paper, books, None, (), None)
    alike = [] if creditor else rules.alike(seller, partners)
    return Understood(paper, books, creditor, rules.look_alikes(seller, partners), proposal, alike)


def _read(arrival: Arrival, today: date, settings: Settings) -> Paper:
    rules_ = rules_of(settings)
    try:
        found = read(arrival.content, arrival.file_name, on=today, rules=rules_, pdf_reader=pdf_reader.read)
    except InvoiceError as error:
        raise NoInvoice([error.finding]) from None
    invoice = found.invoice
    # Without these nobody could say which invoice it is, or what is owed.
    if invoice is None or not (invoice.number and invoice.issued_on and invoice.currency):
        raise NoInvoice(found.findings, found.proposal)
    if invoice.totals.due_minor is None or invoice.totals.gross_minor is None:
        raise NoInvoice(found.findings)
    return Paper(invoice, found.format or "", found.profile or "", found.findings, found.warnings, found.rule_sets)


def seller_of(invoice: Invoice) -> Seller:
    return Seller(invoice.seller.name, invoice.seller.vat_id or "", ibans_of(invoice))


def ibans_of(invoice: Invoice) -> tuple[str, ...]:
    return tuple(rules.bare(transfer.iban) for transfer in invoice.payment.transfers if transfer.iban)


async def _proposal(books: ClientBooks, konto: str, categories: Sequence[str | None]) -> Proposal | None:
    """Returns the account and key that the creditor's latest invoices were booked with, or the key that the invoice asks for."""
    legs: list[EarlierLeg] = []
    for year in sorted(await books.geschaeftsjahre(), reverse=True)[:2]:
        sheet = await books.account_sheet(SheetSelection(year.start, konto, limit=500))
        legs += [EarlierLeg(line.gegenkonto, line.bu_schluessel) for line in sheet.lines if line.haben > 0]
    return rules.propose(legs, categories)


# --- Entering


def keep_refused(tx: Tx, arrival: Arrival, refusal: NoInvoice) -> FileRow:
    """Keeps a file that no invoice could be read from. When it comes for the first time, it waits for a person to type what it says."""
    store.lock(tx, arrival.organization_id)
    known = store.file_by_content(tx, arrival.organization_id, arrival.sha256)
    if known is not None:
        return known
    file = _keep(tx, arrival, _json(refusal.findings))
    store.add_unread(tx, file, refusal.proposal, arrival.note)
    return file


def accompany(tx: Tx, row: PayableRow, file_id: str) -> None:
    """Puts a file that no invoice could be read from beside the invoice that it came with: mostly the same one for people to read."""
    store.lock(tx, row.organization_id)
    if store.payable_in(tx, row.organization_id, file_id) is None and store.remove_unread(
        tx, row.organization_id, file_id
    ):
        store.add_arrival(tx, row, file_id)


def _keep(tx: Tx, arrival: Arrival, refused: str = "") -> FileRow:
    known = store.file_by_content(tx, arrival.organization_id, arrival.sha256)
    if known is not None:
        return known
    row = FileRow(
        arrival.organization_id, new_id(), arrival.sha256, arrival.file_name, _media_type(arrival.content), len(arrival.content),
        arrival.actor.name, tx.now, refused,
    )  # fmt: skip
    store.insert_file(tx, row, arrival.content)
    return row


def _media_type(content: bytes) -> str:
    if content.startswith(b"%PDF-"):
        return "application/pdf"
    return "application/xml" if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") else "application/octet-stream"


def enter(tx: Tx, arrival: Arrival, understood: Understood) -> tuple[PayableRow, bool]:
    """Enters the invoice, unless it is known in this or another form. Returns it, and whether it is new."""
    store.lock(tx, arrival.organization_id)
    file = _keep(tx, arrival)
    known = store.payable_in(tx, arrival.organization_id, file.id)
    if known is not None:
        return known, False
    store.remove_unread(tx, arrival.organization_id, file.id)
    row = _row(tx, arrival, understood, file)
    twins = store.twins(tx, arrival.organization_id, row.identity)
    same = next((twin for twin in twins if twin.total_minor == row.total_minor), None)
    if same is not None:
        store.add_arrival(tx, same, file.id)
        return same, False
    if twins:
        row = row._replace(stops=" ".join(sorted({*row.stops.split(), "number_known"})), status="needs_person")
    store.PAYABLES.insert(tx, row)
    store.add_arrival(tx, row, file.id)
    store.record_step(tx, row, "receive", arrival.user_id, arrival.actor.name, arrival.note)
    emit_received(tx, row)
    return row, True


def _row(tx: Tx, arrival: Arrival, understood: Understood, file: FileRow) -> PayableRow:
    paper, creditor, books = understood.paper, understood.creditor, understood.books
    invoice, ibans = paper.invoice, ibans_of(paper.invoice)
    konto = creditor.konto if creditor else ""
    known = {*creditor.ibans, *store.paid_to(tx, arrival.organization_id, konto)} if creditor else set[str]()
    stops = ["iban_changed"] if rules.is_changed_iban(ibans, known) else []
    seller, sign = invoice.seller, -1 if invoice.is_credit_note else 1
    issued_on = invoice.issued_on or berlin_date(tx.now)
    return PayableRow(
        organization_id=arrival.organization_id, id=new_id(), status=rules.status_of(konto, stops),
        kind=_KINDS.get(invoice.type_code, "credit_note" if invoice.is_credit_note else "invoice"),
        format=paper.format, profile=paper.profile, number=invoice.number, issue_date=issued_on.isoformat(),
        due_date=_due(invoice), currency_code=invoice.currency,
        total_minor=sign * (invoice.totals.gross_minor or 0), payable_minor=sign * (invoice.totals.due_minor or 0),
        creditor_name=seller.name, creditor_vat_id=seller.vat_id or "", creditor_tax_number=seller.tax_number or "",
        creditor_iban=ibans[0] if ibans else "",
        identity=rules.identity(seller.vat_id or "", seller.tax_number or "", seller.name, invoice.number, issued_on),
        connection_id=books.connection_id if books else "", client_id=books.client.client_id if books else "",
        konto=konto, stops=" ".join(stops), hold_until=None, means_code=invoice.payment.means_code or "",
        invoice=_stored(invoice), terms=_terms(invoice, issued_on),
        findings=_json(paper.findings), warnings=_json(_warnings(understood)), proposal=_proposal_json(understood.proposal),
        file_id=file.id, document_guid=str(uuid.uuid4()),
        payment_id=None, match_id=None, created_at=tx.now, updated_at=tx.now, rule_sets=_json(paper.rule_sets),
    )  # fmt: skip


def _due(invoice: Invoice) -> str | None:
    return invoice.payment.due_on.isoformat() if invoice.payment.due_on else None


def _stored(invoice: Invoice) -> str:
    """The invoice as JSON, without the bytes of its attachments: the file has them."""
    attachments = [one._replace(content=None) for one in invoice.attachments]
    return _json(invoice._replace(attachments=attachments))


def _terms(invoice: Invoice, issued_on: date) -> str:
    found = rules.skonto_of(invoice.payment.discounts, issued_on, invoice.totals.due_minor or 0)
    terms = [
        SkontoTerm(percent=one.percent, days=one.days, until=one.until, amount=from_minor(one.amount_minor))
        for one in found
    ]
    return _json(terms)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _proposal_json(proposal: Proposal | None) -> str:
    return _json(None if proposal is None else proposal._asdict())


def _warnings(understood: Understood) -> list[Remark]:
    others = [
        _remark(
            "look_alike", partner, "heißt ebenso und hat eine andere USt-IdNr.", "has the same name and another VAT id."
        )
        for partner in understood.look_alikes
    ]
    alike = [
        _remark(
            "alike",
            partner,
            "heißt ähnlich: Prüfen Sie, ob es derselbe ist.",
            "has a similar name: look whether it is the same.",
        )
        for partner in understood.alike
    ]
    return [*understood.paper.warnings, *others, *alike]


def _remark(code: str, partner: Geschaeftspartner, german: str, english: str) -> Remark:
    name = f"{partner.nummer} {partner.name}"
    return Remark(code, "", Text(f"{name} {german}", f"{name} {english}"))


# A folder that is watched for invoices: a file is taken in once it is complete, and then moved, to `done` or with the
# reason to `refused`.
#
# It is moved after it was taken in, so whoever is killed in between finds it again, and what came in it is known by
# then.


FOLDER = Actor("folder")
DONE, REFUSED = "done", "refused"
# Nobody has written to it for so long: it is complete.
QUIET_SECONDS = 10.0
AT_ONCE = 100
_ENDINGS = (".xml", ".pdf")
# Beginnings and endings of names that programs give to files that they have not finished.
_HIDDEN = (".", "~")
_PARTIAL = (".part", ".partial", ".tmp", ".crdownload", ".filepart")


class Place(NamedTuple):
    """A folder, and the organisation whose invoices are put there."""

    organization_id: str
    path: Path


class Found(NamedTuple):
    place: Place
    path: Path
    size: int


async def take_in(context: Context) -> None:
    """Takes in what lies in the folder of the setting, if there is one."""
    if not context.settings.payables_folder:
        return
    folder = Path(context.settings.payables_folder).expanduser()
    places = await context.db.read(_places, folder)
    for found in await asyncio.to_thread(_complete, places):
        try:
            await _take(context, found)
        except OSError as error:
            # It stays where it is, and is tried again.
            log.warning("invoice_file_not_taken", path=str(found.path), detail=str(error))


def _places(tx: Tx, folder: Path) -> list[Place]:
    """A folder for each organisation, by its id; the only organisation's is the folder itself as well."""
    known = organizations.all_organizations(tx)
    own = [Place(known[0].id, folder)] if len(known) == 1 else []
    return [*own, *(Place(one.id, folder / one.id) for one in known)]


def _complete(places: list[Place]) -> list[Found]:
    """Returns the files that nobody writes to any more, the oldest first."""
    found = [(changed, file) for place in places for changed, file in _files(place)]
    ready = sorted(item for item in found if item[0] <= time.time() - QUIET_SECONDS)
    return [file for _, file in ready[:AT_ONCE]]


def _files(place: Place) -> Iterator[tuple[float, Found]]:
    try:
        entries = list(os.scandir(place.path))
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("invoice_folder_not_read", path=str(place.path), detail=str(error))
        return
    for entry in entries:
        name = entry.name.lower()
        if name.startswith(_HIDDEN) or name.endswith(_PARTIAL) or not entry.is_file(follow_symlinks=False):
            continue
        facts = entry.stat(follow_symlinks=False)
        yield facts.st_mtime, Found(place, Path(entry.path), facts.st_size)


async def _take(context: Context, found: Found) -> None:
    organization_id = found.place.organization_id
    work_for(organization_id)
    if found.path.suffix.lower() not in _ENDINGS:
        await asyncio.to_thread(_refuse, found, "", "Only XML and PDF files are taken.")
        return
    if found.size > MAX_FILE_BYTES:
        await asyncio.to_thread(_refuse, found, "", f"The file is larger than {MAX_FILE_BYTES} bytes.")
        return
    content = await asyncio.to_thread(found.path.read_bytes)
    if len(content) != found.size:
        # Somebody writes to it after all.
        return
    digest = hashlib.sha256(content).hexdigest()
    arrival = Arrival(organization_id, found.path.name, digest, content, FOLDER, "")
    taken = await take(context, Principal(organization_id, "admin", (organization_id,)), arrival)
    if taken.refusal is None:
        await asyncio.to_thread(_move, found, DONE, digest)
        return
    reasons = [str(taken.refusal), *(one.message("de") for one in taken.refusal.findings[:3])]
    await asyncio.to_thread(_refuse, found, digest, "\n".join(reasons))


def _refuse(found: Found, digest: str, reason: str) -> None:
    target = _target(found, REFUSED, digest)
    # First the reason: a file never lies there without one.
    target.with_name(f"{target.name}.reason.txt").write_text(f"{reason}\n", "utf-8")
    found.path.replace(target)


def _move(found: Found, folder: str, digest: str) -> None:
    found.path.replace(_target(found, folder, digest))


def _target(found: Found, folder: str, digest: str) -> Path:
    """Returns a name that no other file has; one of the same content may be replaced."""
    target = found.place.path / folder / found.path.name
    target.parent.mkdir(exist_ok=True)
    number = 1
    while target.exists():
        mark = digest[:12] or str(number)
        target = target.with_name(f"{found.path.stem}-{mark}{found.path.suffix}")
        if digest:
            break
        number += 1
    return target
