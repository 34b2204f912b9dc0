"""The page of an order that is uploaded as a file: what is paid, the file to fetch, and what to do with it.

It is opened by a signed link (`links.py`) and needs nothing else: the payer has no API key.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kontobahn.access.audit import Actor
from kontobahn.api.call import Context
from kontobahn.api.pages import Language
from kontobahn.banking.hosted import order_words, words
from kontobahn.banking.hosted.pages import (
    HEADERS,
    TEMPLATES,
    HostedPages,
    add_query,
    language_of,
    language_query,
    read_form,
    redirect,
    written_amount,
    written_day,
)
from kontobahn.banking.payments import bank, links, order_files, store
from kontobahn.banking.payments.bank import cancel
from kontobahn.banking.payments.order_files import OrderFileRow, file_name, hand_out
from kontobahn.banking.payments.rules import AWAITING_PAYER
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.payments.wire import OrderWarning
from kontobahn.clock import berlin_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound
from kontobahn.formats.pain.sepa import in_groups

_PAGES = HostedPages(TEMPLATES)
_PAYER = Actor("payer")


class OrderPages:
    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[Route]:
        return [
            Route(f"{links.PATH}/{{token}}", _PAGES.or_unavailable(self.page), methods=["GET"]),
            Route(f"{links.PATH}/{{token}}", _PAGES.or_unavailable(self.step), methods=["POST"]),
            Route(f"{links.PATH}/{{token}}/file", _PAGES.or_unavailable(self.file), methods=["GET"]),
        ]

    async def page(self, request: Request) -> Response:
        found, token, language = await self._find(request), request.path_params["token"], language_of(request)
        if isinstance(found, OrderFileRow):
            rows, warnings = await self._context.db.read(self._content, found)
            return _show_file(found, rows, token, warnings, language)
        if found is None:
            return _PAGES.gone()
        return _show(found, token, await bank.warnings_of(self._context, found), language)

    def _content(self, tx: Tx, file: OrderFileRow) -> tuple[list[PaymentRow], list[OrderWarning]]:
        rows = order_files.payments_of(tx, file)
        is_open = order_files.status_of(file, rows) == "open"
        return rows, order_files.warnings_of(tx, self._context, file, rows) if is_open else []

    async def step(self, request: Request) -> Response:
        form = await read_form(request)
        found = await self._find(request)
        if found is None:
            return _PAGES.gone()
        if form.text("action") == "cancel" and isinstance(found, PaymentRow):
            # Too late to cancel: the page shows how far it is.
            with suppress(Conflict):
                await cancel(self._context, found, _PAYER)
        return redirect(f"{links.PATH}/{request.path_params['token']}{language_query(request)}")

    async def file(self, request: Request) -> Response:
        found = await self._find(request)
        if found is None:
            return _PAGES.gone()
        try:
            if isinstance(found, OrderFileRow):
                return _download(await hand_out(self._context, found), file_name(found))
            # A request for the headers alone does not hand out the file.
            if found.status in AWAITING_PAYER and request.method == "GET":
                return _download(await bank.hand_out(self._context, found), f"payment-{found.id}.xml")
        except Conflict:
            # It was cancelled or expired since the page was shown; the page says so.
            pass
        return redirect(f"{links.PATH}/{request.path_params['token']}{language_query(request)}")

    async def _find(self, request: Request) -> PaymentRow | OrderFileRow | None:
        link = links.read_token(self._context.vault, request.path_params["token"], self._context.clock.now())
        if link is None:
            return None
        if link.kind == "file":
            return await self._context.db.read(order_files.look_up, link.organization_id, link.id)
        try:
            return await self._context.db.read(store.get, link.organization_id, link.id)
        except NotFound:
            return None


def _download(content: bytes, name: str) -> Response:
    headers = {**HEADERS, "Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type="application/xml")


def _texts(language: Language) -> dict[str, object]:
    return {
        "language": language, "words": words, "texts": order_words, "say": lambda text: text.in_language(language),
    }  # fmt: skip


def _show_file(
    file: OrderFileRow, rows: list[PaymentRow], token: str, warnings: list[OrderWarning], language: Language
) -> Response:
    values = {
        **_texts(language), "file": file, "amount": written_amount(file.amount_minor, language), "bank_name": rows[0].provider_name,
        "debtor_iban": in_groups(rows[0].debtor_iban), "is_void": file.discarded_at is not None or order_files.is_void(rows),
        "is_open": file.submitted_at is None and all(row.status in AWAITING_PAYER for row in rows),
        "warnings": {warning.code for warning in warnings},
        "payments": [(row, written_amount(row.amount_minor, language), in_groups(row.creditor_iban)) for row in rows],
        "file_path": f"{links.PATH}/{token}/file",
    }  # fmt: skip
    return _PAGES.show("order_file.html", values, None)


def _show(row: PaymentRow, token: str, warnings: list[OrderWarning], language: Language) -> Response:
    details = msgspec.json.decode(row.order_details, type=dict[str, object])
    day, return_to = details.get("date"), details.get("return_to")
    return_to = return_to if isinstance(return_to, str) else None
    taken_at = berlin_datetime(row.order_taken_at) if row.order_taken_at else None
    values = {
        **_texts(language), "payment": row, "amount": written_amount(row.amount_minor, language), "is_open": row.status in AWAITING_PAYER,
        "creditor_iban": in_groups(row.creditor_iban), "debtor_iban": in_groups(row.debtor_iban),
        "execute_on": written_day(date.fromisoformat(day), language) if isinstance(day, str) else None,
        "taken_at": f"{written_day(taken_at, language)}, {taken_at:%H:%M}" if taken_at else None,
        "expires_on": written_day(berlin_datetime(row.expires_at - 1), language) if row.expires_at else None,
        "file_path": f"{links.PATH}/{token}/file", "warnings": {warning.code for warning in warnings},
        "return_url": add_query(return_to, {"payment_id": str(row.id)}) if return_to else None,
    }  # fmt: skip
    return _PAGES.show("order.html", values, return_to)
