"""Payments and open items: what waits to be matched, one after the other, with proposals to confirm or reject."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

from msgspec import Struct
from starlette.responses import Response

from kontobahn import log
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.dashboard import bank_words, books, figures, form_keys
from kontobahn.dashboard.books import plain
from kontobahn.dashboard.declare import ROOT, action, numeric, page
from kontobahn.dashboard.lists import MAX_TYPED, PAGE_SIZE, Filters, Rows
from kontobahn.dashboard.pages.open_items import amount_words
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import KontobahnError, NotFound
from kontobahn.ledger.connections import open_books
from kontobahn.ledger.faelligkeiten import FaelligerPosten, Faelligkeiten
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.opos import OposSelection
from kontobahn.reconciliation import matches, runs, store, transactions
from kontobahn.reconciliation.core.model import LineKind
from kontobahn.reconciliation.matches import MAX_CONFIRMATIONS, NewConfirmations, NewMatch, NewMatchLine, NewMatchUndo
from kontobahn.reconciliation.runs import NewRun
from kontobahn.reconciliation.store import AccountSettings, ProposalRow
from kontobahn.reconciliation.transactions import (
    NewTransactionStatus,
    ReconciledTransaction,
    ReconciledTransactionsQuery,
    ReconciledTransactionWithProposals,
)
from kontobahn.reconciliation.wire import MatchProposal, proposal_view

PATH = f"{ROOT}/reconciliation"
# Transactions listed beside the one being viewed, and accounts that are asked for their open items.
SHOWN_BESIDE = 30
MAX_CANDIDATES = 10
MAX_ACCOUNTS = 6


class MatchFilters(Struct):
    account: str = ""
    state: Literal["proposed", "open", "matched", "ignored", "booked"] = "proposed"


class ByHand(Struct):
    """One line of a match, and a second one for the rest."""

    kind: LineKind
    konto: str
    amount: Decimal
    beleg: str = ""
    skonto: Decimal | None = None
    kind2: LineKind = "on_account"
    konto2: str = ""
    beleg2: str = ""
    amount2: Decimal | None = None


class Chosen(NamedTuple):
    """The bank accounts that are set up, with the one that is looked at."""

    settings: list[AccountSettings]
    names: dict[str, str]
    account_id: int | None
    counts: dict[str, int]


@page("/reconciliation", poll=15, help="matching")
async def reconciliation_list(visit: Visit) -> Response:
    filters = visit.filters(MatchFilters)
    chosen = await visit.read(_chosen, visit.organization_id, filters.wanted.account)
    if "state" not in filters.form and not chosen.counts.get("proposed") and chosen.counts.get("open"):
        # Nobody is shown an empty list while something waits.
        filters.wanted.state = "open"
    found: list[Any] = []
    if chosen.account_id is not None and filters.wanted.state == "proposed":
        found = await visit.read(_best_first, visit.organization_id, chosen.account_id, filters.place())
    elif chosen.account_id is not None:
        after = filters.after if filters.after.isdigit() and len(filters.after) < 19 else None
        query = ReconciledTransactionsQuery(
            status=filters.wanted.state, account_id=str(chosen.account_id), from_id=after, limit=PAGE_SIZE + 1
        )
        found = (await visit.ask(transactions.list_reconciled_transactions, query=query)).data
    return visit.show(
        "reconciliation.html",
        filters=filters,
        chosen=chosen,
        list=_page_of(filters, found),
        words=bank_words,
        once_field=form_keys.FIELD,
        once_key=visit.form.text(form_keys.FIELD) or form_keys.new_key(),
    )


def _best_first(tx: Tx, organization_id: str, account_id: int, place: int) -> list[ReconciledTransaction]:
    ids = store.best_first(tx, organization_id, account_id, place, PAGE_SIZE + 1)
    return transactions.views_of(tx, organization_id, ids)


def _page_of(filters: Filters[MatchFilters], found: list[Any]) -> Rows[Any]:
    """Rows in the order of their proposals have a number as their place, others their id."""
    place = filters.place() + PAGE_SIZE
    return filters.first_page(found, lambda row: place if filters.wanted.state == "proposed" else row.id)


def _chosen(tx: Tx, organization_id: str, wanted: str) -> Chosen:
    settings = store.all_settings(tx, organization_id)
    rows: dict[int, AccountRow] = {row.id: row for row in accounts.of_organization(tx, organization_id)}
    names = {str(one.account_id): rows[one.account_id].name for one in settings if one.account_id in rows}
    counts = {int(number): store.count_by_state(tx, organization_id, int(number)) for number in names}
    # The one that was asked for; else the first on which something waits.
    ordered = sorted(counts, key=lambda number: (str(number) != wanted, not _waiting(counts[number])))
    chosen = ordered[0] if ordered else None
    return Chosen(settings, names, chosen, {} if chosen is None else counts[chosen])


def _waiting(counts: Mapping[str, int]) -> int:
    return counts.get("proposed", 0) + counts.get("open", 0)


@action("/reconciliation")
async def make_run(visit: Visit) -> Response:
    """Looks at the account's transactions once more."""
    with visit.form.refusals():
        body = NewRun(account_id=numeric(visit.form.text("account")), trial=False, limit=0)
        await form_keys.ask_once(visit, runs.run_matching, body=body)
        counts = await visit.read(store.count_by_state, visit.organization_id, int(body.account_id))
        waits = _waiting(counts)
        text = ngettext("One transaction waits for you.", "%(num)s transactions wait for you.", waits)
        return visit.redirect(f"{PATH}?account={body.account_id}", text if waits else _("Nothing is left to match."))
    response: Response = await reconciliation_list.handler(visit)
    return response


# --- One transaction


@page("/reconciliation/{id}", help="matching")
async def reconciled_transaction(visit: Visit, id: str) -> Response:
    found: ReconciledTransactionWithProposals = (
        await visit.ask(transactions.get_reconciled_transaction, id=numeric(id))
    ).data
    beside = await visit.read(_beside, visit.organization_id, found)
    waiting = [one for one in found.proposals if one.status == "open"]
    live = next((one for one in found.matches if one.undo is None), None)
    written = await _writer(visit, found.account_id)
    others = await _others(visit, found, beside)
    return visit.show(
        "reconciled_transaction.html",
        found=found,
        waiting=waiting,
        live=live,
        text=bank_words.marked(found.purpose or "", waiting[0].reasons if waiting else []),
        beside=beside,
        others=others,
        items=await _items(visit, found.account_id, waiting),
        search=(visit.query.get("find") or [""])[-1],
        candidates=await _candidates(visit, found, written),
        hand=_by_hand(visit, waiting, written),
        written=written,
        rule_from=_rule_from(found),
        words=bank_words,
        kinds=[(kind, _(words)) for kind, words in bank_words.MATCH_KINDS.items() if kind != "skonto"],
    )


async def _others(
    visit: Visit, found: ReconciledTransactionWithProposals, beside: store.Neighbours
) -> list[ReconciledTransaction]:
    """Returns the transactions listed beside this one: those before and after it in the same list."""
    if found.status == "proposed":
        return await visit.read(_beside_best_first, visit.organization_id, int(found.account_id), int(found.id))
    query = ReconciledTransactionsQuery(
        status=found.status, account_id=found.account_id, limit=SHOWN_BESIDE,
        from_id=str(beside.first) if beside.first is not None else None,
    )  # fmt: skip
    listed: list[ReconciledTransaction] = (await visit.ask(transactions.list_reconciled_transactions, query=query)).data
    return listed


def _beside_best_first(
    tx: Tx, organization_id: str, account_id: int, transaction_id: int
) -> list[ReconciledTransaction]:
    ids = store.best_first(tx, organization_id, account_id, 0, store.MAX_COUNTED)
    at = ids.index(transaction_id) if transaction_id in ids else 0
    first = max(at - store.LISTED_BEFORE, 0)
    return transactions.views_of(tx, organization_id, ids[first : first + SHOWN_BESIDE])


class Candidate(NamedTuple):
    """An open item that was searched for, and the address of the form with it filled in."""

    konto: str
    name: str
    item: FaelligerPosten
    url: str


async def _candidates(
    visit: Visit, found: ReconciledTransactionWithProposals, written: Callable[[str], str]
) -> list[Candidate]:
    """Returns open items by number, amount or name; without a search, none."""
    words = (visit.query.get("find") or [""])[-1][:MAX_TYPED].casefold().split()
    settings = await visit.read(store.account_settings, visit.organization_id, int(found.account_id))
    if not words or settings is None:
        return []
    access = await open_books(visit.context, visit.principal, settings.connection_id, settings.client_id)
    async with access.to("buchungen") as opened:
        known = await opened.faelligkeiten(OposSelection(visit.today, "all", "reconcile", None))
    return await visit.off_loop(_fitting, known, words, found, written)


def _fitting(
    known: Faelligkeiten, words: list[str], found: ReconciledTransactionWithProposals, written: Callable[[str], str]
) -> list[Candidate]:
    fitting = []
    for konto in plain(known, Faelligkeiten).konten:
        for item in konto.posten:
            number, amount = written(konto.kontonummer), amount_words(abs(item.saldo))
            text = f"{number} {konto.bezeichnung} {item.beleg} {item.buchungstext} {amount}".casefold()
            if not item.beleg or not all(word in text for word in words):
                continue
            # No line takes more than is open, nor more than was paid.
            paid = min(abs(found.amount or item.saldo), abs(item.saldo)).copy_sign(found.amount or item.saldo)
            query = urlencode({"konto": number, "beleg": item.beleg, "amount": figures.plain_amount(paid)})
            fitting.append(Candidate(number, konto.bezeichnung, item, f"{PATH}/{found.id}?{query}#by-hand"))
            if len(fitting) == MAX_CANDIDATES:
                return fitting
    return fitting


async def _writer(visit: Visit, account_id: str) -> Callable[[str], str]:
    """Returns a function that writes ledger and person accounts as the client of this bank account does."""
    settings = await visit.read(store.account_settings, visit.organization_id, int(account_id))
    return str if settings is None else await books.writer(visit, settings.connection_id, settings.client_id)


def _by_hand(visit: Visit, waiting: list[MatchProposal], written: Callable[[str], str]) -> dict[str, str]:
    """Returns the first values of the form for a match by hand: with `?hand=on_account`, on account of the person that is proposed."""
    lines = [line for one in waiting for line in one.lines if line.kind in ("item", "on_account")]
    if visit.query.get("hand") == ["on_account"]:
        konto = written(lines[0].konto) if lines else ""
        return {"kind": "on_account", "konto": konto, "beleg": "", "amount": ""}
    filled = {name: (visit.query.get(name) or [""])[-1] for name in ("konto", "beleg", "amount")}
    return {"kind": "item", **filled}


def _rule_from(found: ReconciledTransactionWithProposals) -> str:
    """The address of a new rule that would fit this transaction: by its IBAN, or by its name."""
    said = {"name": (found.name or "")[:100], "direction": "in" if (found.amount or 0) > 0 else "out"}
    return urlencode({**said, **({"iban": found.iban} if found.iban else {"text": found.name or ""})})


Items = dict[tuple[str, str], FaelligerPosten]


async def _items(visit: Visit, account_id: str, waiting: list[MatchProposal]) -> Items:
    """Due date and open amount of the documents that are proposed, as the books show them now; without books, none."""
    konten = {line.konto for one in waiting for line in one.lines if line.kind == "item"}
    settings = await visit.read(store.account_settings, visit.organization_id, int(account_id)) if konten else None
    if settings is None:
        return {}
    try:
        async with asyncio.timeout(books.BOOKS_SECONDS):
            access = await open_books(visit.context, visit.principal, settings.connection_id, settings.client_id)
            async with access.to("buchungen") as opened:
                found = [
                    await opened.faelligkeiten(OposSelection(visit.today, "all", "reconcile", konto))
                    for konto in sorted(konten)[:MAX_ACCOUNTS]
                    if is_personenkonto(konto)
                ]
    except (KontobahnError, TimeoutError) as error:
        log.info("matching_without_books", account_id=account_id, detail=str(error) or "too slow")
        return {}
    konten_found = [konto for one in found for konto in one.konten]
    return {(konto.kontonummer, posten.beleg): posten for konto in konten_found for posten in konto.posten}


def _beside(tx: Tx, organization_id: str, found: ReconciledTransactionWithProposals) -> store.Neighbours:
    return _neighbours(tx, organization_id, int(found.account_id), int(found.id), found.status)


def _neighbours(tx: Tx, organization_id: str, account_id: int, id: int, state: str) -> store.Neighbours:
    if state == "proposed":
        return store.best_first_neighbours(tx, organization_id, account_id, id)
    return store.neighbours(tx, organization_id, account_id, id, state)


async def _after(visit: Visit, id: str) -> str:
    """Returns the address of what comes after this transaction in its list, as it is before something is done with it."""
    row = await visit.read(transactions.find, visit.principal, numeric(id))
    beside = await visit.read(_neighbours, row.organization_id, row.account_id, row.id, row.state)
    after = beside.after or beside.before
    return f"{PATH}/{after}" if after else f"{PATH}?account={row.account_id}&state={row.state}"


@action("/reconciliation/{id}/confirm")
async def confirm_match(visit: Visit, id: str) -> Response:
    after = await _after(visit, id)
    with visit.form.refusals():
        await visit.ask(matches.confirm_proposal, id=visit.form.text("proposal"))
        return visit.redirect(after, _("The payment is matched."))
    return await _again(visit, id)


@action("/reconciliation/{id}/reject")
async def reject_match(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.ask(matches.reject_proposal, id=visit.form.text("proposal"))
        return visit.redirect(f"{PATH}/{numeric(id)}", _("This is not proposed again."))
    return await _again(visit, id)


@action("/reconciliation/{id}/leave-out")
async def leave_out(visit: Visit, id: str) -> Response:
    status: Literal["ignored", "open"] = "open" if visit.form.text("status") == "open" else "ignored"
    after = await _after(visit, id)
    with visit.form.refusals():
        await visit.ask(transactions.set_transaction_status, id=numeric(id), body=NewTransactionStatus(status=status))
        if status == "open":
            return visit.redirect(f"{PATH}/{numeric(id)}", _("The transaction is looked at again."))
        return visit.redirect(after, _("The transaction is left out."))
    return await _again(visit, id)


@action("/reconciliation/{id}/undo")
async def undo_match(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        body = NewMatchUndo(reason=visit.form.text("reason")[:500])
        await visit.ask(matches.undo_match, id=visit.form.text("match"), body=body)
        return visit.redirect(f"{PATH}/{numeric(id)}", _("The match is undone."))
    return await _again(visit, id)


@action("/reconciliation/{id}/by-hand")
async def match_by_hand(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(ByHand)
    if wanted is not None:
        lines = [
            NewMatchLine(
                kind=wanted.kind, konto=wanted.konto, beleg=wanted.beleg, amount=wanted.amount,
                skonto=wanted.skonto,
            )
        ]  # fmt: skip
        if wanted.amount2 is not None:
            lines.append(
                NewMatchLine(kind=wanted.kind2, konto=wanted.konto2 or None, beleg=wanted.beleg2, amount=wanted.amount2)
            )
        names = {
            f"lines[{n}].{name}": name + mark
            for n, mark in ((0, ""), (1, "2"))
            for name in NewMatchLine.__struct_fields__
        }
        after = await _after(visit, id)
        with visit.form.refusals(**names):
            await _check_known(visit, id, lines)
            await visit.ask(matches.create_match, body=NewMatch(transaction_id=numeric(id), lines=lines))
            return visit.redirect(after, _("The payment is matched."))
    return await _again(visit, id)


async def _check_known(visit: Visit, id: str, lines: list[NewMatchLine]) -> None:
    row = await visit.read(transactions.find, visit.principal, numeric(id))
    settings = await visit.read(store.account_settings, row.organization_id, row.account_id)
    if settings is not None:
        named = {f"lines[{place}].konto": line.konto for place, line in enumerate(lines)}
        await books.check_known(visit, settings.connection_id, settings.client_id, named)


async def _again(visit: Visit, id: str) -> Response:
    response: Response = await reconciled_transaction.handler(visit, id)
    return response


# --- All that is clear, at once


@page("/reconciliation/all-clear/{account}", help="matching")
async def all_clear(visit: Visit, account: str) -> Response:
    found = await visit.read(_sure, visit, int(numeric(account)))
    ids = [int(row.transaction_id) for row in found]
    paid = {one.id: one for one in await visit.read(transactions.views_of, visit.organization_id, ids)}
    amounts = [sum((line.amount for line in row.lines), Decimal()) for row in found]
    return visit.show(
        "reconciliation_clear.html", found=found, paid=paid, account=account, words=bank_words,
        total=sum(amounts, Decimal()), came=sum((one for one in amounts if one > 0), Decimal()),
        went=sum((one for one in amounts if one < 0), Decimal()), written=await _writer(visit, account),
    )  # fmt: skip


def _sure(tx: Tx, visit: Visit, account_id: int) -> list[MatchProposal]:
    if account_id not in {row.account_id for row in store.all_settings(tx, visit.organization_id)}:
        raise NotFound("There is no such page.")
    rows: list[ProposalRow] = store.sufficient_proposals(tx, visit.organization_id, account_id, MAX_CONFIRMATIONS)
    return [proposal_view(row) for row in rows]


@action("/reconciliation/all-clear/{account}")
async def confirm_all_clear(visit: Visit, account: str) -> Response:
    await visit.read(_sure, visit, int(numeric(account)))
    with visit.form.refusals():
        body = NewConfirmations(ids=visit.form.all("proposal")[:MAX_CONFIRMATIONS])
        answers = (await visit.ask(matches.confirm_proposals, body=body)).data
        done = sum(one.match_id is not None for one in answers)
        text = ngettext("One payment is matched.", "%(num)s payments are matched.", done)
        if done < len(answers):
            text += " " + _("%(count)s were refused: they have changed meanwhile.", count=len(answers) - done)
        return visit.redirect(f"{PATH}?account={numeric(account)}", text, "good" if done == len(answers) else "bad")
    response: Response = await all_clear.handler(visit, account)
    return response
