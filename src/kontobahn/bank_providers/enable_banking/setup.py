"""Enable Banking from its settings, and one harmless question that tries them."""

from __future__ import annotations

import re
from pathlib import Path

from kontobahn.bank_providers.enable_banking.adapter import (
    NAME,
    THREADS,
    WAITING,
    EnableBankingProvider,
    EnableBankingSetup,
)
from kontobahn.bank_providers.enable_banking.client import Client, Rejected
from kontobahn.bank_providers.enable_banking.webhooks import Webhooks, read_public_key_file
from kontobahn.bank_providers.enable_banking.wire import Application
from kontobahn.bank_providers.http import Network, read_private_key
from kontobahn.banking.provider import ProviderDown
from kontobahn.clock import SECOND, Clock
from kontobahn.db import Database
from kontobahn.errors import SetupError
from kontobahn.outbound import Rule
from kontobahn.settings import Settings
from kontobahn.threads import Pool

_COUNTRY = re.compile(r"[A-Z]{2}")


def set_up(settings: Settings, db: Database, clock: Clock, network: Network, rule: Rule) -> EnableBankingProvider:
    """Raises SetupError if a setting cannot be used."""
    pool = Pool(NAME, threads=THREADS, waiting=WAITING)
    pinned = None
    if settings.enable_banking_webhook_key:
        pinned = read_public_key_file(Path(settings.enable_banking_webhook_key), clock.now() // SECOND)
    webhooks = Webhooks(network, clock, rule, settings.enable_banking_app_id, pinned)
    setup = EnableBankingSetup(_countries(settings), settings.base_url, settings.enable_banking_webhooks)
    return EnableBankingProvider(db, clock, make_client(settings, clock, network, pool), webhooks, pool, setup)


def make_client(settings: Settings, clock: Clock, network: Network, pool: Pool) -> Client:
    if not settings.enable_banking_app_id:
        raise SetupError("Set enable_banking_app_id first: the id that the application has at Enable Banking.")
    if not settings.enable_banking_key:
        raise SetupError("Set enable_banking_key: the file with the private key of the application at Enable Banking.")
    key = read_private_key(Path(settings.enable_banking_key).expanduser(), "enable_banking_key")
    return Client(
        network, clock, pool, url=settings.enable_banking_url, application_id=settings.enable_banking_app_id, key=key
    )


async def probe(settings: Settings, clock: Clock, network: Network, return_url: str) -> str:
    """Returns in a sentence how the application stands. Raises SetupError if it cannot be used at all."""
    pool = Pool(NAME, threads=1, waiting=1)
    try:
        found = await make_client(settings, clock, network, pool).get("/application", Application)
    except Rejected as error:
        if error.status == 401:
            raise SetupError(
                "Enable Banking does not know this application by this key: check enable_banking_app_id and"
                " enable_banking_key, and that the clock of this machine is right."
            ) from None
        said = error.refusal.message or error.code or f"HTTP status {error.status}"
        raise SetupError(f"Enable Banking refuses: {said.rstrip('.')}.") from None
    except ProviderDown as error:
        raise SetupError(f"{error}") from None
    finally:
        pool.close()
    return _judge(found, settings, return_url)


def _judge(found: Application, settings: Settings, return_url: str) -> str:
    who = f"Enable Banking knows the application “{found.name}” ({found.environment})"
    if not found.active:
        return f"{who}, but it is not active yet: link your own accounts, or sign the contract, in the control panel."
    missing = sorted(set(_countries(settings)) - set(found.countries)) if found.countries else []
    if not settings.base_url:
        return f"{who}. Set base_url: people come back to it from their bank."
    if return_url not in found.redirect_urls:
        return f"{who}, but people cannot come back: add the redirect URL {return_url} to it in the control panel."
    if missing:
        return f"{who}, but not for {', '.join(missing)} (enable_banking_countries)."
    paying = "accounts and payments" if "PIS" in found.services else "accounts, no payments"
    return f"{who}; it may use {paying}. Signing in is tried when somebody connects an account."


def _countries(settings: Settings) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip().upper() for name in settings.enable_banking_countries.split(","))))
    for name in names:
        if _COUNTRY.fullmatch(name) is None:
            raise SetupError(f"The setting enable_banking_countries names “{name}”; write codes like DE, AT.")
    return tuple(dict.fromkeys(names))
