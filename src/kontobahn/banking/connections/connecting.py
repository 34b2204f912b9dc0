"""Beginning a connect flow: which provider it goes to, and whether the person continues at the provider's pages or at ours."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.api.call import Context
from kontobahn.banking.connections import flows
from kontobahn.banking.connections.banks import offered
from kontobahn.banking.connections.flows import FlowRow
from kontobahn.banking.hosted import interactions
from kontobahn.banking.hosted.interactions import Kept
from kontobahn.banking.provider import BANK_NEEDED, Banking, ConnectRequest, ConnectStart, ProviderRefused
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.vault import Vault

# Where pages of banks and providers send a person back to; the provider's name follows.
RETURN_PATH = "/banking/return"


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
        return f"{base_url}{interactions.PATH}/{self.token}"

    def keep(self, tx: Tx, vault: Vault, flow: FlowRow) -> None:
        """Writes what our pages go on from, if they do."""
        if self.token is not None:
            step, state = None, b""
            if self.started.interaction is not None:
                step, state, _ = self.started.interaction
            expires_at = max(self.started.expires_at, flow.expires_at)
            kept = Kept(self.request, self.provider, step, state)
            interactions.begin(tx, vault, self.token, flow.organization_id, kept, expires_at)


async def begin(context: Context, request: ConnectRequest) -> Begun:
    """Begins a flow at the provider that has the bank. Raises Conflict if there is none, BadRequest if no provider has the bank."""
    banking = context.part(Banking)
    name = await _provider_for(banking, request.provider_code)
    return await begin_at(context, name, request) if name else _bank_to_choose(context, request)


def _bank_to_choose(context: Context, request: ConnectRequest) -> Begun:
    expires_at = context.clock.now() + flows.PLACEHOLDER_LIFETIME
    return Begun("", request, ConnectStart(None, expires_at), interactions.new_token())


async def begin_at(context: Context, provider_name: str, request: ConnectRequest) -> Begun:
    request = request._replace(callback_url=f"{context.settings.base_url}{RETURN_PATH}/{provider_name}")
    try:
        started = await context.part(Banking).provider(provider_name).start_connect(request)
    except ProviderRefused as error:
        if error.error_class == BANK_NEEDED:
            return _bank_to_choose(context, request)
        if error.error_class == "ProviderNotFound":
            raise BadRequest(f"The field `provider_code` names no bank: {error}.", field="provider_code") from None
        raise Conflict(f"{error}.") from None
    return Begun(provider_name, request, started, interactions.new_token() if started.interaction else None)


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
