"""Received invoices that are handed over by their address: fetched here, within bounds, and received as any other file."""

from __future__ import annotations

import hashlib
from io import BytesIO
from typing import Annotated
from urllib.parse import unquote, urlsplit

from msgspec import Meta

from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import post
from kontobahn.api.wire import Body, OrganizationQuery, Upload
from kontobahn.errors import BadRequest, Conflict
from kontobahn.events import Events
from kontobahn.outbound import Refused, Unreached
from kontobahn.payables import routes as payables
from kontobahn.payables.routes import MAX_FILE_BYTES, FilesQuery
from kontobahn.payables.wire import Payable
from kontobahn.sentences import said

FETCH_SECONDS = 20
MAX_NAME = 255


class NewFileAddress(Body):
    address: Annotated[
        str,
        Meta(min_length=8, max_length=2000, description="Where the file lies, public and over TLS; redirects are not followed."),
    ]  # fmt: skip
    file_name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)] | None = None


@post(
    "/v2/payables/files/by-address",
    scope="payables:write",
    statuses=(201, 200),
    errors=(403, 404, 409, 413, 422),
    body_example={"address": "https://files.example.com/invoices/RE-2026-118.xml"},
)
async def receive_by_address(call: Call, query: OrganizationQuery, body: NewFileAddress) -> Data[Payable]:
    """Send a received invoice by its address instead of its bytes. The answers are those of `POST /v2/payables/files`."""
    organization_id = call.principal.organization(query.organization_id)
    content = await _fetch(call, body.address)
    name = body.file_name or unquote(urlsplit(body.address).path.rpartition("/")[2])[:MAX_NAME]
    upload = Upload(BytesIO(content), name, len(content), hashlib.sha256(content).hexdigest())
    answer: Data[Payable] = await payables.receive_file.handler(
        call, query=FilesQuery(organization_id=organization_id), body=upload
    )
    return answer


async def _fetch(call: Call, address: str) -> bytes:
    try:
        reply = await call.context.part(Events).outbound.send(
            "GET", address, seconds=FETCH_SECONDS, max_bytes=MAX_FILE_BYTES, whole=True
        )
    except Refused as error:
        raise BadRequest(str(error), field="address") from None
    except Unreached as error:
        raise Conflict(said("The file could not be fetched. {reason}", reason=str(error)), field="address") from None
    if reply.status != 200:
        raise Conflict(said("The address answered with {status}.", status=reply.status), field="address")
    return reply.content
