"""The person's own page: how the dashboard looks, and where they are signed in."""

from __future__ import annotations

import base64
import binascii
from io import BytesIO
from typing import Annotated
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access import factors, identities, sessions, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.dashboard import notices, sign_in
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, SetupError
from kontobahn.vault import Vault

PATH = f"{ROOT}/profile"


@page("/profile", own=True, help="profile")
async def profile(visit: Visit) -> Response:
    principal = visit.principal
    found = await visit.read(sessions.of_user, principal.organization_id, principal.user_id or "")
    assert visit.person is not None
    user = visit.person.user
    return visit.show(
        "profile.html", provider=sign_in.provider_name(visit), issuer=sign_in.provider_issuer(visit),
        accounts=await visit.read(identities.of_user, user.organization_id, user.id),
        has_password=await visit.read(users.has_password, user),
        sessions=found, this=principal.session_id, sends_mail=bool(visit.context.settings.smtp_url),
        choices=notices.CHOICES, wanted=await visit.read(notices.chosen, user),
    )  # fmt: skip


class ChangePassword(Struct):
    old_password: Annotated[str, Meta(max_length=users.MAX_PASSWORD_LENGTH)]
    new_password: Annotated[str, Meta(min_length=users.MIN_PASSWORD_LENGTH, max_length=users.MAX_PASSWORD_LENGTH)]


@action("/profile/password", own=True, role="read_only")
async def change_password(visit: Visit) -> Response:
    """The old password is asked for here, so that nothing else has to confirm who it is."""
    assert visit.person is not None
    form = visit.form
    wanted = form.read(ChangePassword)
    if wanted is not None:
        with form.refusals():
            verified = await sign_in.check_password(visit, visit.person.user.email, wanted.old_password)
            new_hash = await sign_in.hash_password(visit, wanted.new_password)
            await visit.write(
                users.change_password,
                visit.principal,
                old_hash=verified.password_hash or "",
                new_hash=new_hash,
                actor=visit.actor,
            )
            return visit.redirect(
                PATH, _("Your new password is set. All other sessions and your connected assistants have ended.")
            )
    response: Response = await profile.handler(visit)
    return response


@action("/profile/notices", own=True, role="read_only")
async def choose_notices(visit: Visit) -> Response:
    assert visit.person is not None
    await visit.write(notices.choose, visit.person.user, visit.form.all("kind"))
    return visit.redirect(PATH, _("Your choice is kept."))


@page("/notices/{token}", caller="anybody", help="notices")
async def notices_page(visit: Visit, token: str) -> Response:
    """The page that each notice leads to, so that nobody has to sign in to get no more of them."""
    user = await visit.read(notices.user_of, visit.context.vault, token)
    wanted = await visit.read(notices.chosen, user)
    return visit.show("notices.html", user=user, choices=notices.CHOICES, wanted=wanted, token=token)


@action("/notices/{token}", caller="anybody")
async def choose_notices_by_link(visit: Visit, token: str) -> Response:
    user = await visit.read(notices.user_of, visit.context.vault, token)
    await visit.write(notices.choose, user, visit.form.all("kind"))
    return visit.redirect(f"{notices.PATH}/{token}", _("Your choice is kept."))


@action("/profile/sessions/{id}/end", own=True, role="read_only")
async def end_session(visit: Visit, id: str) -> Response:
    await visit.write(sessions.end, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("The session has ended."))


@action("/profile/sessions/end-others", own=True, role="read_only")
async def end_other_sessions(visit: Visit) -> Response:
    ended = await visit.write(sessions.end_others, visit.principal, visit.actor)
    if not ended:
        return visit.redirect(PATH, _("No other session was open."))
    return visit.redirect(PATH, ngettext("One session has ended.", "%(num)s sessions have ended.", ended))


@page("/keyboard", own=True, help="keyboard")
async def keyboard(visit: Visit) -> Response:
    return visit.show("keyboard.html")


# A person's second factors: an app that shows codes, passkeys, recovery codes; and whether the organisation requires
# one.


FACTORS_PATH = f"{ROOT}/profile/second-factor"
Name = Annotated[str, Meta(min_length=1, max_length=60)]


class NewApp(Struct):
    name: Name
    code: Annotated[str, Meta(max_length=20)]
    secret: Annotated[str, Meta(max_length=400)]


class NewPasskey(Struct):
    name: Name
    ticket: Annotated[str, Meta(max_length=100)]
    answer: Annotated[str, Meta(max_length=sign_in.MAX_PASSKEY_BYTES)]


@page("/profile/second-factor", own=True, help="second-factor")
async def second_factor(visit: Visit) -> Response:
    found, left, required = await visit.read(_facts, visit.principal)
    return visit.show("second_factor.html", factors=found, codes_left=left, required=required)


def _facts(tx: Tx, principal: Principal) -> tuple[list[factors.Factor], int, bool]:
    mine = principal.organization_id, principal.user_id or ""
    return (
        factors.of_user(tx, *mine),
        factors.recovery_codes_left(tx, *mine),
        factors.is_required(tx, principal.organization_id),
    )


# --- An app that shows codes


@page("/profile/second-factor/app", own=True, help="second-factor")
async def new_app_page(visit: Visit) -> Response:
    return _show_app(visit, factors.new_secret())


@action("/profile/second-factor/app", own=True, role="read_only", confirm=True)
async def add_app(visit: Visit) -> Response:
    form, vault, principal = visit.form, visit.context.vault, visit.principal
    secret = _open(vault, principal, form.text("secret"))
    wanted = form.read(NewApp)
    if wanted is not None:
        with form.refusals():
            codes = await visit.write(_add_app, vault, principal, secret, wanted, visit.actor)
            if codes:
                return visit.show("recovery_codes.html", 200, codes=codes)
            return visit.redirect(FACTORS_PATH, _("The app is set up."))
    return _show_app(visit, secret)


def _add_app(tx: Tx, vault: Vault, principal: Principal, secret: bytes, wanted: NewApp, actor: Actor) -> list[str]:
    factors.add_totp(tx, vault, principal, secret, wanted.code, wanted.name, actor)
    return _first_codes(tx, vault, principal, actor)


def _first_codes(tx: Tx, vault: Vault, principal: Principal, actor: Actor) -> list[str]:
    """Recovery codes together with the first factor, so that nobody is locked out for want of them."""
    if factors.recovery_codes_left(tx, principal.organization_id, principal.user_id or ""):
        return []
    return factors.make_recovery_codes(tx, vault, principal, actor)


def _show_app(visit: Visit, secret: bytes) -> Response:
    assert visit.person is not None
    text = base64.b32encode(secret).decode().rstrip("=")
    account = quote(f"Kontobahn:{visit.person.user.email}")
    address = (
        f"otpauth://totp/{account}?secret={text}&issuer=Kontobahn&digits={factors.DIGITS}&period={factors.STEP_SECONDS}"
    )
    sealed = base64.urlsafe_b64encode(visit.context.vault.seal(secret, _context(visit.principal))).decode()
    grouped = " ".join(text[start : start + 4] for start in range(0, len(text), 4))
    return visit.show("new_app.html", picture=_picture(address), text=grouped, sealed=sealed)


def _picture(address: str) -> Markup:
    """A QR code as SVG."""
    import segno

    drawn = BytesIO()
    segno.make(address, error="m").save(
        drawn, kind="svg", xmldecl=False, svgns=False, omitsize=True, border=2, svgclass="qr", lineclass=None,
    )  # fmt: skip
    return Markup(drawn.getvalue().decode())


def _open(vault: Vault, principal: Principal, sealed: str) -> bytes:
    try:
        return vault.open(base64.urlsafe_b64decode(sealed), _context(principal))
    except (SetupError, binascii.Error, ValueError):
        raise BadRequest("The form cannot be read.") from None


def _context(principal: Principal) -> str:
    return f"new authenticator app of {principal.user_id}"


# --- Passkeys


@page("/profile/second-factor/passkey", own=True, help="second-factor")
async def new_passkey_page(visit: Visit) -> Response:
    return await _show_passkey(visit)


@action("/profile/second-factor/passkey", own=True, role="read_only", confirm=True)
async def add_passkey(visit: Visit) -> Response:
    if not visit.form.text("answer"):
        visit.form.fail("", _("Passkeys need JavaScript. An app works without it."))
        return await _show_passkey(visit)
    wanted = visit.form.read(NewPasskey)
    if wanted is not None:
        with visit.form.refusals():
            await sign_in.finish_passkey(visit, wanted.ticket, wanted.answer, wanted.name)
            codes = await visit.write(_first_codes, visit.context.vault, visit.principal, visit.actor)
            if codes:
                return visit.show("recovery_codes.html", 200, codes=codes)
            return visit.redirect(FACTORS_PATH, _("The passkey is set up."))
    return await _show_passkey(visit)


async def _show_passkey(visit: Visit) -> Response:
    asked = await sign_in.begin_passkey(visit)
    site = sign_in.site_of(visit.context.settings)
    options = msgspec.json.encode(asked.options).decode()
    return visit.show("new_passkey.html", ticket=asked.ticket, options=options, site=site)


# --- Recovery codes, removing, requiring


@action("/profile/second-factor/recovery-codes", own=True, role="read_only", confirm=True)
async def new_recovery_codes(visit: Visit) -> Response:
    codes = await visit.write(factors.make_recovery_codes, visit.context.vault, visit.principal, visit.actor)
    return visit.show("recovery_codes.html", 200, codes=codes)


@action("/profile/second-factor/{id}/remove", own=True, role="read_only", confirm=True)
async def remove_factor(visit: Visit, id: str) -> Response:
    removed = await visit.write(factors.remove, visit.principal, id, visit.actor, issuer=sign_in.provider_issuer(visit))
    return visit.redirect(
        FACTORS_PATH, _("“%(name)s” is removed. Your connected assistants have ended.", name=removed.name)
    )


@action("/profile/second-factor/require", own=True, role="owner", confirm=True)
async def require_factor(visit: Visit) -> Response:
    required = visit.form.text("required") == "1"
    await visit.write(factors.require, visit.principal, required, visit.actor)
    done = (
        _("Everybody needs a second factor now.")
        if required
        else _("Everybody can now decide for themselves about a second factor.")
    )
    return visit.redirect(FACTORS_PATH, done)
