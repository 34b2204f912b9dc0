"""Whether events may be sent to a URL; and for a receiver on the caller's own machine, what to do instead."""

from __future__ import annotations

from urllib.parse import urlsplit

from kontobahn.api.call import Call
from kontobahn.errors import BadRequest
from kontobahn.events import Events
from kontobahn.outbound import Refused, is_private_host


async def check_url(call: Call, url: str, field: str) -> None:
    """Raises BadRequest if events must not be sent there."""
    try:
        await call.context.part(Events).outbound.check(url)
    except Refused as refusal:
        raise BadRequest(f"The field `{field}` is refused. {refusal}", field=field, **_hint(url)) from None


def _hint(url: str) -> dict[str, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return {}
    if not is_private_host(host):
        return {}
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return {
        "message": "Events go to public addresses only. To receive them at this one, run"
        f" `kontobahn listen --forward-to {parts.scheme}://{place}{parts.path[:200]}` there; or have the operator allow it with the"
        f" setting `webhook_allow={place}`."
    }
