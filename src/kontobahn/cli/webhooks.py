"""`kontobahn webhooks`: where an organisation's events are sent."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
import typer

from kontobahn.access import audit
from kontobahn.access.principal import Principal
from kontobahn.app import open_outbound_client
from kontobahn.cli.common import (
    DataOption,
    Installation,
    KeyOption,
    OrganizationOption,
    UrlOption,
    installation,
    moment,
    one_of,
    say_table,
    service_and_key,
)
from kontobahn.cli.output import JsonOption, say
from kontobahn.errors import BadRequest, NotFound, SetupError, Unavailable
from kontobahn.outbound import OutboundClient, Refused, Reply, Rule, Unreached
from kontobahn.settings import Settings
from kontobahn.webhooks import endpoints, receiver
from kontobahn.webhooks.endpoints import Wanted
from kontobahn.webhooks.outbox import EventName
from kontobahn.webhooks.receiver import key_of, new_secret, signed_headers

app = typer.Typer(no_args_is_help=True)
EVENT_NAMES: tuple[EventName, ...] = get_args(EventName)
EndpointArgument = Annotated[
    str, typer.Argument(metavar="ENDPOINT_ID", help="Id of the endpoint, from `kontobahn webhooks list`.")
]


@app.command("create")
def create(
    url: Annotated[str, typer.Option("--url", help="A public https address.")],
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            metavar="NAME",
            help="Only this event; may be repeated. Default: all of them.",
            autocompletion=one_of(*EVENT_NAMES),
        ),
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="What it is for.")] = None,
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a further endpoint for events and show its secret, once.

    Example: kontobahn webhooks create --url https://shop.example/events --event payment_update
    """
    unknown = [name for name in event or () if name not in EVENT_NAMES]
    if unknown:
        raise typer.BadParameter(f"“{unknown[0]}” is not an event: {', '.join(EVENT_NAMES)}.")
    names = tuple(name for name in EVENT_NAMES if name in event) if event else None
    with installation(data) as here:
        asyncio.run(_check_url(here.settings, url))
        owner = here.organization(organization)
        made, secret = here.db.write_now(
            endpoints.create, here.vault, owner.id, Wanted(url, names, description), audit.COMMAND_LINE
        )
    say(
        {"endpoint_id": made.id, "url": made.url, "events": names, "secret": secret},
        f"{secret}\n\nSave it now: deliveries are signed with it, and it cannot be shown again. The endpoint is {made.id}.",
        as_json=as_json,
    )


async def _check_url(settings: Settings, url: str) -> None:
    client = open_outbound_client(settings)
    try:
        await client.check(url)
    except Refused as refusal:
        raise BadRequest(f"This URL is refused. {refusal}") from None
    finally:
        await client.close()


@app.command("list")
def show(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List where an organisation's events are sent: the URL of the API first, then the further endpoints."""
    with installation(data) as here:
        owner = here.organization(organization)
        found = here.db.read_now(receiver.listing, owner.id)
    rows = [
        (
            item.id, item.url, item.state, item.events if not as_json or item.events is None else item.events.split(),
            item.description, moment(item.failing_since), moment(item.stopped_at),
        )
        for item in found
    ]  # fmt: skip
    columns = ("endpoint_id", "url", "state", "events", "description", "failing_since", "stopped_at")
    say_table(columns, rows, as_json=as_json, empty=f"“{owner.name}” has no receiver of events.")


@app.command("pause")
def pause(endpoint_id: EndpointArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Send nothing to an endpoint until it is resumed; its events wait."""
    with installation(data) as here:
        found = here.db.write_now(endpoints.pause, _owner_of(here, endpoint_id), endpoint_id, audit.COMMAND_LINE)
    say({"endpoint_id": found.id, "state": found.state}, f"{found.url} is {found.state}.", as_json=as_json)


@app.command("resume")
def resume(endpoint_id: EndpointArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Resume an endpoint that was paused or gone; what has been waiting is sent first."""
    with installation(data) as here:
        found = here.db.write_now(endpoints.resume, _owner_of(here, endpoint_id), endpoint_id, audit.COMMAND_LINE)
    say({"endpoint_id": found.id, "state": found.state}, f"{found.url} is {found.state}.", as_json=as_json)


@app.command("delete")
def delete(endpoint_id: EndpointArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Delete a further endpoint; nothing more is sent there."""
    with installation(data) as here:
        here.db.write_now(endpoints.delete, _owner_of(here, endpoint_id), endpoint_id, audit.COMMAND_LINE)
    say({"endpoint_id": endpoint_id, "deleted": True}, f"The endpoint {endpoint_id} is deleted.", as_json=as_json)


def _owner_of(here: Installation, endpoint_id: str) -> Principal:
    """The operator acts for whichever organisation has the endpoint."""
    found = here.db.read_now(receiver.find_for_operator, endpoint_id)
    if found is None:
        raise NotFound(f"There is no webhook endpoint {endpoint_id}. `kontobahn webhooks list` shows them.")
    return Principal(found.organization_id, "owner", (found.organization_id,))


# `kontobahn listen`: follows the log of events over the API and forwards each as the service would deliver it.
#
# For developers without a public address: it runs beside their receiver, needs only a key, and survives restarts of the
# service.


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
