"""`kontobahn webhooks`: where an organisation's events are sent."""

from __future__ import annotations

import asyncio
from typing import Annotated, get_args

import typer

from kontobahn.access import audit
from kontobahn.access.principal import Principal
from kontobahn.app import open_outbound_client
from kontobahn.cli.common import DataOption, Installation, OrganizationOption, installation, moment, one_of, say_table
from kontobahn.cli.output import JsonOption, say
from kontobahn.errors import BadRequest, NotFound
from kontobahn.outbound import Refused
from kontobahn.settings import Settings
from kontobahn.webhooks import further, receiver
from kontobahn.webhooks.further import Wanted
from kontobahn.webhooks.outbox import EventName

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
            further.create, here.vault, owner.id, Wanted(url, names, description), audit.COMMAND_LINE
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
        found = here.db.write_now(further.pause, _owner_of(here, endpoint_id), endpoint_id, audit.COMMAND_LINE)
    say({"endpoint_id": found.id, "state": found.state}, f"{found.url} is {found.state}.", as_json=as_json)


@app.command("resume")
def resume(endpoint_id: EndpointArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Resume an endpoint that was paused or gone; what has been waiting is sent first."""
    with installation(data) as here:
        found = here.db.write_now(further.resume, _owner_of(here, endpoint_id), endpoint_id, audit.COMMAND_LINE)
    say({"endpoint_id": found.id, "state": found.state}, f"{found.url} is {found.state}.", as_json=as_json)


@app.command("delete")
def delete(endpoint_id: EndpointArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Delete a further endpoint; nothing more is sent there."""
    with installation(data) as here:
        here.db.write_now(further.delete, _owner_of(here, endpoint_id), endpoint_id, audit.COMMAND_LINE)
    say({"endpoint_id": endpoint_id, "deleted": True}, f"The endpoint {endpoint_id} is deleted.", as_json=as_json)


def _owner_of(here: Installation, endpoint_id: str) -> Principal:
    """The operator acts for whichever organisation has the endpoint."""
    found = here.db.read_now(receiver.find_for_operator, endpoint_id)
    if found is None:
        raise NotFound(f"There is no webhook endpoint {endpoint_id}. `kontobahn webhooks list` shows them.")
    return Principal(found.organization_id, "owner", (found.organization_id,))
