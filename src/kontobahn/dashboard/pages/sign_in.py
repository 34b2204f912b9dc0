"""Getting in and out: signing in, the first run, accepting an invitation, a forgotten password, and how the pages look."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access import identities, invitations, organizations, sessions, users
from kontobahn.access.identities import Shown
from kontobahn.api.pages import LANGUAGES
from kontobahn.api.wire import Text
from kontobahn.auth.users import Email
from kontobahn.dashboard import confirmation, people, refusals, security, sign_in
from kontobahn.dashboard.declare import FIRST_RUN, ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.pages import first_steps
from kontobahn.dashboard.people import THEMES, Preferences
from kontobahn.dashboard.sign_in import Way
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.errors import Refusal, Unauthorized, Unavailable

Password = Annotated[str, Meta(min_length=12, max_length=200)]


class SignIn(Struct):
    email: Annotated[str, Meta(max_length=254)]
    password: Annotated[str, Meta(max_length=200)]


class FirstRun(Struct):
    code: Annotated[str, Meta(max_length=100)]
    organization: Text
    name: Text
    email: Email
    password: Password


class Acceptance(Struct):
    name: Text
    password: Password


@page("/sign-in", caller="anybody", help="sign-in")
async def sign_in_page(visit: Visit) -> Response:
    if visit.person is not None:
        return visit.redirect(_next(visit))
    if await visit.read(organizations.is_first_run_due):
        return visit.redirect(FIRST_RUN)
    return _show_sign_in(visit)


@action("/sign-in", caller="anybody")
async def do_sign_in(visit: Visit) -> Response:
    wanted = visit.form.read(SignIn)
    if wanted is not None:
        try:
            verified = await sign_in.check_password(visit, wanted.email, wanted.password)
        except Unauthorized:
            visit.form.fail("", _("The e-mail address or the password is wrong."))
        else:
            ticket = await sign_in.second_step(visit, verified.user)
            if ticket:
                return visit.show("second_step.html", form=Form(), ticket=ticket, next=_next(visit))
            await sign_in.open_session(visit, verified)
            return visit.redirect(_next(visit))
    return _show_sign_in(visit)


@action("/sign-in/code", caller="anybody")
async def do_second_step(visit: Visit) -> Response:
    form = visit.form
    ticket = form.text("ticket")
    with form.refusals():
        user, provider = await sign_in.check_code(visit, ticket, form.text("code"))
        await sign_in.open_session(visit, user, provider)
        return visit.redirect(_next(visit))
    return visit.show("second_step.html", ticket=ticket, next=_next(visit))


@action("/sign-in/passkey/options", caller="anybody")
async def passkey_options(visit: Visit) -> Response:
    """Asked for by the script when somebody wants to sign in with a passkey."""
    await sign_in.count_attempt(visit)
    return visit.json(await sign_in.begin_passkey_sign_in(visit))


@action("/sign-in/passkey", caller="anybody")
async def do_passkey_sign_in(visit: Visit) -> Response:
    form = visit.form
    with form.refusals():
        user = await sign_in.finish_passkey_sign_in(visit, form.text("ticket"), form.text("answer"))
        await sign_in.open_session(visit, user)
        return visit.redirect(_next(visit))
    return _show_sign_in(visit)


def _show_sign_in(visit: Visit) -> Response:
    return visit.show("sign_in.html", next=_next(visit), provider=sign_in.provider_name(visit))


def _next(visit: Visit) -> str:
    wish = visit.form.text("next") or (visit.query.get("next") or [""])[-1]
    return security.local_path(wish, ROOT)


@action("/sign-out", own=True, role="read_only")
async def sign_out(visit: Visit) -> Response:
    assert visit.person is not None
    await visit.write(sessions.end, visit.principal, visit.person.session.id, visit.actor)
    visit.new_cookies |= {"session": "", "organization": ""}
    done = visit.redirect(f"{ROOT}/sign-in", _("You have been signed out."))
    return await sign_in.sign_out_at_provider(visit) or done


@page("/forgotten-password", caller="anybody", help="sign-in")
async def forgotten_password(visit: Visit) -> Response:
    return visit.show("forgotten_password.html", sends_mail=bool(visit.context.settings.smtp_url))


class Forgotten(Struct):
    email: Email


@action("/forgotten-password", caller="anybody")
async def send_password_link(visit: Visit) -> Response:
    """Says the same whether anybody has the address or not."""
    settings = visit.context.settings
    wanted = visit.form.read(Forgotten) if settings.smtp_url else None
    if wanted is not None:
        await sign_in.count_attempt(visit)
        await visit.write(invitations.send_requested_link, visit.context.vault, settings, wanted.email, visit.actor)
        text = _("If somebody signs in with this address, a link is on its way there.")
        return visit.redirect(f"{ROOT}/sign-in", text)
    response: Response = await forgotten_password.handler(visit)
    return response


class NewPassword(Struct):
    password: Password


@page("/password", caller="anybody", help="sign-in")
async def new_password_page(visit: Visit) -> Response:
    """The page that the link of an administrator leads to."""
    await visit.read(users.check_reset, visit.context.vault, _token(visit))
    return visit.show("new_password.html", token=_token(visit))


@action("/password", caller="anybody")
async def set_new_password(visit: Visit) -> Response:
    """Sets the password. The person signs in with it then, and with the second factor if there is one."""
    wanted = visit.form.read(NewPassword)
    if wanted is not None:
        await sign_in.count_attempt(visit)
        with visit.form.refusals():
            # Looked at first: only somebody with a link gets a password hashed.
            await visit.read(users.check_reset, visit.context.vault, _token(visit))
            password_hash = await sign_in.hash_password(visit, wanted.password)
            await visit.write(
                users.reset_password, visit.context.vault, _token(visit), password_hash=password_hash, actor=visit.actor
            )
            return visit.redirect(f"{ROOT}/sign-in", _("Your new password is set. Sign in with it."))
    return visit.show("new_password.html", token=_token(visit))


def _token(visit: Visit) -> str:
    return (visit.form.text("token") or (visit.query.get("token") or [""])[-1])[:100]


# --- The first run


@page("/first-run", caller="anybody", help="first-run")
async def first_run_page(visit: Visit) -> Response:
    if not await visit.read(organizations.is_first_run_due):
        return visit.redirect(f"{ROOT}/sign-in")
    # The link that the service printed has it.
    if "code" in visit.query:
        visit.form = Form({"code": [visit.query["code"][-1][:100]]})
    return visit.show("first_run.html")


@action("/first-run", caller="anybody")
async def do_first_run(visit: Visit) -> Response:
    form = visit.form
    wanted = form.read(FirstRun)
    await sign_in.count_attempt(visit)
    if wanted is not None and not organizations.is_first_run_code(visit.context.vault, wanted.code):
        form.fail("code", _("This is not the code that the service printed when it started."))
    if wanted is not None and form.is_good:
        password_hash = await sign_in.hash_password(visit, wanted.password)
        with form.refusals():
            user = await visit.write(
                organizations.create_first, organization=wanted.organization, email=wanted.email, name=wanted.name,
                password_hash=password_hash, actor=visit.actor,
            )  # fmt: skip
            await sign_in.open_session(visit, user)
            return visit.redirect(first_steps.PATH, _("Welcome. Your organisation is ready."))
    return visit.show("first_run.html")


# --- Invitations


@page("/invitation/{token}", caller="anybody", help="sign-in")
async def invitation_page(visit: Visit, token: str) -> Response:
    # Nobody fills in a form for an invitation that cannot be accepted.
    await visit.read(invitations.find_pending, visit.context.vault, token)
    return _show_invitation(visit, token)


def _show_invitation(visit: Visit, token: str) -> Response:
    return visit.show(
        "invitation.html", sign_in=f"{ROOT}/sign-in?{urlencode({'next': f'{ROOT}/invitation/{token}'})}", token=token,
        provider=sign_in.provider_name(visit),
    )  # fmt: skip


@action("/invitation/{token}/join", own=True, role="read_only")
async def join(visit: Visit, token: str) -> Response:
    """Accepts an invitation to another organisation with the account that the person has."""
    await sign_in.count_attempt(visit)
    with visit.form.refusals():
        made = await visit.write(invitations.join, visit.context.vault, visit.principal, token, visit.actor)
        visit.new_cookies["organization"] = made.client_organization_id
        return visit.redirect(
            ROOT, _("You now have access to this organisation. Choose at the top whose data you view.")
        )
    return _show_invitation(visit, token)


@action("/invitation/{token}", caller="anybody")
async def accept_invitation(visit: Visit, token: str) -> Response:
    form = visit.form
    wanted = form.read(Acceptance)
    if wanted is not None:
        await sign_in.count_attempt(visit)
        with form.refusals():
            # Looked at first: only somebody with an invitation gets a password hashed.
            await visit.read(invitations.find_pending, visit.context.vault, token)
            password_hash = await sign_in.hash_password(visit, wanted.password)
            user = await visit.write(
                invitations.accept, visit.context.vault, token,
                name=wanted.name, password_hash=password_hash, actor=visit.actor,
            )  # fmt: skip
            await sign_in.open_session(visit, user)
            return visit.redirect(ROOT, _("Welcome. You are now part of the organisation."))
    return _show_invitation(visit, token)


# --- Layout


@action("/look", caller="anybody")
async def change_look(visit: Visit) -> Response:
    """The switches in the layout: language, light or dark, shortcuts, an agency's client. An empty value follows the browser."""
    form = visit.form
    before = visit.person.preferences if visit.person else Preferences()
    wanted = before
    if form.text("language") in LANGUAGES:
        wanted = wanted._replace(language=form.text("language"))
        visit.new_cookies["language"] = form.text("language")
    if "theme" in form:
        theme = form.text("theme") if form.text("theme") in THEMES else ""
        wanted = wanted._replace(theme=theme or None)
        visit.new_cookies["theme"] = theme
    if form.text("shortcuts") in ("0", "1"):
        wanted = wanted._replace(shortcuts=int(form.text("shortcuts")))
    wished = form.text("organization")
    if visit.person is not None and wished in (visit.person.organization.id, *(one.id for one in visit.person.clients)):
        visit.new_cookies["organization"] = wished
        # The same page about the other one, if the role there may open it.
        other, wanted_page = people.look_at(visit.person, wished), _next(visit)
        return visit.redirect(wanted_page if visit.dependencies.menu.may_open(other, wanted_page) else ROOT)
    if visit.person is not None and wanted != before:
        await visit.write(people.save_preferences, visit.principal, wanted)
    return visit.redirect(_next(visit))


# Accounts at the identity provider: signing in with one, accepting an invitation with it, linking and unlinking it.


SIGN_IN, PROFILE = f"{ROOT}/sign-in", f"{ROOT}/profile"


@action("/sign-in/provider", caller="anybody")
async def set_out(visit: Visit) -> Response:
    return await _set_out(visit, Way("sign in", security.local_path(visit.form.text("next"), ROOT)))


@action("/invitation/{token}/provider", caller="anybody")
async def accept_invitation_at_provider(visit: Visit, token: str) -> Response:
    # Looked at first: only somebody with an invitation is led on.
    await visit.read(invitations.find_pending, visit.context.vault, token)
    return await _set_out(visit, Way("invitation", f"{ROOT}/invitation/{token}", token=token))


@action("/profile/account/link", own=True, role="read_only", confirm=True)
async def link(visit: Visit) -> Response:
    assert visit.person is not None
    return await _set_out(visit, Way("link", PROFILE, session_id=visit.person.session.id))


@action("/profile/account/{id}/unlink", own=True, role="read_only", confirm=True)
async def unlink(visit: Visit, id: str) -> Response:
    issuer = sign_in.provider_issuer(visit)
    removed = await visit.write(identities.unlink, visit.principal, id, issuer, visit.actor)
    return visit.redirect(PROFILE, _("“%(name)s” is no longer linked.", name=removed.label))


async def _set_out(visit: Visit, way: Way) -> Response:
    await sign_in.count_attempt(visit)
    try:
        return await sign_in.set_out_to_provider(visit, way)
    except Unavailable as error:
        return _back(visit, way, error)


@page("/sign-in/provider/callback", caller="anybody", help="sign-in")
async def come_back(visit: Visit) -> Response:
    """The page that the provider sends people to. Its address has a code in it, so that it leads on at once."""
    sign_in.provider_of(visit)
    way = Way("sign in", ROOT)
    try:
        state, way = await sign_in.take_return(visit)
        shown = await sign_in.redeem_code(visit, state, way)
        return await _arrive(visit, way, shown)
    except (Refusal, Unavailable) as error:
        if way.purpose == "confirm":
            return await confirmation.ask(visit, way.next, way.form, refusals.refusal(str(error)))
        return _back(visit, way, error)


async def _arrive(visit: Visit, way: Way, shown: Shown) -> Response:
    if way.purpose == "confirm":
        await sign_in.confirm_by_provider(visit, way, shown)
        return visit.show("confirmed.html", path=way.next, kept=way.form)
    if way.purpose == "link":
        assert visit.person is not None
        await visit.write(identities.link, visit.person.user, shown, visit.actor)
        return visit.redirect(PROFILE, _("“%(name)s” is linked to you. You can sign in with it.", name=shown.label))
    if way.purpose == "invitation":
        await sign_in.accept_by_provider(visit, way.token, shown)
        return visit.redirect(ROOT, _("Welcome. You are now part of the organisation."))
    ticket = await sign_in.enter_by_provider(visit, shown)
    if ticket:
        return visit.show("second_step.html", form=Form(), ticket=ticket, next=way.next)
    return visit.redirect(way.next)


def _back(visit: Visit, way: Way, error: Refusal | Unavailable) -> Response:
    """Leads to the page that the person came from, with what went wrong."""
    back = way.next
    if way.purpose == "sign in":
        back = SIGN_IN if way.next == ROOT else f"{SIGN_IN}?{urlencode({'next': way.next})}"
    return visit.redirect(back, refusals.refusal(str(error)), "bad")
