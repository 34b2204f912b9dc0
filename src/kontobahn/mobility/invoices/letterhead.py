"""The logo over HTTP: set, read, removed. Invoices that were issued keep theirs."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, put
from kontobahn.api.wire import Answer, Download, OrganizationQuery, Upload
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.mobility import examples, seller
from kontobahn.mobility.invoices import documents
from kontobahn.mobility.seller import Logo, MediaType

_PATH = "/v2/mobility/seller/logo"
_ERRORS = (403, 404)
_ENDINGS: dict[MediaType, str] = {"image/png": "png", "image/jpeg": "jpg"}


class LogoAnswer(Answer):
    media_type: MediaType
    width: Annotated[int, Meta(description="In pixels.")]
    height: int
    sha256: Annotated[str, Meta(description="The file's checksum.")]


class RemovedLogoAnswer(Answer):
    removed: bool


@get(_PATH, scope="mobility:read", errors=_ERRORS, media_types=tuple(_ENDINGS))
async def get_logo(call: Call, query: OrganizationQuery) -> Download:
    """Read the logo that the next invoice will show. 404 if there is none."""
    organization_id = call.principal.organization(query.organization_id)
    found = await call.read(seller.current_logo, organization_id)
    if found is None:
        raise call.principal.missing("Logo")
    return Download(found.content, found.media_type, f"logo.{_ENDINGS[found.media_type]}")


@put(
    _PATH,
    scope="mobility:write",
    role="admin",
    max_body_bytes=seller.MAX_LOGO_BYTES,
    errors=(403, 404, 503),
    example=examples.LOGO,
)
async def save_logo(call: Call, query: OrganizationQuery, body: Upload) -> LogoAnswer:
    """Set the logo in the letterhead of invoices: a PNG or JPEG picture of up to 256 KiB and 4,000 pixels on a side.

    It is printed once for a try; what cannot be printed is refused. Invoices that were issued stay as they are.
    """
    organization_id = call.principal.organization(query.organization_id)
    return await call.commit(_save, organization_id, await received(body), call.actor)


@delete(_PATH, scope="mobility:write", role="admin", errors=_ERRORS)
async def delete_logo(call: Call, query: OrganizationQuery) -> RemovedLogoAnswer:
    """Make further invoices without a logo."""
    organization_id = call.principal.organization(query.organization_id)
    return await call.commit(_remove, call.principal, organization_id, call.actor)


async def received(upload: Upload) -> Logo:
    """Returns the picture that was sent. Raises BadRequest if it is none, or cannot be printed."""
    upload.file.seek(0)
    checked = await asyncio.to_thread(seller.check_logo, upload.file.read(seller.MAX_LOGO_BYTES + 1))
    if not await documents.can_be_printed(checked):
        raise BadRequest("This picture cannot be printed. Save it again with another program.", field="logo")
    return checked


def _save(tx: Tx, organization_id: str, new: Logo, actor: Actor) -> LogoAnswer:
    seller.save_logo(tx, organization_id, new, actor)
    return LogoAnswer(media_type=new.media_type, width=new.width, height=new.height, sha256=new.sha256)


def _remove(tx: Tx, principal: Principal, organization_id: str, actor: Actor) -> RemovedLogoAnswer:
    seller.load_locked(tx, organization_id)
    if seller.current_logo(tx, organization_id) is None:
        raise principal.missing("Logo")
    seller.save_logo(tx, organization_id, None, actor)
    return RemovedLogoAnswer(removed=True)
