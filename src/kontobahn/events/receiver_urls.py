"""Checks of the URLs that events are sent to; for a receiver on the caller's own machine, what to do instead."""

from __future__ import annotations

from urllib.parse import urlsplit

from kontobahn.api.call import Call
from kontobahn.errors import BadRequest
from kontobahn.events import Events
from kontobahn.outbound import Refused, is_private_host
from kontobahn.sentences import said


async def check_url(call: Call, url: str, field: str) -> None:
    """Raises BadRequest if events must not be sent there."""
    try:
        await call.context.part(Events).outbound.check(url)
    except Refused as refusal:
        raise BadRequest(
            said("The field `{field}` is refused. {why}", field=field, why=refusal), field=field, **_hint(url)
        ) from None


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
        "message": said(
            "Events go to public addresses only. To receive them at this one, run `kontobahn"
            " listen --forward-to {scheme}://{host}{path}` there; or have the operator allow"
            " it with the setting `webhook_allow={allowed}`.",
            scheme=parts.scheme,
            host=place,
            path=parts.path[:200],
            allowed=place,
        )
    }
