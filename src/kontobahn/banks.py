"""The banking providers of an installation: which there are, how they reach the network, and which of them connect banks."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from kontobahn import __version__
from kontobahn.banking.provider import Banking, BankProvider
from kontobahn.banking.providers.files.adapter import FilesProvider
from kontobahn.banking.providers.salt_edge import setup as salt_edge
from kontobahn.clock import Clock
from kontobahn.db import Database
from kontobahn.errors import SetupError
from kontobahn.outbound import OutboundClient, Rule
from kontobahn.sandbox_bank import adapter as sandbox
from kontobahn.sandbox_bank.adapter import SandboxProvider
from kontobahn.settings import Settings
from kontobahn.vault import Vault

FINTS, ENABLE_BANKING = "fints", "enable_banking"
# The setting that sets a provider up.
_NEEDS = {FINTS: "fints_product_id", salt_edge.NAME: "salt_edge_app_id", ENABLE_BANKING: "enable_banking_app_id"}


def set_up(settings: Settings, db: Database, vault: Vault, clock: Clock) -> Banking:
    providers: dict[str, BankProvider] = {
        FilesProvider.name: FilesProvider(settings.order_file_days),
        sandbox.NAME: SandboxProvider(db, vault, settings, clock, LoopbackClient()),
    }
    if settings.fints_product_id:
        providers[FINTS] = _fints(settings, db, vault, clock, providers[FilesProvider.name])
    if settings.salt_edge_app_id:
        providers[salt_edge.NAME] = salt_edge.set_up(settings, vault, clock, _network(settings))
    if settings.enable_banking_app_id:
        providers[ENABLE_BANKING] = _enable_banking(settings, db, clock)
    return Banking(providers, connect_providers(settings, providers), set())


def _fints(settings: Settings, db: Database, vault: Vault, clock: Clock, orders: BankProvider) -> BankProvider:
    if find_spec("fints") is None:
        raise SetupError("The setting fints_product_id needs the package fints: install kontobahn[fints].")
    from kontobahn.banking.providers.fints.adapter import FintsProvider
    from kontobahn.banking.providers.fints.bank_list import read_list

    banks = read_list(Path(settings.fints_banks)) if settings.fints_banks else {}
    return FintsProvider(db, vault, clock, _network(settings), settings.fints_product_id, banks, orders)


def _network(settings: Settings) -> OutboundClient:
    return OutboundClient(Rule.of_setting(settings.bank_allow), user_agent=f"Kontobahn/{__version__}")


def _enable_banking(settings: Settings, db: Database, clock: Clock) -> BankProvider:
    from kontobahn.banking.providers.enable_banking.setting_up import provider

    network = _network(settings)
    return provider(settings, db, clock, network, network.rule)


def connect_providers(settings: Settings, providers: dict[str, BankProvider]) -> tuple[str, ...]:
    """Reads the setting that names them. Raises SetupError if a name is of no provider here."""
    names = tuple(filter(None, (name.strip() for name in settings.connect_provider.split(","))))
    for name in names:
        if name in _NEEDS and name not in providers:
            raise SetupError(f"The provider {name} needs the setting {_NEEDS[name]}.")
        if name not in providers:
            known = ", ".join(providers)
            raise SetupError(f"The setting connect_provider names “{name}”; there are {known}.")
    # Accounts that are kept by files are not connected.
    return tuple(dict.fromkeys(name for name in names if name != FilesProvider.name))


class LoopbackClient:
    """How the sandbox bank reaches our webhook endpoint: at an address of the operator's choice, so any is allowed."""

    def __init__(self) -> None:
        self._outbound = OutboundClient(Rule(anywhere=True), user_agent="Kontobahn sandbox bank")

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> int:
        return (await self._outbound.send("POST", url, headers=headers, body=body)).status

    async def close(self) -> None:
        await self._outbound.close()
