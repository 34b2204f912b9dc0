"""The person's own page: how the dashboard looks, and where they are signed in."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access import identities, passwords, sessions, users
from kontobahn.dashboard import notices, provider_sign_in, sign_in
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext

PATH = f"{ROOT}/profile"


@page("/profile", own=True, help="profile")
async def profile(visit: Visit) -> Response:
    principal = visit.principal
    found = await visit.read(sessions.of_user, principal.organization_id, principal.user_id or "")
    assert visit.person is not None
    user = visit.person.user
    return visit.show(
        "profile.html", provider=provider_sign_in.name(visit), issuer=provider_sign_in.issuer(visit),
        accounts=await visit.read(identities.of_user, user.organization_id, user.id),
        has_password=await visit.read(users.has_password, user),
        sessions=found, this=principal.session_id, sends_mail=bool(visit.context.settings.smtp_url),
        choices=notices.CHOICES, wanted=await visit.read(notices.chosen, user),
    )  # fmt: skip


class ChangePassword(Struct):
    old_password: Annotated[str, Meta(max_length=passwords.MAX_LENGTH)]
    new_password: Annotated[str, Meta(min_length=passwords.MIN_LENGTH, max_length=passwords.MAX_LENGTH)]


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
                passwords.change,
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
    return visit.redirect(PATH, ngettext("One session has ended.", "%(num)s sessions have ended.", ended))


@page("/keyboard", own=True, help="keyboard")
async def keyboard(visit: Visit) -> Response:
    return visit.show("keyboard.html")
