"""The way to the identity provider and back: to sign in, to accept an invitation, to link an account, or to confirm who it is.

A way is a challenge that is used once. It belongs to the browser that set out: what comes back with the state of another one is
somebody else's answer, and signs nobody in.
"""

from __future__ import annotations

import hmac
from typing import Literal, NoReturn

import msgspec
from msgspec import Struct
from starlette.responses import Response

from kontobahn import log
from kontobahn.access import factors, identities, sessions, signin
from kontobahn.access.identities import Shown
from kontobahn.access.identity_provider import LEEWAY, Attempt, IdentityProvider, Rejected, Unreachable
from kontobahn.access.sessions import AtProvider, NewSession
from kontobahn.access.signin import SignIns, Verified
from kontobahn.access.users import User
from kontobahn.dashboard import sign_in
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx
from kontobahn.errors import Forbidden, NotFound, SetupError, Unauthorized, Unavailable
from kontobahn.ids import CHALLENGE_PREFIX, is_well_formed, new_token
from kontobahn.vault import Vault

MAX_CODE = 4096
_SEALED = "way to the identity provider"
_AGAIN = "This attempt to sign in has ended, or it began in another browser. Start again."
_NOT_BELIEVED = (
    "The answer of the identity provider could not be accepted. Try again; if it continues, tell the operator."
)
_AWAY = "The identity provider cannot be reached. Try again in a moment, or sign in another way."
_STOPPED = "The sign-in was ended at the identity provider."


class Way(Struct):
    purpose: Literal["sign in", "invitation", "link", "confirm"]
    # The page to go on with; when confirming, the address that the interrupted form was for.
    next: str = ""
    # Of an invitation.
    token: str = ""
    # The session that links or confirms, and the form that was interrupted.
    session_id: str = ""
    form: dict[str, list[str]] = {}
    # The hash of the browser's cookie, and the secrets of the attempt.
    browser: str = ""
    nonce: str = ""
    verifier: str = ""
    begun_at: int = 0


def of(visit: Visit) -> IdentityProvider:
    """Raises NotFound if this installation has none."""
    found = visit.context.part(IdentityProvider)
    if not found.is_set_up:
        raise NotFound("There is no such page.")
    return found


def name(visit: Visit) -> str:
    """The provider's name; empty if there is none."""
    found = visit.context.part(IdentityProvider)
    return found.configuration.name if found.is_set_up else ""


def issuer(visit: Visit) -> str:
    return visit.context.part(IdentityProvider).issuer


# --- There


async def set_out(visit: Visit, way: Way) -> Response:
    """Leads the browser to the provider."""
    provider, vault = of(visit), visit.context.vault
    cookie = visit.cookie("provider")
    if not is_well_formed(cookie, CHALLENGE_PREFIX):
        cookie = new_token(CHALLENGE_PREFIX)
    # One browser may be on the way in several windows.
    visit.new_cookies["provider"] = cookie
    way.browser, way.begun_at = vault.token_hash(cookie), visit.now
    way.nonce, way.verifier = new_token(CHALLENGE_PREFIX), new_token(CHALLENGE_PREFIX)
    user = visit.person.user if visit.person else None
    state = await visit.write(factors.begin, vault, "identity provider", _seal(vault, way), user)
    try:
        url = await provider.sign_in_url(Attempt(state, way.nonce, way.verifier), again=way.purpose == "confirm")
    except Unreachable as error:
        _away(visit, error)
    return visit.leave(url, _("On the way to %(name)s", name=provider.configuration.name))


def _seal(vault: Vault, way: Way) -> bytes:
    return vault.seal(msgspec.json.encode(way), _SEALED)


async def sign_out(visit: Visit) -> Response | None:
    """Leads somebody who came from the provider to sign out there as well, if it has a page for that."""
    provider = visit.context.part(IdentityProvider)
    if visit.person is None or not visit.person.session.by_provider or not provider.is_set_up:
        return None
    try:
        url = await provider.sign_out_url()
    except Unreachable:
        return None
    name = provider.configuration.name
    return visit.leave(url, _("You have been signed out here. On the way to %(name)s", name=name)) if url else None


# --- And back


async def take(visit: Visit) -> tuple[str, Way]:
    """Returns the state and the way that somebody comes back from, once. Raises Unauthorized if it is not this browser's."""
    vault, state = visit.context.vault, _sent(visit, "state")
    if not is_well_formed(state, CHALLENGE_PREFIX):
        raise Unauthorized(_AGAIN)
    try:
        challenge = await visit.write(factors.take, vault, "identity provider", state)
        way = msgspec.json.decode(vault.open(challenge.value, _SEALED), type=Way)
    except (Unauthorized, SetupError):
        raise Unauthorized(_AGAIN) from None
    if not hmac.compare_digest(way.browser, vault.token_hash(visit.cookie("provider"))):
        raise Unauthorized(_AGAIN)
    if way.session_id and (visit.person is None or visit.person.session.id != way.session_id):
        raise Unauthorized(_AGAIN)
    return state, way


async def redeem(visit: Visit, state: str, way: Way) -> Shown:
    """Returns who has signed in at the provider. Raises Unauthorized or Unavailable."""
    refused, code = _sent(visit, "error"), _sent(visit, "code")
    if refused:
        log.info("identity_provider_refused", error=refused[:60], request_id=visit.exchange.request_id)
        raise Unauthorized(_STOPPED)
    if not code or len(code) > MAX_CODE:
        raise Unauthorized(_AGAIN)
    try:
        return await of(visit).redeem(Attempt(state, way.nonce, way.verifier), code, _sent(visit, "iss"))
    except Unreachable as error:
        _away(visit, error)
    except Rejected as error:
        log.warning("identity_provider_not_believed", reason=str(error), request_id=visit.exchange.request_id)
        raise Unauthorized(_NOT_BELIEVED) from None


def _away(visit: Visit, error: Unreachable) -> NoReturn:
    log.warning("identity_provider_unreachable", reason=str(error), request_id=visit.exchange.request_id)
    raise Unavailable(_AWAY, operator=str(error)) from None


def _sent(visit: Visit, field: str) -> str:
    return str((visit.query.get(field) or [""])[-1])


# --- Those who come back


async def enter(visit: Visit, shown: Shown) -> str:
    """Signs somebody in. Returns the secret of the step to come if a second factor has to be shown here; otherwise empty."""
    try:
        user, ticket, new = await visit.write(_enter, visit, shown)
    except Forbidden as error:
        if error.operator:
            log.warning("identity_not_admitted", reason=error.operator, request_id=visit.exchange.request_id)
        raise
    if user is None:
        raise Forbidden(identities.WITHOUT_ROLE)
    if new is not None:
        await sign_in.replace_session(visit, new)
    return ticket


def _enter(tx: Tx, visit: Visit, shown: Shown) -> tuple[User | None, str, NewSession | None]:
    provider, vault = of(visit), visit.context.vault
    user = identities.enter(tx, provider.configuration.admission, shown, visit.actor)
    if user is None:
        return None, "", None
    if not shown.with_second_factor and factors.of_user(tx, user.organization_id, user.id):
        return user, factors.begin(tx, vault, "second step", sign_in.BY_PROVIDER, user), None
    return user, "", _open(tx, visit, user, shown)


def _open(tx: Tx, visit: Visit, user: User, shown: Shown) -> NewSession:
    verified: Verified = visit.context.part(SignIns).verified_by_factor(user, visit.actor)
    return signin.open_session(
        tx, visit.context.vault, verified,
        hours=visit.context.settings.session_hours, actor=visit.actor, device=visit.device, in_browser=True,
        provider=AtProvider(shown.authenticated_at, shown.with_second_factor),
    )  # fmt: skip


async def accept_invitation(visit: Visit, token: str, shown: Shown) -> None:
    """Makes the invited person a user, and signs them in."""
    await sign_in.replace_session(visit, await visit.write(_accept, visit, token, shown))


def _accept(tx: Tx, visit: Visit, token: str, shown: Shown) -> NewSession:
    admission = of(visit).configuration.admission
    user = identities.accept_invitation(tx, visit.context.vault, admission, token, shown, visit.actor)
    return _open(tx, visit, user, shown)


def check_fresh(way: Way, shown: Shown) -> None:
    """Raises Unauthorized unless the person signed in at the provider after setting out, which not every provider tells."""
    if shown.authenticated_at is None or shown.authenticated_at + LEEWAY < way.begun_at:
        raise Unauthorized(
            "The identity provider does not say that you have signed in anew. Confirm with your password or a passkey."
        )


async def confirm(visit: Visit, way: Way, shown: Shown) -> None:
    """Notes that the person has shown again who they are. Raises Unauthorized if it is somebody else, or was long ago."""
    assert visit.person is not None
    check_fresh(way, shown)
    await visit.write(identities.check_same, visit.person.user, shown)
    visit.new_cookies["session"] = await visit.write(
        sessions.confirm, visit.context.vault, visit.person.session, visit.actor
    )
