"""The one way out to DATEV: every request goes through it, is bounded, and is kept for those who help, without a secret in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from kontobahn.clock import DAY, Clock
from kontobahn.db import Database, Tx
from kontobahn.ids import new_id
from kontobahn.json_text import decode_foreign, encode
from kontobahn.ledger.errors import RETRY_AFTER_SECONDS, ProviderError
from kontobahn.ledger.provider import ConnectionRef, SentRequest
from kontobahn.outbound import Refused, Reply, Unreached, redact

# DATEV's refusals, in each of the shapes that its services have, and the failure that the ledger port speaks of.


HELP = "https://apps.datev.de/help-center/"
# The page that explains a refusal, before the number that stands in its type.
_DOCUMENT = "https://apps.datev.de/help-center/documents/"
MAX_WORDS = 500
MAX_REST_SECONDS = 3600
# Nothing was sent, so nothing was done.
UNSENT = frozenset({"dns", "connect", "tls"})
# The same file, name and kind again, even under another GUID.
EXISTS_ALREADY = "#DCO01253"
# Codes of the older services, in words.
_CODES = {
    "#DCO01001": "the request is not understood",
    "#DCO01002": "the client is not set up for this service",
    "#DCO01003": "the job is not known",
    "#DCO01004": "the upload is not understood",
    "#DCO01005": "the sign-in lacks the scope for this service",
    "#DCO01007": "the job is final already",
    "#DCO01009": "the basic data of the client's books are inconsistent: the adviser can mend them",
    "#DCO01010": "there is no such document type",
    "#DCO01012": "it is there already",
    "#DCO01013": "this kind of sign-in is not enough",
    "#DCO01015": "files of this type are not taken",
    "#DCO01016": "the file is larger than 20 MB",
    "#DCO01019": "the client has no document store",
    "#DCO01020": "the service is switched off at the moment",
    "#DCO01216": "the file is larger than 20 MB",
    "#DCO01219": "the file is not of the type that its name says",
    "#DCO01234": "the GUID is of the wrong kind",
    "#DCO01243": "a virus was found in the file",
    EXISTS_ALREADY: "the same file is there already",
    "#DCO01301": "the client uses the new Belege online, for which this service does not work",
}


class Problem(Struct):
    """A refusal in any of its shapes: problem JSON, the older services' codes, or nothing but the id of the request."""

    type: str = ""
    title: str = ""
    detail: str = ""
    error: str = ""
    error_description: str = ""
    error_uri: str = ""
    request_id: str = ""
    requestId: str = ""


def problem_of(reply: Reply) -> Problem:
    try:
        return decode_foreign(reply.content, Problem)
    except msgspec.DecodeError:
        # From something in between.
        return Problem()


def failure(reply: Reply) -> ProviderError:
    """Returns the failure for an answer that is not the one asked for."""
    problem = problem_of(reply)
    words = _CODES.get(problem.error) or ": ".join(
        filter(None, (problem.title or problem.error_description, problem.detail))
    )
    code = problem.error or problem.type.rstrip("/").rpartition("/")[2] or None
    return ProviderError(
        reply.status,
        (words or f"DATEV answers with status {reply.status} and no reason")[:MAX_WORDS],
        type=code,
        help_url=help_url(problem) if 400 <= reply.status < 500 else "",
        retry_after_seconds=retry_after(reply.headers),
    )


def help_url(problem: Problem) -> str:
    """Returns DATEV's page about a refusal; that of its help if it names none."""
    if problem.error_uri.startswith("https://"):
        return problem.error_uri
    number = problem.type.rpartition("/")[2]
    if "datev.de/" in problem.type and number.isdigit():
        return _DOCUMENT + number
    return problem.type if problem.type.startswith("https://") else HELP


def retry_after(headers: Mapping[str, str]) -> int:
    text = headers.get("Retry-After", "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) < 8
    return min(max(int(text), 1), MAX_REST_SECONDS) if is_number else RETRY_AFTER_SECONDS


def not_reached(error: Refused | Unreached) -> ProviderError:
    return ProviderError(None, f"DATEV cannot be reached: {error}", type="unreachable")


def is_unsent(error: Refused | Unreached) -> bool:
    """Returns whether it is certain that nothing reached DATEV."""
    return isinstance(error, Refused) or error.kind in UNSENT


def ended(status: str) -> ProviderError:
    """Returns the failure of a sign-in that has ended."""
    return ProviderError(401, f"the sign-in at DATEV is {status}: sign in again", type=status, help_url=HELP)


SECONDS = 60.0
MAX_BYTES = 4 * 1024 * 1024
# DATEV wants them for at least this long.
KEPT_DAYS = 14
MAX_BODY = 4_000
_PURGED_AT_ONCE = 1_000
_SECRET_HEADERS = ("authorization", "cookie")


class Network(Protocol):
    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, seconds: float, max_bytes: int, whole: bool
    ) -> Reply: ...  # fmt: skip

    async def close(self) -> None: ...


class Requests:
    def __init__(self, db: Database, clock: Clock, network: Network) -> None:
        self._db, self._clock, self._network = db, clock, network

    async def send(
        self,
        connection: ConnectionRef,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        secrets: tuple[str, ...] = (),
        tells_state: bool = False,
        hides_body: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> Reply:
        """Sends one request, once. Raises Refused or Unreached if there is no answer.

        The body of an answer is kept if it is an error or `tells_state`, but for an answer that `hides_body`: one with tokens in it.
        """
        sent_at = self._clock.now()
        reply: Reply | None = None
        failed = ""
        try:
            reply = await self._network.send(
                method, url, headers=headers, body=body, seconds=SECONDS, max_bytes=max_bytes, whole=True
            )
        except (Refused, Unreached) as error:
            failed = str(not_reached(error))
            raise
        finally:
            kept = failed
            if reply is not None and not hides_body and (reply.status >= 400 or tells_state):
                kept = reply.content[:MAX_BODY].decode("utf-8", "replace")
            given = reply.headers if reply is not None else {}
            await self._db.write(
                _keep,
                connection,
                SentRequest(
                    new_id(),
                    sent_at,
                    method,
                    redact(url, *secrets),
                    _public(headers, secrets),
                    reply.status if reply is not None else None,
                    given.get("X-Global-Transaction-ID", "")[:200],
                    given.get("V-Cap-Request-ID", "")[:200],
                    redact(kept, *secrets).replace("\x00", ""),
                ),
            )
        return reply

    async def close(self) -> None:
        await self._network.close()


def _public(headers: Mapping[str, str], secrets: tuple[str, ...]) -> str:
    shown = {name: value for name, value in headers.items() if name.lower() not in _SECRET_HEADERS}
    return redact(encode(shown).decode(), *secrets)


# --- Kept


def _keep(tx: Tx, connection: ConnectionRef, request: SentRequest) -> None:
    tx.run(
        "INSERT INTO datev_requests (organization_id, connection_id, id, sent_at, method, url, headers, status, transaction_id,"
        " request_id, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        connection.organization_id, connection.id, *request,
    )  # fmt: skip


def listing(tx: Tx, connection: ConnectionRef, before: str | None, limit: int) -> list[SentRequest]:
    """Returns the requests of a connection, the latest first."""
    rows = tx.all(
        "SELECT id, sent_at, method, url, headers, status, transaction_id, request_id, body FROM datev_requests"
        " WHERE organization_id = ? AND connection_id = ? AND id < ? ORDER BY id DESC LIMIT ?",
        connection.organization_id, connection.id, before or "g", limit,
    )  # fmt: skip
    return [SentRequest._make(row) for row in rows]


def purge(tx: Tx) -> int:
    """Deletes some of those that are old enough. Returns how many."""
    old = tx.all(
        "SELECT organization_id, id FROM datev_requests WHERE sent_at < ? ORDER BY sent_at LIMIT ?",
        tx.now - KEPT_DAYS * DAY, _PURGED_AT_ONCE,
    )  # fmt: skip
    tx.many("DELETE FROM datev_requests WHERE organization_id = ? AND id = ?", old)
    return len(old)
