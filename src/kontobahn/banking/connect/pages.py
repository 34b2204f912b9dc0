"""The pages of a connect flow that the banking area hosts itself: choose the bank, then step by step what its provider wants.

They belong to no provider: each says what it wants as data (`interaction.py`). A page is identified by the unguessable token in its
address, which also protects its forms.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking.connect import routes, steps
from kontobahn.banking.connect.routes import BanksQuery, offered, select
from kontobahn.banking.connect.steps import InteractionRow, Kept, Steps
from kontobahn.banking.connections import flows, store
from kontobahn.banking.hosted import words
from kontobahn.banking.hosted.pages import (
    HEADERS,
    TEMPLATES,
    Form,
    HostedPages,
    People,
    add_query,
    language_of,
    language_query,
    read_form,
    redirect,
)
from kontobahn.banking.interaction import FILE, RETURN_PATH, Given, Option, Step, Words, entered, missing
from kontobahn.banking.payments import links
from kontobahn.banking.payments import store as payments
from kontobahn.banking.provider import LOCKED, Banking
from kontobahn.banking.reports import webhooks
from kontobahn.clock import SECOND
from kontobahn.db import Tx
from kontobahn.errors import NotFound, Refusal, Unavailable

_PAGES = HostedPages(TEMPLATES)
# At most this many banks are offered at once; a person with more to choose from searches.
SHOWN_BANKS = 40
MAX_TOKEN_LENGTH = 100
# Seconds between two looks at whether the bank has answered.
WAITING_SECONDS = 3
_PICTURES = ("image/png", "image/jpeg", "image/gif")


class ConnectPages:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._steps = Steps(context)
        self._people = People(context.settings.trusted_proxies)

    def routes(self) -> list[Route]:
        path = f"{steps.PATH}/{{token}}"
        return [
            Route(path, _PAGES.or_unavailable(self.page), methods=["GET"]),
            Route(path, _PAGES.or_unavailable(self.step), methods=["POST"]),
            Route(f"{path}/picture/{{number:int}}", _PAGES.or_unavailable(self.picture), methods=["GET"]),
            Route(
                f"{path}/document/{{number:int}}/{{language}}", _PAGES.or_unavailable(self.document), methods=["GET"]
            ),
            *ReturnPages(self._context).routes(),
        ]

    async def _find(self, request: Request) -> InteractionRow | None:
        token = request.path_params["token"]
        if len(token) > MAX_TOKEN_LENGTH:
            return None
        return await self._context.db.read(steps.find, self._context.vault.token_hash(token))

    async def page(self, request: Request) -> Response:
        row = await self._find(request)
        if row is not None and row.next_poll_at is not None and row.next_poll_at <= self._context.clock.now():
            kept = steps.open_kept(self._context.vault, row)
            if kept is not None and kept.step is not None and kept.step.polling and kept.step.polling.by_itself:
                await self._steps.proceed(row, kept, {})
                row = await self._find(request)
        return _PAGES.gone() if row is None else await self._show(request, row)

    async def step(self, request: Request) -> Response:
        form = await read_form(request)
        row = await self._find(request)
        if row is None:
            return _PAGES.gone()
        kept = steps.open_kept(self._context.vault, row)
        back = redirect(f"{steps.PATH}/{request.path_params['token']}{language_query(request)}")
        # A form of another step comes from the back button or a second click, and is ignored.
        if kept is None or form.text("step") != str(row.number):
            return back
        action = form.text("action")
        if action == "cancel" and row.outcome is None:
            await self._steps.cancel(row, kept)
            flow = await self._flow(row)
            return redirect(_return_url(flow.return_to, flow, "Cancelled")) if flow and flow.return_to else back
        if row.outcome == "failed":
            problem = (
                await self._begin_at(request, row, kept, kept.provider)
                if action == "again" and row.error_class != LOCKED
                else None
            )
        elif not kept.provider:
            problem = await self._choose(request, row, kept, form)
        elif kept.step is not None and kept.step.kind != "redirect":
            if kept.step.kind == "decoupled" and (row.next_poll_at or 0) > self._context.clock.now():
                # The bank limits how often it may be asked.
                return back
            given = _given(kept.step, form)
            problem = (
                words.NO_FILE
                if given is None
                else (FILE not in given and missing(kept.step, given)) or await self._steps.proceed(row, kept, given)
            )
        else:
            problem = None
        return back if problem is None else await self._show(request, row, problem, 422)

    async def picture(self, request: Request) -> Response:
        """The image of a step: the bank's own, or its code drawn as one."""
        row = await self._find(request)
        kept = None if row is None else steps.open_kept(self._context.vault, row)
        step = None if kept is None else kept.step
        if row is None or step is None or row.number != request.path_params["number"]:
            return _PAGES.gone()
        if step.flicker is not None:
            media_type, content = "image/svg+xml", flicker_image(step.flicker)
        elif step.picture is not None and step.picture.media_type in _PICTURES:
            media_type, content = step.picture
        else:
            return _PAGES.gone()
        headers = {**HEADERS, "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; sandbox"}
        return Response(content, headers=headers, media_type=media_type)

    async def document(self, request: Request) -> Response:
        """A paper of a step, to be printed."""
        row = await self._find(request)
        kept = None if row is None else steps.open_kept(self._context.vault, row)
        step = None if kept is None else kept.step
        if row is None or step is None or row.number != request.path_params["number"]:
            return _PAGES.gone()
        found = next((one for one in step.documents if one.language == request.path_params["language"]), None)
        if found is None or found.media_type != "application/pdf":
            return _PAGES.gone()
        headers = {
            **HEADERS, "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; sandbox",
            "Content-Disposition": f'attachment; filename="{found.file_name}"',
        }  # fmt: skip
        return Response(found.content, headers=headers, media_type=found.media_type)

    # --- Beginning

    async def _choose(self, request: Request, row: InteractionRow, kept: Kept, form: Form) -> Words | None:
        if not form.text("bank"):
            return words.CHOOSE
        found = (await offered(self._context.part(Banking))).one(form.text("bank"))
        if found is None or found.bank.api != kept.request.api:
            return words.CHOOSE
        return await self._begin_at(
            request, row, kept._replace(request=kept.request._replace(provider_code=found.bank.code)), found.provider
        )

    async def _begin_at(self, request: Request, row: InteractionRow, kept: Kept, provider: str) -> Words | None:
        person = self._people.who(request)
        kept = kept._replace(request=kept.request._replace(ip_address=person.ip_address, user_agent=person.user_agent))
        claimed = await self._context.db.write(steps.claim, row)
        if claimed is None:
            return words.BUSY
        try:
            begun = await routes.begin_at(self._context, provider, kept.request)
        except (Refusal, Unavailable) as error:
            log.warning("flow_not_begun", provider=provider, detail=str(error))
            await self._context.db.write(steps.release, claimed)
            return words.DOWN
        await self._context.db.write(self._steps.begun, claimed, kept._replace(provider=provider), begun.started)
        return None

    # --- Showing

    async def _flow(self, row: InteractionRow) -> flows.FlowRow | None:
        return await self._context.db.read(flows.by_token, row.organization_id, row.pending_token)

    async def _show(
        self, request: Request, row: InteractionRow, problem: Words | None = None, status: int = 200
    ) -> Response:
        kept, flow = steps.open_kept(self._context.vault, row), await self._flow(row)
        language = language_of(request, row.language)
        return_to = None if flow is None else flow.return_to
        values: dict[str, Any] = {
            "row": row, "problem": problem, "words": words, "language": language, "step": None, "picture": None,
            "say": lambda text: text.in_language(language), "can_try_again": row.error_class != LOCKED and kept is not None,
            "error": words.error_text(row.error_class, row.error_message),
            "return_url": _return_url(return_to, flow, row.error_class) if row.outcome and flow and return_to else None,
            "bank_name": await self._context.db.read(flows.bank_name, row.organization_id, row.pending_token),
        }  # fmt: skip
        refresh: int | str | None = None
        # Another request, or one before, asks the bank at this moment.
        is_waiting = problem is None and row.outcome is None and (row.claimed_until or 0) > self._context.clock.now()
        values["is_waiting"] = is_waiting
        if is_waiting:
            refresh = WAITING_SECONDS
        elif kept is not None and row.outcome is None:
            values["step"] = kept.step if kept.provider else await self._banks(request, kept)
            values["search"] = None if kept.provider else request.query_params.get("name", "")[:100]
            refresh = self._refresh(row, values["step"])
            if kept.step is not None and (kept.step.picture or kept.step.flicker):
                values["picture"] = f"{steps.PATH}/{request.path_params['token']}/picture/{row.number}"
            values["documents"] = f"{steps.PATH}/{request.path_params['token']}/document/{row.number}"
        return _PAGES.show("connect_step.html", values, return_to, status, refresh)

    def _refresh(self, row: InteractionRow, step: Step | None) -> int | str | None:
        """The seconds after which the browser loads the page again by itself, and from where."""
        if step is None:
            return None
        if step.kind == "redirect":
            return f"1; url={step.url}"
        if step.polling is None or not step.polling.by_itself or row.next_poll_at is None:
            return None
        return max(1, -(-(row.next_poll_at - self._context.clock.now()) // SECOND))

    async def _banks(self, request: Request, kept: Kept) -> Step:
        name = request.query_params.get("name", "").strip()[:100]
        offer = await offered(self._context.part(Banking))
        query = BanksQuery(name=name or None, api=kept.request.api, limit=SHOWN_BANKS)
        if name.isdigit():
            query = BanksQuery(blz=name, api=kept.request.api, limit=SHOWN_BANKS)
        options = tuple(
            Option(found.bank.code, found.bank.name, " · ".join(filter(None, (found.bank.country_code, *found.bank.bank_codes[:1]))),
                   found.bank.logo_url if found.bank.logo_url.startswith(self._context.settings.base_url) else "")
            for found in select(offer.found, query)
        )  # fmt: skip
        return Step("choice", words.BANK_TITLE, choice="bank", legend=words.BANK_LEGEND, options=options)


def _given(step: Step, form: Form) -> Given | None:
    """Returns what was entered: the fields, or a file. None if the file is empty, or none is asked for."""
    if form.file is None:
        return entered(step, form)
    return {FILE: (base64.b64encode(form.file).decode("ascii"),)} if step.upload and form.file else None


def _return_url(return_to: str | None, flow: flows.FlowRow, error_class: str | None) -> str:
    assert return_to is not None
    fields = {"pending_token": flow.pending_token, "error_class": error_class}
    return add_query(return_to, fields if error_class else {**fields, "connection_id": flow.connection_id})


# --- Returns: a page of a bank or a provider sends the person back, who goes on to the application

# Limits of what an address may carry.
MAX_FIELDS, MAX_LENGTH = 20, 4000


class ReturnPages:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._people = People(context.settings.trusted_proxies)

    def routes(self) -> list[Route]:
        return [Route(f"{RETURN_PATH}/{{provider}}", _PAGES.or_unavailable(self.page), methods=["GET"])]

    async def page(self, request: Request) -> Response:
        provider = request.path_params["provider"]
        fields = dict(request.query_params)
        if len(fields) > MAX_FIELDS or len(request.url.query) > MAX_LENGTH:
            return _PAGES.gone()
        if provider not in self._context.part(Banking).providers:
            return _PAGES.gone()
        link = links.read_token(self._context.vault, fields.get("state", ""), self._context.clock.now())
        if link is not None and link.kind == "payment":
            return await self._back_from_paying(link)
        flow = await self._context.db.read(flows.find, provider, fields.get("state"))
        if flow is None:
            # Somebody else's address, or one of a flow that nobody waits for now.
            return _PAGES.gone()
        # The person waits for the page, and with it for what the bank says.
        if not await webhooks.take_return(self._context, provider, fields, self._people.who(request)):
            return _PAGES.show("away.html", {}, None, 503, RELOAD_SECONDS)
        connection_id, error_class = await self._context.db.read(_outcome, flow.organization_id, flow.pending_token)
        if flow.return_to is not None:
            outcome = {"pending_token": flow.pending_token, "connection_id": connection_id, "error_class": error_class}
            return redirect(add_query(flow.return_to, outcome))
        return _PAGES.show(
            "returned.html", {"words": words, "error": words.error_text(error_class, None), "is_connected": error_class is None}, None
        )  # fmt: skip

    async def _back_from_paying(self, link: links.Link) -> Response:
        """The payer has been at the bank. How it ended is reported by the bank, not by whoever comes here."""
        try:
            row = await self._context.db.read(payments.get, link.organization_id, link.id)
        except NotFound:
            return _PAGES.gone()
        return_to = msgspec.json.decode(row.order_details, type=dict[str, Any]).get("return_to")
        if return_to is not None:
            return redirect(add_query(return_to, {"payment_id": str(row.id)}))
        return _PAGES.show("paid.html", {"words": words}, None)


RELOAD_SECONDS = 5


def _outcome(tx: Tx, organization_id: str, pending_token: str) -> tuple[str | None, str | None]:
    """Returns how a flow ended: the connection that it made, or what it failed with."""
    flow = flows.by_token(tx, organization_id, pending_token)
    connection_id = flow.connection_id if flow else None
    row = store.look_up(tx, organization_id, connection_id or pending_token)
    if row is None:
        return None, "ProviderError"
    if row.status == "pending_connect":
        return None, row.error_class or "ProviderError"
    return row.id, row.error_class


# --- The flickering image that an optical TAN generator reads from the screen, drawn as an SVG that moves without a script


_SYNC = "0FFF"
_MILLISECONDS = 50
_BARS, _WIDTH, _HEIGHT, _GAP = 5, 60, 160, 12


def flicker_frames(code: str) -> list[tuple[bool, ...]]:
    """Returns the bars of each moment, for a code in hexadecimal. Raises ValueError if it is none."""
    digits = _SYNC + code
    if len(digits) % 2:
        raise ValueError("a flicker code consists of whole bytes")
    shown = []
    for byte in range(0, len(digits), 2):
        for digit in (digits[byte + 1], digits[byte]):
            bits = tuple(bool(int(digit, 16) >> bit & 1) for bit in range(4))
            shown += [(True, *bits), (False, *bits)]
    return shown


def flicker_image(code: str) -> bytes:
    moments = flicker_frames(code)
    seconds = len(moments) * _MILLISECONDS / 1000
    bars = []
    for bar in range(_BARS):
        values = ";".join("#fff" if moment[bar] else "#000" for moment in moments)
        # Readers expect the clock and the bits at fixed distances; the person sizes the whole with the browser's zoom.
        bars.append(
            f'<rect x="{_GAP + bar * (_WIDTH + _GAP)}" y="{_GAP}" width="{_WIDTH}" height="{_HEIGHT}" fill="#000">'
            f'<animate attributeName="fill" values="{values}" dur="{seconds}s" calcMode="discrete" repeatCount="indefinite"/></rect>'
        )
    width, height = _GAP + _BARS * (_WIDTH + _GAP), _HEIGHT + 2 * _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<rect width="{width}" height="{height}" fill="#000"/>{"".join(bars)}</svg>'
    ).encode()
