"""From a password, a code or a passkey to a session; `provider_sign_in` for the identity provider."""

from __future__ import annotations

import hmac
from contextlib import suppress
from typing import Any, Literal, NamedTuple, NoReturn
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from starlette.responses import Response

from kontobahn import limits, log
from kontobahn.access import factors, identities, sessions, users
from kontobahn.access.audit import Actor
from kontobahn.access.factors import Factor
from kontobahn.access.identities import Shown
from kontobahn.access.identity_provider import LEEWAY, Attempt, IdentityProvider, Rejected, Unreachable
from kontobahn.access.sessions import AtProvider, NewSession, SignIns, Verified
from kontobahn.access.users import User
from kontobahn.dashboard.security import origin_of
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx
from kontobahn.errors import Forbidden, NotFound, SetupError, TooManyRequests, Unauthorized, Unavailable
from kontobahn.ids import CHALLENGE_PREFIX, block_of, is_well_formed, new_token
from kontobahn.json_text import decode_foreign
from kontobahn.limits import Group
from kontobahn.sentences import said
from kontobahn.settings import Settings
from kontobahn.vault import Vault

# Guesses at a code of six digits, for one person, whatever address they come from.
CODES = Group("second factor", 10, 900)
WRONG = "The e-mail address or the password is wrong."
# Kept with a second step after the identity provider's.
BY_PROVIDER = b"identity provider"


async def count_attempt(visit: Visit) -> None:
    """Counts an attempt to get in, together with those over the API. Raises TooManyRequests above the limit."""
    group = visit.dependencies.groups[limits.AUTH]
    hit = await visit.dependencies.windows.hit(group, f"ip:{block_of(visit.exchange.ip)}")
    if not hit.allowed:
        raise TooManyRequests(
            said("Too many attempts from this address. Try again in {seconds} seconds.", seconds=hit.reset_seconds),
            retry_after_seconds=hit.reset_seconds,
        )


async def check_password(visit: Visit, email: str, password: str) -> Verified:
    """Returns the user. Raises Unauthorized, with the same words and after the same time whatever was wrong."""
    await count_attempt(visit)
    return await visit.context.part(SignIns).verify(email, password, visit.actor)


async def hash_password(visit: Visit, password: str) -> str:
    return await visit.context.part(SignIns).hash(password, visit.actor)


async def second_step(visit: Visit, user: User) -> str:
    """Returns the secret of the step to come if this user has a second factor; empty if the password is enough."""
    if not await visit.read(factors.of_user, user.organization_id, user.id):
        return ""
    return await visit.write(factors.begin, visit.context.vault, "second step", b"", user)


async def check_code(visit: Visit, ticket: str, code: str) -> tuple[User, AtProvider | None]:
    """Returns the user whose password was right before and whose code is right now; and whether it was the provider before."""
    await count_attempt(visit)
    vault = visit.context.vault
    challenge = await visit.read(factors.look_up, vault, "second step", ticket)
    assert challenge.organization_id is not None
    assert challenge.user_id is not None
    user = await visit.read(users.by_id, challenge.organization_id, challenge.user_id)
    await count_code(visit, user)
    await visit.write(_use_code, vault, ticket, user, code, visit.actor)
    # The code confirms who it is, whenever the provider was shown it.
    return user, AtProvider(visit.now, False) if challenge.value == BY_PROVIDER else None


async def count_code(visit: Visit, user: User) -> None:
    """Counts a guess at this person's code. Raises TooManyRequests above the limit."""
    hit = await visit.dependencies.windows.hit(CODES, f"user:{user.id}")
    if not hit.allowed:
        raise TooManyRequests(
            said("Too many wrong codes. Try again in {seconds} seconds.", seconds=hit.reset_seconds),
            retry_after_seconds=hit.reset_seconds,
        )


def _use_code(tx: Tx, vault: Vault, ticket: str, user: User, code: str, actor: Actor) -> None:
    factors.use_code(tx, vault, user, code, actor)
    factors.take(tx, vault, "second step", ticket)


async def open_session(visit: Visit, who: Verified | User, provider: AtProvider | None = None) -> None:
    """Signs the person in: always a new session, never one that was there before."""
    verified = who if isinstance(who, Verified) else visit.context.part(SignIns).verified_by_factor(who, visit.actor)
    new = await visit.write(
        sessions.open_session, visit.context.vault, verified,
        hours=visit.context.settings.session_hours, actor=visit.actor, device=visit.device, in_browser=True,
        provider=provider,
    )  # fmt: skip
    await replace_session(visit, new)


async def replace_session(visit: Visit, new: NewSession) -> None:
    """Gives the browser its new session, and ends the one that it had."""
    if visit.person is not None and visit.person.principal.session_id:
        with suppress(NotFound):  # a new role has ended all of them
            await visit.write(sessions.end, visit.person.principal, visit.person.session.id, visit.actor)
    visit.new_cookies["session"] = new.secret


# Passkeys: what the browser is asked to sign, and whether it did. The library is loaded when somebody uses one.


PASSKEY_REFUSED = "This passkey was not accepted."
MAX_PASSKEY_BYTES = 16 * 1024


class Site(NamedTuple):
    """The site that a passkey is bound to."""

    id: str
    origin: str


class Options(msgspec.Struct):
    """The options that the script hands to the browser, and the challenge it brings back."""

    ticket: str
    options: msgspec.Raw


def site_of(settings: Settings) -> Site:
    """The configured address. A passkey is bound to a name, so a service on this machine is `localhost`."""
    parts = urlsplit(settings.base_url)
    host = parts.hostname or "localhost"
    if host in ("127.0.0.1", "::1"):
        port = f":{parts.port}" if parts.port else ""
        return Site("localhost", f"{parts.scheme}://localhost{port}")
    return Site(host, origin_of(settings.base_url))


async def begin_passkey(visit: Visit) -> Options:
    import webauthn
    from webauthn.helpers import structs

    assert visit.person is not None
    user, site = visit.person.user, site_of(visit.context.settings)
    known = await visit.read(factors.of_user, user.organization_id, user.id)
    options = webauthn.generate_registration_options(
        rp_id=site.id,
        rp_name="Kontobahn",
        user_id=user.id.encode(),
        user_name=user.email,
        user_display_name=user.name,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.REQUIRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[
            structs.PublicKeyCredentialDescriptor(id=webauthn.base64url_to_bytes(factor.credential_id))
            for factor in known
            if factor.credential_id
        ],
    )
    ticket = await visit.write(factors.begin, visit.context.vault, "passkey", options.challenge, user)
    return Options(ticket, msgspec.Raw(webauthn.options_to_json(options).encode()))


async def finish_passkey(visit: Visit, ticket: str, answer: str, name: str) -> None:
    """Keeps the passkey that the browser made. Raises Unauthorized if the answer is not one to our challenge."""
    import webauthn
    from webauthn.helpers.exceptions import WebAuthnException

    assert visit.person is not None
    site, vault = site_of(visit.context.settings), visit.context.vault
    challenge = await visit.write(factors.take, vault, "passkey", ticket)
    if challenge.user_id != visit.person.user.id:
        raise Unauthorized(PASSKEY_REFUSED)
    try:
        made = webauthn.verify_registration_response(
            credential=answer,
            expected_challenge=challenge.value,
            expected_rp_id=site.id,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError, RecursionError):
        raise Unauthorized(PASSKEY_REFUSED) from None
    await visit.write(
        factors.add_passkey, visit.principal, name, visit.actor,
        credential_id=_text(made.credential_id), public_key=made.credential_public_key, counter=made.sign_count,
    )  # fmt: skip


async def begin_passkey_sign_in(visit: Visit) -> Options:
    import webauthn
    from webauthn.helpers import structs

    options = webauthn.generate_authentication_options(
        rp_id=site_of(visit.context.settings).id, user_verification=structs.UserVerificationRequirement.REQUIRED
    )
    ticket = await visit.write(factors.begin, visit.context.vault, "passkey sign-in", options.challenge)
    return Options(ticket, msgspec.Raw(webauthn.options_to_json(options).encode()))


async def finish_passkey_sign_in(visit: Visit, ticket: str, answer: str) -> User:
    """Returns the user whose passkey signed our challenge. Raises Unauthorized, always with the same words."""
    import webauthn
    from webauthn.helpers.exceptions import WebAuthnException

    site = site_of(visit.context.settings)
    challenge = await visit.write(factors.take, visit.context.vault, "passkey sign-in", ticket)
    known = await visit.read(_find_passkey, _credential_of(answer))
    if known is None or known[0].public_key is None:
        raise Unauthorized(PASSKEY_REFUSED)
    factor, user = known
    try:
        used = webauthn.verify_authentication_response(
            credential=answer,
            expected_challenge=challenge.value,
            expected_rp_id=site.id,
            expected_origin=site.origin,
            credential_public_key=bytes(known[0].public_key),
            credential_current_sign_count=factor.counter,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError, RecursionError):
        raise Unauthorized(PASSKEY_REFUSED) from None
    await visit.write(factors.note_passkey_use, factor, used.new_sign_count)
    return user


def _find_passkey(tx: Tx, credential_id: str) -> tuple[Factor, User] | None:
    factor = factors.by_credential(tx, credential_id)
    return None if factor is None else (factor, users.by_id(tx, factor.organization_id, factor.user_id))


def _credential_of(answer: str) -> str:
    try:
        sent: Any = decode_foreign(answer)
        return str(sent["rawId"])[:1400]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise Unauthorized(PASSKEY_REFUSED) from None


def _text(credential_id: bytes) -> str:
    from webauthn.helpers import bytes_to_base64url

    return bytes_to_base64url(credential_id)


# The way to the identity provider and back: to sign in, to accept an invitation, to link an account, or to confirm who
# it is.
#
# A way is a challenge that is used once. It belongs to the browser that set out: what comes back with the state of
# another one is somebody else's answer, and signs nobody in.


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


def provider_of(visit: Visit) -> IdentityProvider:
    """Raises NotFound if this installation has none."""
    found = visit.context.part(IdentityProvider)
    if not found.is_set_up:
        raise NotFound("There is no such page.")
    return found


def provider_name(visit: Visit) -> str:
    """The provider's name; empty if there is none."""
    found = visit.context.part(IdentityProvider)
    return found.configuration.name if found.is_set_up else ""


def provider_issuer(visit: Visit) -> str:
    return visit.context.part(IdentityProvider).issuer


# --- There


async def set_out_to_provider(visit: Visit, way: Way) -> Response:
    """Leads the browser to the provider."""
    provider, vault = provider_of(visit), visit.context.vault
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


async def sign_out_at_provider(visit: Visit) -> Response | None:
    """Leads somebody who came from the provider to sign out there as well, if it has a page for that."""
    provider = visit.context.part(IdentityProvider)
    if visit.person is None or not visit.person.session.by_provider or not provider.is_set_up:
        return None
    try:
        url = await provider.sign_out_url()
    except Unreachable:
        return None
    if not url:
        return None
    # The page that says so must not show the menu of somebody who is signed in.
    visit.person = None
    title = _("On the way to %(name)s", name=provider.configuration.name)
    return visit.leave(
        url, title, _("You have been signed out here. You come back when you are signed out there, too.")
    )


# --- And back


async def take_return(visit: Visit) -> tuple[str, Way]:
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


async def redeem_code(visit: Visit, state: str, way: Way) -> Shown:
    """Returns who has signed in at the provider. Raises Unauthorized or Unavailable."""
    refused, code = _sent(visit, "error"), _sent(visit, "code")
    if refused:
        log.info("identity_provider_refused", error=refused[:60], request_id=visit.exchange.request_id)
        raise Unauthorized(_STOPPED)
    if not code or len(code) > MAX_CODE:
        raise Unauthorized(_AGAIN)
    try:
        return await provider_of(visit).redeem(Attempt(state, way.nonce, way.verifier), code, _sent(visit, "iss"))
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


async def enter_by_provider(visit: Visit, shown: Shown) -> str:
    """Signs somebody in. Returns the secret of the step to come if a second factor has to be shown here; otherwise empty."""
    try:
        user, ticket, new = await visit.write(_enter_by_provider, visit, shown)
    except Forbidden as error:
        if error.operator:
            log.warning("identity_not_admitted", reason=error.operator, request_id=visit.exchange.request_id)
        raise
    if user is None:
        raise Forbidden(identities.WITHOUT_ROLE)
    if new is not None:
        await replace_session(visit, new)
    return ticket


def _enter_by_provider(tx: Tx, visit: Visit, shown: Shown) -> tuple[User | None, str, NewSession | None]:
    provider, vault = provider_of(visit), visit.context.vault
    user = identities.enter(tx, provider.configuration.admission, shown, visit.actor)
    if user is None:
        return None, "", None
    if not shown.with_second_factor and factors.of_user(tx, user.organization_id, user.id):
        return user, factors.begin(tx, vault, "second step", BY_PROVIDER, user), None
    return user, "", _open_by_provider(tx, visit, user, shown)


def _open_by_provider(tx: Tx, visit: Visit, user: User, shown: Shown) -> NewSession:
    verified: Verified = visit.context.part(SignIns).verified_by_factor(user, visit.actor)
    return sessions.open_session(
        tx, visit.context.vault, verified,
        hours=visit.context.settings.session_hours, actor=visit.actor, device=visit.device, in_browser=True,
        provider=AtProvider(shown.authenticated_at, shown.with_second_factor),
    )  # fmt: skip


async def accept_by_provider(visit: Visit, token: str, shown: Shown) -> None:
    """Makes the invited person a user, and signs them in."""
    await replace_session(visit, await visit.write(_accept_by_provider, visit, token, shown))


def _accept_by_provider(tx: Tx, visit: Visit, token: str, shown: Shown) -> NewSession:
    admission = provider_of(visit).configuration.admission
    user = identities.accept_invitation(tx, visit.context.vault, admission, token, shown, visit.actor)
    return _open_by_provider(tx, visit, user, shown)


def check_fresh(way: Way, shown: Shown) -> None:
    """Raises Unauthorized unless the person signed in at the provider after setting out, which not every provider tells."""
    if shown.authenticated_at is None or shown.authenticated_at + LEEWAY < way.begun_at:
        raise Unauthorized(
            "The identity provider does not say that you have signed in anew. Confirm with your password or a passkey."
        )


async def confirm_by_provider(visit: Visit, way: Way, shown: Shown) -> None:
    """Notes that the person has shown again who they are. Raises Unauthorized if it is somebody else, or was long ago."""
    assert visit.person is not None
    check_fresh(way, shown)
    await visit.write(identities.check_same, visit.person.user, shown)
    visit.new_cookies["session"] = await visit.write(
        sessions.confirm, visit.context.vault, visit.person.session, visit.actor
    )
