"""Connect flows over HTTP: which provider one goes to, and whether the person continues at the provider's pages or at ours."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from kontobahn import log
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call, Context, page
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Answer, Body, OrganizationQuery, Query, Timestamp, Uuid, form
from kontobahn.banking.connect import steps
from kontobahn.banking.connect.steps import Kept
from kontobahn.banking.connections import flows, store
from kontobahn.banking.connections.flows import FlowRow
from kontobahn.banking.interaction import RETURN_PATH, Language
from kontobahn.banking.provider import (
    BANK_NEEDED,
    Api,
    Banking,
    ConnectRequest,
    ConnectStart,
    Holder,
    ListedBank,
    ProviderDown,
    ProviderRefused,
)
from kontobahn.banking.wire import (
    ConnectionId,
    CustomerAddress,
    CustomerAgent,
    check_custom_fields,
    check_return_to,
    parse_ip_address,
)
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, Unavailable
from kontobahn.json_text import encode
from kontobahn.sentences import said
from kontobahn.vault import Vault

# The banks that can be connected, of all providers together: listed, searched, and which provider one belongs to.


Ability = Literal["accounts", "payments", "instant_payments"]
DEFAULT_ROWS, MAX_ROWS = 100, 1000
# Two letters that people write for one in names of banks.
_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


class BanksQuery(Query):
    name: (
        Annotated[str, Meta(min_length=1, max_length=100, description="Words that the name contains, in any order.")]
        | None
    ) = None
    bic: (
        Annotated[
            str,
            form("a BIC", r"^[A-Za-z]{4}[A-Za-z]{2}[A-Za-z0-9]{2}([A-Za-z0-9]{3})?$", description="8 or 11 letters."),
        ]
        | None
    ) = None
    blz: (
        Annotated[str, form("a national bank code of digits", r"^[0-9]{3,12}$", description="Bankleitzahl.")] | None
    ) = None
    country: (
        Annotated[
            str,
            form(
                "a country code of two capital letters",
                r"^[A-Z]{2}$",
                description="ISO 3166-1 alpha-2.",
                examples=["DE"],
            ),
        ]
        | None
    ) = None
    supports: Annotated[Ability, Meta(description="Only banks that can do this.")] | None = None
    api: Annotated[Api, Meta(description="`partner`: regulated banks; `openbanking`: the others.")] | None = None
    from_code: (
        Annotated[
            str, Meta(min_length=1, max_length=100, description="Only what follows this bank: the last code seen.")
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = DEFAULT_ROWS


class Bank(Answer):
    code: Annotated[str, Meta(description="For `provider_code` of a connect flow.", examples=["musterbank"])]
    name: str
    country_code: str
    provider: Annotated[str, Meta(description="What reaches the bank.", examples=["sandbox"])]
    api: Api
    bics: list[str]
    bank_codes: list[str]
    logo_url: str
    supports: list[Ability]
    consent_days: int | None


class Found(NamedTuple):
    provider: str
    bank: ListedBank


class Offer(NamedTuple):
    """The banks that all providers list now."""

    found: list[Found]
    # A provider did not say what it has, so a bank that is not among these may exist all the same.
    is_partial: bool

    def one(self, code: str) -> Found | None:
        """Returns the bank with this code. Raises Unavailable if it is unknown only because a provider did not answer."""
        match = next((found for found in self.found if found.bank.code == code), None)
        if match is None and self.is_partial:
            raise ProviderDown("A provider of bank connections does not say at the moment which banks it has.")
        return match


# The list is what a form offers to choose from, so it costs nothing.
@get("/v2/banking/providers", scope="banking:read", pages_by="from_code", errors=(503,))
async def list_banks(call: Call, query: BanksQuery) -> Data[list[Bank]]:
    """List the banks that can be connected, by name.

    The `code` of one is the `provider_code` of a connect flow. Without a filter these are all banks of all providers that are set
    up; `from_code` continues a long list. A provider that does not answer is left out.
    """
    offer = await offered(call.context.part(Banking))
    if offer.is_partial and not offer.found:
        raise ProviderDown("No provider of bank connections says at the moment which banks it has.")
    found = page(call, select(offer.found, query), query.limit, lambda item: item.bank.code)
    return Data([_bank(item) for item in found])


async def offered(banking: Banking) -> Offer:
    listed: list[Found] = []
    is_partial = False
    for name in banking.connect_providers:
        try:
            listed += [Found(name, bank) for bank in await banking.provider(name).banks()]
        except (Unavailable, ProviderRefused) as error:
            is_partial = True
            log.warning("banks_not_listed", provider=name, detail=str(error))
    return Offer(sorted(listed, key=lambda found: (_folded(found.bank.name), found.bank.code)), is_partial)


def select(listed: list[Found], query: BanksQuery) -> list[Found]:
    """Returns what a query asks for, of banks in the order of their names, and one more if there are more."""
    if query.from_code is not None:
        codes = [found.bank.code for found in listed]
        if query.from_code not in codes:
            raise BadRequest("The field `from_code` is not the code of a bank.", field="from_code")
        listed = listed[codes.index(query.from_code) + 1 :]
    return [found for found in listed if _matches(found.bank, query)][: query.limit + 1]


def _matches(bank: ListedBank, query: BanksQuery) -> bool:
    if query.name is not None:
        name = _folded(bank.name)
        if not all(word in name for word in _folded(query.name).split()):
            return False
    # The last three letters of a BIC name a branch, and may be left out for the head office.
    if query.bic is not None and not any(bic[:8].upper() == query.bic[:8].upper() for bic in bank.bics):
        return False
    if query.blz is not None and query.blz not in bank.bank_codes:
        return False
    if query.country is not None and query.country != bank.country_code:
        return False
    if query.api is not None and query.api != bank.api:
        return False
    return query.supports is None or query.supports in abilities(bank)


def abilities(bank: ListedBank) -> list[Ability]:
    found: list[Ability] = ["accounts"]
    if "SEPA" in bank.templates:
        found.append("payments")
    if "SEPA_INSTANT" in bank.templates:
        found.append("instant_payments")
    return found


def _folded(text: str) -> str:
    return text.casefold().translate(_LETTERS)


def _bank(found: Found) -> Bank:
    bank = found.bank
    return from_row(
        Bank,
        bank,
        provider=found.provider,
        bics=list(bank.bics),
        bank_codes=list(bank.bank_codes),
        supports=abilities(bank),
    )


Scope = Literal["accounts", "holder_info", "transactions"]


class ConnectQuery(OrganizationQuery):
    api: Annotated[Api, Meta(description="`partner`: regulated banks; `openbanking`: the others.")] = "partner"


class Connect(Body):
    """Starts a connect flow; everything is optional."""

    # Choice 23: the body of a connect flow.
    provider_code: (
        Annotated[str, Meta(min_length=1, max_length=100, description="The bank; otherwise the person chooses.")] | None
    ) = None
    email: (
        Annotated[
            str,
            Meta(
                min_length=3, max_length=254, description="The user whose bank access it is; by default the key's user."
            ),
        ]
        | None
    ) = None
    return_to: (
        Annotated[str, Meta(min_length=8, max_length=2000, description="Where the person goes afterwards.")] | None
    ) = None
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=3)] | None = None
    holder: Annotated[Holder, Meta(description="Whose access it is at the bank; `business` when left out.")] | None = (
        None
    )
    language: Annotated[Language, Meta(description="Of the pages; otherwise the browser's.")] | None = None
    customer_ip_address: CustomerAddress | None = None
    customer_user_agent: CustomerAgent | None = None
    custom_fields: dict[str, Any] | None = None


class Reconnect(Body):
    return_to: Annotated[str, Meta(min_length=8, max_length=2000)] | None = None
    language: Annotated[Language, Meta(description="Of the pages; otherwise the browser's.")] | None = None
    customer_ip_address: CustomerAddress | None = None
    customer_user_agent: CustomerAgent | None = None


class ConnectAnswer(Answer):
    """Not wrapped in `data`."""

    connect_url: str
    expires_at: Timestamp
    owner_user_id: Uuid | None
    pending_token: str


@post("/v2/banking/connect", scope="banking:write", errors=(403, 404, 409, 503))
async def start_connect(call: Call, query: ConnectQuery, body: Connect) -> ConnectAnswer:
    """Start a connect flow.

    Send the person to `connect_url` to choose the bank and sign in. Until that is done the connection is a placeholder with
    status `pending_connect`, removed after 15 minutes; then it becomes `active`, and `refresh_complete` lists its accounts. It
    belongs to the user with this `email`, by default to the user of the API key.
    """
    check_return_to(body.return_to)
    check_custom_fields(body.custom_fields)
    organization_id = call.principal.organization(query.organization_id)
    owner = await call.read(flows.find_owner, call.principal, organization_id, body.email)
    token = flows.new_token()
    request = ConnectRequest(
        token, query.api, body.provider_code, tuple(body.scopes or ()), body.return_to, None, organization_id,
        body.holder or "business", body.language, parse_ip_address(body.customer_ip_address) or call.ip, body.customer_user_agent or "",
    )  # fmt: skip
    begun = await begin(call.context, request)
    flow = FlowRow(
        organization_id=organization_id,
        pending_token=token,
        provider=begun.provider,
        api=query.api,
        owner_user_id=owner,
        connection_id=None,
        return_to=body.return_to,
        custom_fields=None if body.custom_fields is None else encode(body.custom_fields).decode(),
        created_at=call.context.clock.now(),
        expires_at=begun.started.expires_at,
    )
    return await call.commit(_start, call.context, flow, begun)


def _start(tx: Tx, context: Context, flow: FlowRow, begun: Begun) -> ConnectAnswer:
    flow = flows.start(tx, flow, begun.request.provider_code or "", begun.started)
    begun.keep(tx, context.vault, flow)
    return _connect_answer(context, flow, begun)


@post("/v2/banking/connections/{id}/reconnect", scope="banking:write", errors=(403, 404, 409))
async def reconnect_bank_connection(call: Call, id: ConnectionId, body: Reconnect) -> ConnectAnswer:
    """Start a flow that renews a connection.

    The connection keeps its id, its accounts and its transactions.
    """
    check_return_to(body.return_to)
    row = await call.read_inline(store.find, call.principal, id)
    if row.status == "pending_connect":
        raise Conflict("The connection is not finished yet: go on with its connect flow.")
    token = flows.new_token()
    request = ConnectRequest(
        token, row.api, row.provider_code, (), body.return_to, row.provider_ref, row.organization_id,
        language=body.language, ip_address=parse_ip_address(body.customer_ip_address) or call.ip,
        user_agent=body.customer_user_agent or "",
    )  # fmt: skip
    begun = await begin_at(call.context, row.provider, request)
    flow = FlowRow(
        organization_id=row.organization_id,
        pending_token=token,
        provider=row.provider,
        api=row.api,
        owner_user_id=row.owner_user_id or await call.read(flows.find_owner, call.principal, row.organization_id, None),
        connection_id=row.id,
        return_to=body.return_to,
        custom_fields=None,
        created_at=call.context.clock.now(),
        expires_at=begun.started.expires_at,
    )
    return await call.commit(_start_reconnect, call.context, flow, row.id, begun)


def _start_reconnect(tx: Tx, context: Context, flow: FlowRow, connection_id: str, begun: Begun) -> ConnectAnswer:
    flow = flows.start_reconnect(tx, flow, connection_id, begun.started)
    begun.keep(tx, context.vault, flow)
    return _connect_answer(context, flow, begun)


def _connect_answer(context: Context, flow: FlowRow, begun: Begun) -> ConnectAnswer:
    return ConnectAnswer(
        connect_url=begun.connect_url(context.settings.base_url),
        expires_at=to_datetime(flow.expires_at),
        owner_user_id=flow.owner_user_id,
        pending_token=flow.pending_token,
    )


# --- Beginning a flow


class Begun(NamedTuple):
    """A flow that a provider has begun, or one whose bank is yet to be chosen on our pages."""

    # Empty while the bank is not chosen.
    provider: str
    request: ConnectRequest
    started: ConnectStart
    # The token of the address of our pages; None if the person continues elsewhere.
    token: str | None

    def connect_url(self, base_url: str) -> str:
        if self.token is None:
            assert self.started.connect_url is not None
            return self.started.connect_url
        return f"{base_url}{steps.PATH}/{self.token}"

    def keep(self, tx: Tx, vault: Vault, flow: FlowRow) -> None:
        """Writes what our pages go on from, if they do."""
        if self.token is not None:
            step, state = None, b""
            if self.started.interaction is not None:
                step, state, _ = self.started.interaction
            expires_at = max(self.started.expires_at, flow.expires_at)
            kept = Kept(self.request, self.provider, step, state)
            steps.begin(tx, vault, self.token, flow.organization_id, kept, expires_at)


async def begin(context: Context, request: ConnectRequest) -> Begun:
    """Begins a flow at the provider that has the bank. Raises Conflict if there is none, BadRequest if no provider has the bank."""
    banking = context.part(Banking)
    name = await _provider_for(banking, request.provider_code)
    return await begin_at(context, name, request) if name else _bank_to_choose(context, request)


def _bank_to_choose(context: Context, request: ConnectRequest) -> Begun:
    expires_at = context.clock.now() + flows.PLACEHOLDER_LIFETIME
    return Begun("", request, ConnectStart(None, expires_at), steps.new_token())


async def begin_at(context: Context, provider_name: str, request: ConnectRequest) -> Begun:
    request = request._replace(callback_url=f"{context.settings.base_url}{RETURN_PATH}/{provider_name}")
    try:
        started = await context.part(Banking).provider(provider_name).start_connect(request)
    except ProviderRefused as error:
        if error.error_class == BANK_NEEDED:
            return _bank_to_choose(context, request)
        if error.error_class == "ProviderNotFound":
            raise BadRequest(
                said("The field `provider_code` names no bank: {why}.", why=error), field="provider_code"
            ) from None
        raise Conflict(said("{reason}.", reason=error)) from None
    return Begun(provider_name, request, started, steps.new_token() if started.interaction else None)


async def _provider_for(banking: Banking, provider_code: str | None) -> str:
    """Returns which provider a flow goes to; empty if the person has yet to choose among the banks of several."""
    names = banking.connect_providers
    if not names:
        raise Conflict("No provider for bank connections is set up in this installation. Statements can be imported.")
    if len(names) == 1:
        return names[0]
    if provider_code is None:
        return ""
    found = (await offered(banking)).one(provider_code)
    if found is None:
        raise BadRequest(
            "The field `provider_code` names no bank: `GET /v2/banking/providers` lists them.", field="provider_code"
        )
    return found.provider
