"""Files that no invoice could be read from: looked at, and typed as an invoice beside the file, or set aside."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from starlette.responses import Response

from kontobahn.dashboard import figures, words
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.pages.payables import MAX_ID_LENGTH
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.formats.invoices.findings import Finding
from kontobahn.formats.invoices.proposals import Proposal
from kontobahn.payables import by_hand, routes, store, unread
from kontobahn.payables.by_hand import NewPayable
from kontobahn.payables.store import FileRow
from kontobahn.payables.unread import UnreadRow

PATH = f"{ROOT}/payables"
KINDS = {"invoice": N_("Invoice"), "credit_note": N_("Credit note")}


class Facts(NamedTuple):
    file: FileRow
    waiting: UnreadRow | None
    payable_id: str


@page("/payables/files/{id}", help="payables-by-hand")
async def unread_file(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit, id)
    if facts.payable_id:
        return visit.redirect(f"{PATH}/{facts.payable_id}")
    proposal = facts.waiting.proposed if facts.waiting else unread.NOTHING
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


def _facts(tx: Tx, visit: Visit, file_id: str) -> Facts:
    if len(file_id) > MAX_ID_LENGTH:
        raise NotFound("File not found.")
    file = store.find_file(tx, visit.principal, file_id)
    payable = store.payable_in(tx, file.organization_id, file.id)
    return Facts(file, unread.find(tx, file.organization_id, file.id), payable.id if payable else "")


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
    facts = await visit.read(_facts, visit, id)
    await visit.write(unread.remove, facts.file.organization_id, facts.file.id)
    return visit.redirect(PATH, _("The file is set aside. It is kept."))
