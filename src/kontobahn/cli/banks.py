"""`kontobahn banks`: whether a provider is set up rightly, tried with one harmless question; and accounts that stand twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from kontobahn import __version__
from kontobahn.access.audit import COMMAND_LINE
from kontobahn.access.principal import Principal
from kontobahn.bank_providers.ebics import adapter as ebics
from kontobahn.bank_providers.enable_banking import adapter as enable_banking
from kontobahn.bank_providers.enable_banking.adapter import NAME as ENABLE_BANKING
from kontobahn.bank_providers.fints.adapter import MAX_BYTES, SECONDS, Answered, probe, read_list
from kontobahn.bank_providers.salt_edge import adapter as salt_edge
from kontobahn.banking.interaction import RETURN_PATH
from kontobahn.cli.common import DataOption, Installation, OrganizationOption, installation
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock
from kontobahn.errors import SetupError
from kontobahn.outbound import OutboundClient, Refused, Rule, Unreached
from kontobahn.reconciliation import account_merges
from kontobahn.settings import Settings, load

app = typer.Typer(no_args_is_help=True)


@app.callback()
def banks() -> None:
    """Providers of bank connections, and accounts that stand twice."""


@app.command("try")
def attempt(
    provider: Annotated[
        str, typer.Argument(metavar="PROVIDER", help="ebics, enable-banking, fints, salt-edge, sandbox or files.")
    ],
    blz: Annotated[str, typer.Option("--blz", metavar="BLZ", help="For fints: which bank to ask.")] = "",
    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", help="Its address; for fints only if the list lacks it."),
    ] = "",
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="For ebics: the bank's host id.")] = "",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a provider something harmless, and say in a sentence what is wrong."""
    settings = load(data=data)
    if provider in ("sandbox", "files"):
        found = f"The provider {provider} reaches nothing outside: there is nothing to try."
    elif provider == "fints":
        found = asyncio.run(_try_fints(settings, blz, url))
    elif provider == "ebics":
        found = asyncio.run(_try_ebics(settings, url, host))
    elif provider in ("salt-edge", "salt_edge"):
        found = asyncio.run(salt_edge.probe(settings, SystemClock(), _network(settings)))
    elif provider.replace("-", "_") == ENABLE_BANKING:
        found = asyncio.run(_try_enable_banking(settings))
    else:
        raise SetupError(
            f"There is no provider “{provider}”: there are files, sandbox, ebics, fints, salt-edge, enable-banking."
        )
    say({"provider": provider, "found": found}, found, as_json=as_json)


def _network(settings: Settings) -> OutboundClient:
    return OutboundClient(Rule.of_setting(settings.bank_allow, "bank_allow"), user_agent=f"Kontobahn/{__version__}")


async def _try_enable_banking(settings: Settings) -> str:
    client = _network(settings)
    return_url = f"{settings.base_url}{RETURN_PATH}/{ENABLE_BANKING}"
    try:
        return await enable_banking.probe(settings, SystemClock(), client, return_url)
    finally:
        await client.close()


async def _try_ebics(settings: Settings, url: str, host: str) -> str:
    if not url or not host:
        raise SetupError(
            "Name the bank's address with --url and its host id with --host: both stand in its data sheet."
        )
    client = _network(settings)
    try:
        return await ebics.probe(client, url, host)
    finally:
        await client.close()


async def _try_fints(settings: Settings, blz: str, url: str) -> str:
    if not settings.fints_product_id:
        raise SetupError("Set fints_product_id first: the product id from the registration of FinTS products.")
    listed = read_list(Path(settings.fints_banks)) if settings.fints_banks else {}
    if not blz or not (url or blz in listed):
        raise SetupError("Name a bank with --blz, and its address with --url unless the file fints_banks has it.")
    url = url or listed[blz].url
    client = _network(settings)

    async def post(to: str, body: bytes) -> bytes:
        reply = await client.send(
            "POST", to, headers={"Content-Type": "text/plain"}, body=body, seconds=SECONDS, max_bytes=MAX_BYTES, whole=True
        )  # fmt: skip
        if reply.status != 200:
            raise Unreached("status", f"It answers with HTTP status {reply.status}.")
        return reply.content

    try:
        name = await probe(post, blz=blz, url=url, product_id=settings.fints_product_id)
    except (Refused, Unreached) as error:
        raise SetupError(f"The bank cannot be reached at {url}: {error}") from None
    except Answered as error:
        return f"The bank answers at this address, but refuses: {error}. Not every bank answers strangers; connect an account to be sure."
    except Exception as error:
        raise SetupError(f"What answers at {url} does not speak FinTS ({type(error).__name__}).") from None
    finally:
        await client.close()
    return f"{name} answers, and speaks FinTS. Login and TAN are tried when somebody connects an account."


# --- Accounts that stand twice


@app.command("merge")
def merge_accounts(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="The id of the account that stays.")],
    merged: Annotated[str, typer.Argument(metavar="MERGED", help="The id of the one that becomes part of it.")],
    organization: OrganizationOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without it nothing is changed.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what making one account of two with the same IBAN would do; with --yes do it."""
    with installation(data) as here:
        principal = _operator(here, organization)
        if not yes:
            shown = account_merges.shown(here.db.read_now(account_merges.preview, principal, account, merged))
            problems = "".join(f"\n{sentence}" for sentence in shown.problems)
            say(msgspec.to_builtins(shown), f"{_sentence(shown.counts)} Do it with --yes.{problems}", as_json=as_json)
            return
        compared = here.db.read_now(account_merges.compare_twins, principal, account, merged)
        made = here.db.write_now(account_merges.make, principal, COMMAND_LINE, account, merged, compared).data
    undo = f"Undo it with: kontobahn banks undo-merge {made.id}"
    say(msgspec.to_builtins(made), f"{_sentence(made.counts)} Done. {undo}", as_json=as_json)


@app.command("undo-merge")
def undo_merge(
    merge: Annotated[str, typer.Argument(metavar="MERGE", help="The id of the merge.")],
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make two accounts again of those that were made one, for as long as nothing contradicts it."""
    with installation(data) as here:
        principal = _operator(here, organization)
        prepared = here.db.read_now(account_merges.prepare_undo, principal, merge)
        made = here.db.write_now(account_merges.undo, principal, COMMAND_LINE, merge, prepared).data
    say(
        msgspec.to_builtins(made),
        f"The accounts {made.account_id} and {made.merged_account_id} are two again.",
        as_json=as_json,
    )


def _operator(here: Installation, organization: str | None) -> Principal:
    owner = here.organization(organization)
    return Principal(owner.id, "owner", (owner.id,))


def _sentence(counts: account_merges.MergeCounts) -> str:
    return (
        f"{counts.same} bookings are in both, {counts.moved} are added, {counts.left_out} are left out;"
        f" {counts.connections} connections, {counts.statements} statements and {counts.payments} payments are added."
    )
