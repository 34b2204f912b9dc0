"""Passkeys: what the browser is asked to sign, and whether it did. The library is loaded when somebody uses one."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from kontobahn.access import factors, users
from kontobahn.access.factors import Factor
from kontobahn.access.users import User
from kontobahn.dashboard.security import origin_of
from kontobahn.dashboard.visit import Visit
from kontobahn.db import Tx
from kontobahn.errors import Unauthorized
from kontobahn.json_text import decode_foreign
from kontobahn.settings import Settings

REFUSED = "This passkey was not accepted."
MAX_ANSWER_BYTES = 16 * 1024


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


async def begin_making(visit: Visit) -> Options:
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


async def finish_making(visit: Visit, ticket: str, answer: str, name: str) -> None:
    """Keeps the passkey that the browser made. Raises Unauthorized if the answer is not one to our challenge."""
    import webauthn
    from webauthn.helpers.exceptions import WebAuthnException

    assert visit.person is not None
    site, vault = site_of(visit.context.settings), visit.context.vault
    challenge = await visit.write(factors.take, vault, "passkey", ticket)
    if challenge.user_id != visit.person.user.id:
        raise Unauthorized(REFUSED)
    try:
        made = webauthn.verify_registration_response(
            credential=answer,
            expected_challenge=challenge.value,
            expected_rp_id=site.id,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError, RecursionError):
        raise Unauthorized(REFUSED) from None
    await visit.write(
        factors.add_passkey, visit.principal, name, visit.actor,
        credential_id=_text(made.credential_id), public_key=made.credential_public_key, counter=made.sign_count,
    )  # fmt: skip


async def begin_sign_in(visit: Visit) -> Options:
    import webauthn
    from webauthn.helpers import structs

    options = webauthn.generate_authentication_options(
        rp_id=site_of(visit.context.settings).id, user_verification=structs.UserVerificationRequirement.REQUIRED
    )
    ticket = await visit.write(factors.begin, visit.context.vault, "passkey sign-in", options.challenge)
    return Options(ticket, msgspec.Raw(webauthn.options_to_json(options).encode()))


async def finish_sign_in(visit: Visit, ticket: str, answer: str) -> User:
    """Returns the user whose passkey signed our challenge. Raises Unauthorized, always with the same words."""
    import webauthn
    from webauthn.helpers.exceptions import WebAuthnException

    site = site_of(visit.context.settings)
    challenge = await visit.write(factors.take, visit.context.vault, "passkey sign-in", ticket)
    known = await visit.read(_find, _credential_of(answer))
    if known is None or known[0].public_key is None:
        raise Unauthorized(REFUSED)
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
        raise Unauthorized(REFUSED) from None
    await visit.write(factors.note_passkey_use, factor, used.new_sign_count)
    return user


def _find(tx: Tx, credential_id: str) -> tuple[Factor, User] | None:
    factor = factors.by_credential(tx, credential_id)
    return None if factor is None else (factor, users.by_id(tx, factor.organization_id, factor.user_id))


def _credential_of(answer: str) -> str:
    try:
        sent: Any = decode_foreign(answer)
        return str(sent["rawId"])[:1400]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise Unauthorized(REFUSED) from None


def _text(credential_id: bytes) -> str:
    from webauthn.helpers import bytes_to_base64url

    return bytes_to_base64url(credential_id)
