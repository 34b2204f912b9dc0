"""The tools: questions by task, and what an assistant may prepare. Each is answered by calls of the API, with the rights of the key.

The list of tools is short and in a fixed order, so that it costs an assistant little and stays in its cache.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from kontobahn.access.principal import Role, Scope
from kontobahn.assistants.grants import Preset
from kontobahn.mcp.answers import Format, Listing, amount, bounded, foreign, quoted, render, total
from kontobahn.mcp.channel import Caller

# Payments that a search looks through, the latest first.
SEARCHED = 1000
# Lines of one kind among what waits for a person.
SHOWN = 20


class BadArgument(Exception):
    """An argument that cannot be used, with a sentence that says what to send instead."""


class Arguments(Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class Paged(Arguments, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, Meta(pattern="^[0-9]{0,9}$", description="next_cursor of the answer before")] = ""
    format: Format = "table"


ClientId = Annotated[str, Meta(max_length=20, description="from `access`; needed if there are several clients")]


class OfBooks(Arguments, kw_only=True):
    client_id: ClientId = ""


class PagedOfBooks(Paged, kw_only=True):
    client_id: ClientId = ""


class Tool(NamedTuple):
    name: str
    title: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Caller, Any], Awaitable[str]]
    # The key must have one of these scopes, this one as well, and this role at least.
    scopes: tuple[Scope, ...]
    also_scope: Scope | None
    role: Role
    preset: Preset
    # Its effect can be undone, or waits for a person.
    is_undoable: bool
    reaches_out: bool

    @property
    def only_reads(self) -> bool:
        return self.preset == "read"

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments, without titles, which repeat the names."""
        described: dict[str, Any] = msgspec.json.schema(self.arguments)["$defs"][self.arguments.__name__]
        described.pop("title", None)
        return described


TOOLS: list[Tool] = []


def tool(
    title: str,
    *scopes: Scope,
    also_scope: Scope | None = None,
    preset: Preset = "read",
    role: Role = "read_only",
    is_undoable: bool = True,
    reaches_out: bool = False,
) -> Callable[[Callable[[Caller, Any], Awaitable[str]]], Callable[[Caller, Any], Awaitable[str]]]:
    """Adds a function to the tools: its name, its docstring and the type of its second argument are what the assistant sees."""

    def add(run: Callable[[Caller, Any], Awaitable[str]]) -> Callable[[Caller, Any], Awaitable[str]]:
        arguments = globals()[run.__annotations__["args"]]
        description = " ".join((run.__doc__ or "").split())
        own = run.__name__, title, description, arguments, run
        TOOLS.append(Tool(*own, scopes, also_scope, role, preset, is_undoable, reaches_out))
        return run

    return add


def _show(listing: Listing, args: Paged, caller: Caller) -> str:
    if caller.credits:
        listing = listing._replace(notes=[*listing.notes, f"Credits charged: {caller.credits}."])
    return render(listing, start=int(args.cursor or 0), limit=args.limit, form=args.format)


# --- The caller, and what waits


class AccessArgs(Arguments):
    pass


@tool("Rights and books", "ledger:read", "banking:read", "payables:read")
async def access(caller: Caller, args: AccessArgs) -> str:
    """Tells whose key this is, what it may do, credits left, and the clients whose books can be asked about. Free."""
    found = (await caller.get("/v2/assistants/access"))["data"]
    lines = [
        f"Organisation: {quoted(found['organization'])}",
        f"Role: {found['role']}; scopes: {', '.join(found['scopes']) if found['scopes'] else 'all of the role'}",
        f"Credits left: {found['credits']}",
    ]
    books = await caller.find("/v2/assistants/books")
    for client in books["data"] if books else []:
        years = f"; fiscal years begin {', '.join(client['fiscal_years'])}" if client["fiscal_years"] else ""
        lines.append(f"Client {client['client_id']} {quoted(client['name'])}{years}")
    return bounded(lines)


class AttentionArgs(Arguments):
    pass


@tool("What needs a person", "ledger:read", "banking:read", "payables:read")
async def needs_attention(caller: Caller, args: AttentionArgs) -> str:
    """Lists what waits for a person now: bank sign-ins, payments to authorise or release, received invoices, prepared items,
    unmatched movements. Free."""
    lines: list[str] = []
    connections = await caller.find("/v2/banking/connections")
    for one in connections["data"] if connections else []:
        if one["status"] != "active":
            lines.append(f"Bank connection {quoted(one['provider_name'])}: {one['status']}; sign in again.")
    lines += _some(_payments_that_wait(await caller.find("/v2/banking/payments", limit=SEARCHED)), "payments")
    for status in ("needs_person", "new", "to_release"):
        invoices = await caller.find_every("/v2/payables", status=status, limit=500)
        if invoices:
            sum_of_all = total(one["payable_amount"] for one in invoices)
            lines.append(f"Received invoices, {status}: {len(invoices)}, together {sum_of_all}.")
    prepared = await caller.find_every("/v2/assistants/prepared", state="waiting", limit=500)
    waiting = [
        f"Prepared {one['kind']} {one['id']}: approve it at {one['approval_url']}"
        for one in prepared
        if one["state"] == "waiting"
    ]
    lines += _some(waiting, "prepared items")
    for status in ("open", "proposed"):
        unmatched = await caller.find_every("/v2/reconciliation/transactions", status=status, limit=500)
        if unmatched:
            lines.append(f"Bank movements, {status}: {len(unmatched)}.")
    return bounded(lines) or "Nothing waits for a person."


def _payments_that_wait(payments: Any) -> list[str]:
    lines = []
    for one in payments["data"] if payments else []:
        release = one.get("release")
        if release and release["state"] == "waiting":
            lines.append(f"Payment {one['id']} of {amount(one['amount'])} EUR waits for another person's release.")
        elif one["status"] in ("initiated", "initiated_info_required", "authorizing"):
            lines.append(f"Payment {one['id']} of {amount(one['amount'])} EUR is to be authorised at the bank.")
    return lines


def _some(lines: list[str], what: str) -> list[str]:
    """The first of many lines of a kind, with the number of all."""
    return lines if len(lines) <= SHOWN else [*lines[:SHOWN], f"These are {SHOWN} of {len(lines)} {what} that wait."]


# --- Money at banks


class BalancesArgs(Paged):
    pass


@tool("Bank balances", "banking:read")
async def balances(caller: Caller, args: BalancesArgs) -> str:
    """Bank accounts with their balances, and the sum by currency. Free."""
    accounts = (await caller.get("/v2/banking/accounts"))["data"]
    sums: dict[str, Decimal] = {}
    for one in accounts:
        if one["balance"] is not None:
            sums[one["currency_code"]] = sums.get(one["currency_code"], Decimal()) + Decimal(str(one["balance"]))
    rows = [
        (
            one["id"], foreign(one["name"]), one["extra"]["iban"] or "",
            "not known" if one["balance"] is None else amount(one["balance"]), one["currency_code"],
            "sandbox" if one["extra"].get("is_sandbox") else "",
        )
        for one in accounts
    ]  # fmt: skip
    totals = {f"total {currency}": amount(value) for currency, value in sorted(sums.items())}
    return _show(Listing(("account_id", "name", "iban", "balance", "currency", "note"), rows, totals), args, caller)


class MovementsArgs(Paged):
    from_date: date
    to_date: date
    account_id: Annotated[str, Meta(pattern="^[0-9]{0,18}$", description="all accounts when empty")] = ""
    search: Annotated[str, Meta(max_length=100, description="in name, purpose and amount")] = ""
    direction: Literal["all", "in", "out"] = "all"


@tool("Bank movements", "banking:read")
async def movements(caller: Caller, args: MovementsArgs) -> str:
    """Bank movements between two days, newest first, with sums in and out over all of them. 1 credit per account."""
    ids = (
        [args.account_id]
        if args.account_id
        else [one["id"] for one in (await caller.get("/v2/banking/accounts"))["data"]]
    )
    found: list[dict[str, Any]] = []
    for account_id in ids:
        rows_of_account = await caller.every(
            "/v2/banking/transactions", account_id=account_id, from_date=args.from_date, to_date=args.to_date
        )
        found += [one for one in rows_of_account if not one["duplicated"]]
    rows: list[tuple[Any, ...]] = []
    sums: dict[str, dict[str, Decimal]] = {}
    for one in sorted(found, key=lambda one: (one["made_on"], int(one["id"])), reverse=True):
        value, extra = Decimal(str(one["amount"])), one["extra"]
        name = extra.get("payer") if value > 0 else extra.get("payee")
        if (args.direction == "in" and value <= 0) or (args.direction == "out" and value >= 0):
            continue
        if args.search and args.search.lower() not in f"{name or ''} {one['description']} {amount(value)}".lower():
            continue
        side = sums.setdefault(one["currency_code"], {"in": Decimal(), "out": Decimal()})
        side["in" if value > 0 else "out"] += value
        rows.append(
            (
                one["id"],
                one["made_on"],
                amount(value),
                one["currency_code"],
                foreign(name),
                foreign(one["description_parsed"].get("svwz") or one["description"]),
            )
        )
    totals = {f"{currency} {side}": amount(value) for currency, both in sums.items() for side, value in both.items()}
    columns = ("id", "day", "amount", "currency", "name", "purpose")
    return _show(Listing(columns, rows, totals), args, caller)


class PaymentStatusArgs(Arguments):
    payment_id: Annotated[str, Meta(pattern="^[0-9]{0,18}$")] = ""
    search: Annotated[str, Meta(max_length=100, description="payee, IBAN, reference, amount")] = ""


@tool("Where is a payment", "banking:read", "payments")
async def payment_status(caller: Caller, args: PaymentStatusArgs) -> str:
    """Tells where a payment is: its status and every step, by id; or the latest payments that fit a search. Free."""
    if args.payment_id:
        # As it is stored: a call for one payment asks the bank, and fails with it.
        before = str(int(args.payment_id) - 1) if int(args.payment_id) else None
        rows = (await caller.get("/v2/banking/payments", sort="id", from_id=before, limit=1))["data"]
        if not rows or rows[0]["id"] != str(int(args.payment_id)):
            raise BadArgument("There is no payment with this id. Search by payee or amount instead.")
        steps = (await caller.get(f"/v2/banking/payments/{args.payment_id}/history"))["data"]
        lines = [_payment_line(rows[0])]
        lines += [
            f"{one['at']}: {one['status'] or one['outcome']} {one['error_class'] or ''}".rstrip() for one in steps
        ]
        return bounded(lines)
    wanted = args.search.lower()
    latest = (await caller.get("/v2/banking/payments", limit=SEARCHED))["data"]
    found = [
        one
        for one in latest
        if wanted
        in f"{one['creditor_name']} {one['creditor_iban']} {one['reference'] or ''} {amount(one['amount'])}".lower()
    ]
    lines = [_payment_line(one) for one in found[:20]] or ["No payment fits."]
    if len(found) > 20:
        lines.append(f"These are the latest 20 of {len(found)} that fit.")
    if len(latest) == SEARCHED:
        lines.append(f"The latest {SEARCHED} payments were searched. An earlier one is found by its id.")
    return bounded(lines)


def _payment_line(one: dict[str, Any]) -> str:
    payee = f"{quoted(one['creditor_name'])} {one['creditor_iban']}"
    return f"Payment {one['id']}: {one['status']}, {amount(one['amount'])} {one['currency_code']} to {payee}"


# --- The books


async def _books(caller: Caller, client_id: str) -> dict[str, Any]:
    """Returns the books asked for, or the only ones there are, with their fiscal years."""
    found = (await caller.get("/v2/assistants/books", client_id=client_id or None))["data"]
    if len(found) == 1:
        return dict(found[0])
    if not found and client_id:
        raise BadArgument(
            "There is no client with this client_id, or you may not see it. Ask `access` for those there are."
        )
    if not found:
        raise BadArgument("There are no books. They are made or connected in the dashboard, under Books.")
    names = "; ".join(f"{one['client_id']} {quoted(one['name'])}" for one in found[:20])
    raise BadArgument(f"There are several clients. Send client_id: {names}.")


def _where(books: dict[str, Any]) -> dict[str, Any]:
    return {"connectionId": books["connection_id"], "clientId": books["client_id"]}


def _year_of(books: dict[str, Any], day: date) -> str:
    """Returns the first day of the fiscal year that the day lies in."""
    for start in books["fiscal_years"] or []:
        if start <= day.isoformat():
            return str(start)
    raise BadArgument(f"No fiscal year of these books begins on or before {day}.")


class OpenItemsArgs(PagedOfBooks, kw_only=True):
    side: Literal["customers", "suppliers"] = "customers"
    due: Literal["all", "overdue"] = "all"
    partner: Annotated[str, Meta(max_length=100, description="part of a name, or an account number")] = ""
    by: Literal["item", "partner"] = "item"


@tool("Who owes what", "ledger:read")
async def open_items(caller: Caller, args: OpenItemsArgs) -> str:
    """Open items with due dates: who owes us (customers) or whom we owe (suppliers), overdue or all, by item or partner.
    Totals are over all rows. 5 credits."""
    books = await _books(caller, args.client_id)
    side = "debitors" if args.side == "customers" else "creditors"
    found = (await caller.get("/v2/ledger-rewe-read/faelligkeiten", filter=side, **_where(books)))["data"]
    items: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (konto, posten)
        for konto in found["konten"]
        if args.partner.lower() in f"{konto['bezeichnung']} {konto['kontonummer']}".lower()
        for posten in konto["posten"]
        if args.due == "all" or posten["tageUeberfaellig"] > 0
    ]
    totals: dict[str, Any] = {
        "total": total(posten["saldo"] for _konto, posten in items),
        "of which overdue": total(posten["saldo"] for _konto, posten in items if posten["tageUeberfaellig"] > 0),
        "as of": found["stichtag"],
    }
    if args.by == "partner":
        sums: dict[tuple[str, str], list[Decimal]] = {}
        for konto, posten in items:
            both = sums.setdefault((konto["kontonummer"], konto["bezeichnung"]), [Decimal(), Decimal()])
            both[0] += Decimal(str(posten["saldo"]))
            both[1] += Decimal(str(posten["saldo"])) if posten["tageUeberfaellig"] > 0 else 0
        ranked = sorted(sums.items(), key=lambda one: (-abs(one[1][0]), one[0]))
        rows: list[tuple[Any, ...]] = [
            (nummer, foreign(name), amount(both[0]), amount(both[1])) for (nummer, name), both in ranked
        ]
        return _show(Listing(("konto", "name", "balance", "overdue"), rows, totals), args, caller)
    rows = [
        (
            konto["kontonummer"], foreign(konto["bezeichnung"]), posten["beleg"], posten["belegdatum"],
            posten["faelligAm"], posten["tageUeberfaellig"], amount(posten["saldo"]), foreign(posten["buchungstext"]),
        )
        for konto, posten in sorted(items, key=lambda one: (one[1]["faelligAm"], one[0]["kontonummer"], one[1]["beleg"]))
    ]  # fmt: skip
    columns = ("konto", "name", "document", "date", "due", "days_overdue", "balance", "text")
    return _show(Listing(columns, rows, totals), args, caller)


class VatAndProfitArgs(OfBooks):
    from_date: date
    to_date: date


@tool("VAT and profit of a period", "ledger:read")
async def vat_and_profit(caller: Caller, args: VatAndProfitArgs) -> str:
    """VAT by kind and rate, and profit and loss by line, for a period of whole months within one fiscal year. 2 credits."""
    books = await _books(caller, args.client_id)
    year = _year_of(books, args.from_date)
    first, last = _period(year, args.from_date), _period(year, args.to_date)
    if args.to_date < args.from_date or not 1 <= first <= last <= 12:
        raise BadArgument("Send a period within one fiscal year: from_date not after to_date.")
    asked = {"geschaeftsjahrStartDatum": year, **_where(books)}
    vat = (
        await caller.get(
            "/v2/ledger-rewe-read/umsatzsteuer", vonDatum=args.from_date, bisDatum=args.to_date, **asked
        )
    )["data"]  # fmt: skip
    profit = (await caller.get("/v2/ledger-rewe-read/bwa", bisPeriode=last, **asked))["data"]
    lines = [f"VAT {vat['vonDatum']} to {vat['bisDatum']}"]
    lines += [
        f"{one['art']} {one['prozent']} %: base {amount(one['bemessungsgrundlage'])},"
        f" output {amount(one['umsatzsteuer'])}, input {amount(one['vorsteuer'])}, bookings {one['anzahl']}"
        for one in vat["zeilen"]
    ]
    output = Decimal(str(vat["summeUmsatzsteuer"])) + Decimal(str(vat["direktUmsatzsteuer"]))
    paid = Decimal(str(vat["summeVorsteuer"])) + Decimal(str(vat["direktVorsteuer"]))
    lines.append(f"Output tax {amount(output)}, input tax {amount(paid)}, to pay {amount(output - paid)}")
    lines.append(f"Profit and loss, periods {first} to {last} of the fiscal year from {year}")
    for one in profit["zeilen"]:
        lines.append(f"{one['bezeichnung']}: {total(one['perioden'][first - 1 : last])}")
    lines.append(f"Credits charged: {caller.credits}.")
    return bounded(lines)


def _period(year: str, day: date) -> int:
    start = date.fromisoformat(year)
    return (day.year - start.year) * 12 + day.month - start.month + 1


class AccountHistoryArgs(PagedOfBooks, kw_only=True):
    konto: Annotated[str, Meta(pattern="^[0-9]{0,9}$", description="account number")] = ""
    document: Annotated[str, Meta(max_length=36, description="document number")] = ""
    from_date: date
    to_date: date


@tool("Account or document history", "ledger:read")
async def account_history(caller: Caller, args: AccountHistoryArgs) -> str:
    """Bookings of an account, a document number, or both, between two days of one fiscal year, with debit and credit totals.
    1 credit."""
    if not args.konto and not args.document:
        raise BadArgument("Send konto, document, or both.")
    books = await _books(caller, args.client_id)
    answer = await caller.get(
        "/v2/ledger-rewe-read/buchungen", geschaeftsjahrStartDatum=_year_of(books, args.from_date), **_where(books)
    )
    rows: list[tuple[Any, ...]] = []
    debit = credit = Decimal()
    for booking in answer["data"]:
        own = [line for line in booking["buchungszeilen"] if _is_konto(line["kontonummer"], args.konto)]
        lines = own if args.konto else booking["buchungszeilen"][:1]
        for line in lines:
            day = line["belegdatum"][:10]
            if not args.from_date.isoformat() <= day <= args.to_date.isoformat():
                continue
            if args.document and line["belegfeld1"].lower() != args.document.lower():
                continue
            is_first = line is booking["buchungszeilen"][0]
            is_debit = (booking["sollHabenKennzeichen"] == "SOLL") == is_first
            value = Decimal(str(line["umsatz"]))
            debit, credit = debit + (value if is_debit else 0), credit + (0 if is_debit else value)
            others = ", ".join(one["kontonummer"] for one in booking["buchungszeilen"] if one is not line)
            rows.append(
                (day, line["belegfeld1"], line["kontonummer"], others, amount(value) if is_debit else "",
                 "" if is_debit else amount(value), foreign(booking["buchungstext"]))
            )  # fmt: skip
    rows.sort(key=lambda row: (row[0], row[1]))
    totals = {"debit": amount(debit), "credit": amount(credit), "balance": amount(debit - credit)}
    columns = ("day", "document", "konto", "against", "debit", "credit", "text")
    return _show(Listing(columns, rows, totals), args, caller)


def _is_konto(written: str, wanted: str) -> bool:
    """Compares account numbers as people write them: 1200 is 12000000."""
    return written.rstrip("0") == wanted.rstrip("0") if wanted else False


# --- Matching, received invoices


class UnmatchedArgs(Paged):
    pass


@tool("Unmatched bank movements", "ledger:read", also_scope="banking:read")
async def unmatched_movements(caller: Caller, args: UnmatchedArgs) -> str:
    """Bank movements that no invoice was found for, with the best proposal, its class (A1 best) and why. Free."""
    found = [
        one
        for status in ("proposed", "open")
        for one in await caller.every("/v2/reconciliation/transactions", status=status, limit=500)
        if one["amount"] is not None
    ]
    rows = []
    for one in found:
        best = one["best_proposal"]
        lines = (
            ", ".join(f"{line['konto']} {line['beleg']} {amount(line['amount'])}" for line in best["lines"])
            if best
            else ""
        )
        why = ", ".join(reason["signal"] for reason in best["reasons"]) if best else ""
        rows.append(
            (one["id"], one["made_on"], amount(one["amount"]), foreign(one["name"]), foreign(one["purpose"]),
             best["id"] if best else "", best["evidence_class"] if best else "", lines, why)
        )  # fmt: skip
    totals = {
        "in": total(one["amount"] for one in found if Decimal(str(one["amount"])) > 0),
        "out": total(one["amount"] for one in found if Decimal(str(one["amount"])) < 0),
    }
    columns = ("id", "day", "amount", "name", "purpose", "proposal_id", "class", "proposed", "why")
    return _show(Listing(columns, rows, totals), args, caller)


class DecideMatchArgs(Arguments):
    proposal_id: Annotated[str, Meta(pattern="^[0-9a-fA-F-]{36}$")]
    decision: Literal["confirm", "reject"]


@tool("Confirm or reject a match", "ledger:write", also_scope="banking:read", preset="bookkeeping", role="bookkeeping")
async def decide_match(caller: Caller, args: DecideMatchArgs) -> str:
    """Confirms or rejects a proposal of unmatched_movements. Ask the person first. A confirmed match can be undone in the
    dashboard. Free."""
    answer = (await caller.post(f"/v2/reconciliation/proposals/{args.proposal_id}/{args.decision}", {}))["data"]
    if args.decision == "reject":
        return f"Rejected. The movement {answer['transaction_id']} stays unmatched."
    return f"Confirmed as match {answer['id']}: {amount(answer['amount'])}. It can be undone in the dashboard."


class ReceivedInvoicesArgs(Paged):
    status: Literal["waiting", "new", "to_release", "released", "in_payment", "paid", "rejected", "needs_person"] = (
        "waiting"
    )
    due_before: date | None = None


@tool("Received invoices", "payables:read")
async def received_invoices(caller: Caller, args: ReceivedInvoicesArgs) -> str:
    """Invoices of suppliers: those that wait for somebody, or of one status, with due dates and Skonto. Free."""
    statuses = ("needs_person", "new", "to_release") if args.status == "waiting" else (args.status,)
    found = [
        one
        for status in statuses
        for one in await caller.every("/v2/payables", status=status, due_before=args.due_before, limit=500)
    ]
    rows = [
        (
            one["id"], one["status"], foreign(one["number"]), one["issue_date"], one["due_date"] or "",
            amount(one["payable_amount"]), one["currency_code"], foreign(one["creditor"]["name"]),
            "; ".join(f"{term['percent']} % until {term['until']}" for term in one["terms"]), ", ".join(one["stops"]),
        )
        for one in found
    ]  # fmt: skip
    currencies = sorted({one["currency_code"] for one in found})
    totals = {
        f"total {currency}": total(one["payable_amount"] for one in found if one["currency_code"] == currency)
        for currency in currencies
    }
    columns = ("id", "status", "number", "date", "due", "to_pay", "currency", "name", "skonto", "stopped_by")
    return _show(Listing(columns, rows, totals), args, caller)


class AddReceiptArgs(Arguments):
    address: Annotated[str, Meta(max_length=2000, description="public https address of a PDF or XML")]


@tool("Add a received invoice", "payables:write", preset="bookkeeping", role="bookkeeping", reaches_out=True)
async def add_receipt(caller: Caller, args: AddReceiptArgs) -> str:
    """Takes in a supplier's invoice that lies at a public address. It waits for release like any other. Free."""
    one = (await caller.post("/v2/payables/files/by-address", {"address": args.address}))["data"]
    which = f"{quoted(one['number'])} of {quoted(one['creditor']['name'])}"
    return f"Invoice {which} over {amount(one['payable_amount'])} is kept as {one['id']}: {one['status']}."


# --- Prepared for a person


class PrepareCashEntryArgs(OfBooks):
    kassenname: Annotated[str, Meta(min_length=1, max_length=100)]
    day: date
    amount: Annotated[str, Meta(pattern=r"^-?[0-9]{1,9}(\.[0-9]{1,2})?$", description="negative: expense")]
    text: Annotated[str, Meta(min_length=1, max_length=60)]
    gegenkonto: Annotated[str, Meta(pattern="^[0-9]{4,9}$")]
    document: Annotated[str, Meta(max_length=36)] = ""
    tax_percent: Annotated[str, Meta(pattern=r"^([0-9]{1,2})?$")] = ""


@tool("Prepare a cash entry", "ledger:write", preset="bookkeeping", role="bookkeeping")
async def prepare_cash_entry(caller: Caller, args: PrepareCashEntryArgs) -> str:
    """Prepares an entry of a cash book. Nothing is booked until a person approves it on the page that is returned. Free."""
    books = await _books(caller, args.client_id)
    body = {
        "connection_id": books["connection_id"], "client_id": books["client_id"], "kassenname": args.kassenname,
        "date": args.day, "amount": Decimal(args.amount), "text": args.text, "gegenkonto": args.gegenkonto,
        "beleg": args.document or None, "steuer_prozent": Decimal(args.tax_percent) if args.tax_percent else None,
    }  # fmt: skip
    return _waits((await caller.post("/v2/assistants/cash-entries", body))["data"])


class PreparePaymentArgs(Arguments):
    account_id: Annotated[str, Meta(pattern="^[0-9]{1,18}$", description="from `balances`")]
    amount: Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,2})?$", description="euros")]
    creditor_name: Annotated[str, Meta(min_length=1, max_length=70)]
    creditor_iban: Annotated[str, Meta(min_length=1, max_length=42)]
    purpose: Annotated[str, Meta(min_length=1, max_length=140)]
    day: date | None = None


@tool("Prepare a payment", "banking:write", preset="payments", role="bookkeeping")
async def prepare_payment(caller: Caller, args: PreparePaymentArgs) -> str:
    """Prepares a transfer. No money moves: a person must approve it with a second factor on the page that is returned. The
    same again within the hour is the same one. Free."""
    body = {
        "account_id": args.account_id, "amount": args.amount, "creditor_name": args.creditor_name,
        "creditor_iban": args.creditor_iban, "description": args.purpose, "date": args.day,
    }  # fmt: skip
    return _waits((await caller.post("/v2/assistants/payments", body))["data"])


def _waits(one: dict[str, Any]) -> str:
    return (
        f"Prepared as {one['id']}; nothing has happened yet. It waits until {one['expires_at'][:10]} for a person, who"
        f" approves it with a second factor at {one['approval_url']}"
    )
