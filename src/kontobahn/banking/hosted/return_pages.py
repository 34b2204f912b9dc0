"""Where a page of a bank or a provider sends a person back to: what that means is applied, and the person goes on to the application.

The address carries the flow's unguessable token as `state`. A reload does nothing twice.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kontobahn.api.call import Context
from kontobahn.banking import inbound
from kontobahn.banking.connections import flows, store
from kontobahn.banking.connections.connecting import RETURN_PATH
from kontobahn.banking.hosted import wording
from kontobahn.banking.hosted.pages import TEMPLATES, HostedPages, People, add_query, redirect
from kontobahn.banking.payments import links
from kontobahn.banking.payments import store as payments
from kontobahn.banking.provider import Banking
from kontobahn.db import Tx
from kontobahn.errors import NotFound

_PAGES = HostedPages(TEMPLATES)
# What an address may carry.
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
            # Somebody else's address, or one of a flow that nobody waits for any more.
            return _PAGES.gone()
        # The person waits for the page, and with it for what the bank says.
        if not await inbound.take_return(self._context, provider, fields, self._people.who(request)):
            return _PAGES.show("away.html", {}, None, 503, RELOAD_SECONDS)
        connection_id, error_class = await self._context.db.read(_outcome, flow.organization_id, flow.pending_token)
        if flow.return_to is not None:
            told = {"pending_token": flow.pending_token, "connection_id": connection_id, "error_class": error_class}
            return redirect(add_query(flow.return_to, told))
        return _PAGES.show(
            "returned.html", {"words": wording, "error": wording.error_text(error_class, None), "is_connected": error_class is None}, None
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
        return _PAGES.show("paid.html", {"words": wording}, None)


RELOAD_SECONDS = 5


def _outcome(tx: Tx, organization_id: str, pending_token: str) -> tuple[str | None, str | None]:
    """How a flow ended: the connection that it made, or what it failed with."""
    flow = flows.by_token(tx, organization_id, pending_token)
    connection_id = flow.connection_id if flow else None
    row = store.look_up(tx, organization_id, connection_id or pending_token)
    if row is None:
        return None, "ProviderError"
    if row.status == "pending_connect":
        return None, row.error_class or "ProviderError"
    return row.id, row.error_class
