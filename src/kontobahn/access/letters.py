"""Letters to people whose language is not known yet: German first, English below."""

from __future__ import annotations

from kontobahn.access import invitations, organizations, passwords, users
from kontobahn.access.audit import Actor
from kontobahn.access.invitations import NewInvitation
from kontobahn.access.passwords import NewPasswordReset
from kontobahn.clock import berlin_datetime
from kontobahn.db import Tx
from kontobahn.mail import outbox
from kontobahn.mail.outbox import Mail
from kontobahn.settings import Settings
from kontobahn.vault import Vault

MINUTES_BETWEEN_LINKS = 10
_DAY_DE, _DAY_EN = "%d.%m.%Y, %H:%M Uhr", "%d %B %Y, %H:%M"

_INVITED = "Einladung zu {organization} / Invitation to {organization}"
_INVITATION = """\
Guten Tag,

Sie sind eingeladen, bei Kontobahn für {organization} mitzuarbeiten. Mit diesem Link legen Sie Ihr Passwort fest:

{link}

Der Link funktioniert einmal und bis {until_de}. Wenn Sie die Einladung nicht erwartet haben, tun Sie nichts.

--

Hello,

you are invited to work with {organization} on Kontobahn. Open this link to choose your password:

{link}

It works once, until {until_en}. If you did not expect this invitation, do nothing.
"""

_NEW_PASSWORD = """\
Guten Tag {name},

mit diesem Link legen Sie ein neues Passwort für Kontobahn fest:

{link}

Der Link funktioniert einmal und bis {until_de}. Wenn Sie ihn nicht angefordert haben, tun Sie nichts: Ihr Passwort bleibt, wie es ist.

--

Hello {name},

open this link to choose a new password for Kontobahn:

{link}

It works once, until {until_en}. If you did not ask for it, do nothing: your password stays as it is.
"""


def send_invitation(tx: Tx, vault: Vault, settings: Settings, new: NewInvitation) -> bool:
    """Returns False if there is no mail server, and the link is to be handed over by whoever invites."""
    if not settings.smtp_url:
        return False
    invitation = new.invitation
    name = organizations.get(tx, invitation.organization_id).name
    text = _INVITATION.format(
        organization=name, link=invitations.link(settings.base_url, new.secret), **_both(invitation.expires_at)
    )
    outbox.put(tx, vault, invitation.organization_id, Mail(invitation.email, _INVITED.format(organization=name), text))
    return True


def send_password_link(tx: Tx, vault: Vault, settings: Settings, new: NewPasswordReset) -> bool:
    """Returns False if there is no mail server, and the link is to be handed over by whoever made it."""
    if not settings.smtp_url:
        return False
    user = new.user
    text = _NEW_PASSWORD.format(
        name=user.name, link=passwords.link(settings.base_url, new.secret), **_both(new.reset.expires_at)
    )
    outbox.put(tx, vault, user.organization_id, Mail(user.email, "Neues Passwort / New password", text))
    return True


def send_requested_link(tx: Tx, vault: Vault, settings: Settings, email: str, actor: Actor) -> None:
    """Sends whoever has this address a link, at most one in ten minutes. Nothing says whether anybody has it."""
    found = users.by_email(tx, users.normal_email(email))
    if found is None or passwords.has_recent_reset(tx, found[0], minutes=MINUTES_BETWEEN_LINKS):
        return
    user, _ = found
    new = passwords.create_reset(tx, vault, user, hours=settings.password_reset_hours, actor=actor)
    send_password_link(tx, vault, settings, new)


def _both(until: int) -> dict[str, str]:
    moment = berlin_datetime(until)
    return {"until_de": moment.strftime(_DAY_DE), "until_en": moment.strftime(_DAY_EN)}
