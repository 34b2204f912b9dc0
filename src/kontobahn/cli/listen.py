"""`kontobahn listen`: follows the log of events over the API and forwards each as the service would deliver it.

For developers without a public address: it runs beside their receiver, needs only a key, and survives restarts of the service.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from kontobahn.cli.common import DataOption, KeyOption, UrlOption, service_and_key
from kontobahn.cli.output import JsonOption
from kontobahn.errors import SetupError, Unavailable
from kontobahn.outbound import OutboundClient, Refused, Reply, Rule, Unreached
from kontobahn.webhooks.signatures import key_of, new_secret, signed_headers

WAIT_SECONDS = 20
ANSWER_SECONDS = 15
MAX_PAUSE_SECONDS = 10.0
MAX_BYTES = 64 * 1024 * 1024


class LoggedEvent(msgspec.Struct):
    """An event of the log; the parts of its body as they were written, so that it can be reassembled exactly."""

    id: str
    subject: str
    event: msgspec.Raw
    data: msgspec.Raw
    received_at: msgspec.Raw

    @property
    def body(self) -> bytes:
        return b'{"event":%s,"data":%s,"received_at":%s}' % (
            bytes(self.event),
            bytes(self.data),
            bytes(self.received_at),
        )

    @property
    def name(self) -> str:
        return msgspec.json.decode(self.event, type=str)


class Page(msgspec.Struct):
    data: list[LoggedEvent]
    next_cursor: str


class Source(NamedTuple):
    client: OutboundClient
    url: str
    key: str


def listen(
    forward_to: Annotated[str, typer.Option("--forward-to", metavar="URL", help="Your receiver.")],
    url: UrlOption = None,
    key: KeyOption = None,
    secret: Annotated[
        str | None, typer.Option("--secret", help="Sign with this secret (default: a new one, which is printed).")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="All events of the log, not only those from now on.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of the log instead of waiting there.")] = False,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after this many events.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forward events to a receiver of your own, as they happen.

    Example: kontobahn listen --forward-to http://localhost:3000/events
    """
    url, key = service_and_key(url, key, data)
    secret = secret or new_secret()
    try:
        signing_key = key_of(secret)
        Rule(anywhere=True).parse(forward_to)
        Rule(anywhere=True).parse(url)
    except (ValueError, Refused) as error:
        raise SetupError(str(error)) from None

    async def main() -> int:
        client = OutboundClient(Rule(anywhere=True), user_agent="Kontobahn listen")
        source = Source(client, url.rstrip("/"), key)
        try:
            cursor = "0" if from_start else await _end_of_log(source)
            # Printed only now: every event from here on is forwarded.
            _say(f"Forwarding events of {url} to {forward_to}, signed with {secret}", aside=as_json)
            events = _events(source, cursor, once=once)
            return await _forward_all(client, forward_to, signing_key, events, count, as_json=as_json)
        finally:
            await client.close()

    if asyncio.run(main()):
        raise typer.Exit(1)


async def _forward_all(
    client: OutboundClient,
    forward_to: str,
    signing_key: bytes,
    events: AsyncIterator[LoggedEvent],
    count: int | None,
    *,
    as_json: bool,
) -> int:
    """Forwards all events, or as many as `count` says. Returns how many the receiver did not accept."""
    seen = failed = 0
    async for event in events:
        failed += not await _forward(client, forward_to, signing_key, event, as_json=as_json)
        seen += 1
        if seen == count:
            break
    return failed


async def _forward(
    client: OutboundClient, forward_to: str, signing_key: bytes, event: LoggedEvent, *, as_json: bool
) -> bool:
    headers = signed_headers(event.id, int(time.time()), event.body, [signing_key])
    started, status, reason = time.perf_counter(), None, None
    try:
        status = (
            await client.send("POST", forward_to, body=event.body, headers=headers, seconds=ANSWER_SECONDS)
        ).status
    except Unreached as error:
        reason = str(error)
    milliseconds = round((time.perf_counter() - started) * 1000)
    if as_json:
        line = {"id": event.id, "event": event.name, "subject": event.subject, "status": status, "reason": reason}
        _say(msgspec.json.encode({**line, "milliseconds": milliseconds}).decode())
    else:
        _say(
            f"{time.strftime('%H:%M:%S')}  {event.name}  {event.subject}  {event.id}  → {status or reason} ({milliseconds} ms)"
        )
    return status is not None and 200 <= status < 300


async def _end_of_log(source: Source) -> str:
    return (await _page(source, "sort=newest&limit=1")).next_cursor


async def _events(source: Source, cursor: str, *, once: bool) -> AsyncIterator[LoggedEvent]:
    while True:
        page = await _page(source, f"cursor={cursor}&limit=100" + ("" if once else f"&wait={WAIT_SECONDS}"))
        for event in page.data:
            yield event
        cursor = page.next_cursor
        if once and not page.data:
            return


async def _page(source: Source, query: str) -> Page:
    """Returns a page of the log; tries again for as long as the service is unavailable."""
    pause = 0.5
    while True:
        try:
            reply = await source.client.send(
                "GET", f"{source.url}/v2/banking/events?{query}&quelle=listen", headers={"x-api-key": source.key},
                seconds=WAIT_SECONDS + ANSWER_SECONDS, max_bytes=MAX_BYTES,
            )  # fmt: skip
        except Unreached as error:
            why = str(error)
        else:
            if reply.status == 200:
                return msgspec.json.decode(reply.content, type=Page)
            why = _why(reply)
            pause = max(pause, float(reply.headers.get("Retry-After", 0)))
        print(f"kontobahn: the service is unavailable ({why}); trying again in {pause:g} s", file=sys.stderr)
        await asyncio.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)


def _why(reply: Reply) -> str:
    """Returns what the service said if it is worth retrying; raises it otherwise."""
    try:
        body: dict[str, Any] = msgspec.json.decode(reply.content, type=dict)
    except msgspec.DecodeError:
        body = {}
    sentence = str(body.get("error") or f"it answered {reply.status}")
    if reply.status == 429 or reply.status >= 500:
        return sentence
    raise (SetupError if reply.status < 500 else Unavailable)(f"The service refused: {sentence}")


def _say(line: str, *, aside: bool = False) -> None:
    print(line, file=sys.stderr if aside else sys.stdout, flush=True)
