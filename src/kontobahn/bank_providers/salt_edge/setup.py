"""Salt Edge from its settings, and one harmless question that tries them."""

from __future__ import annotations

from pathlib import Path

from kontobahn.bank_providers.http import Network, read_private_key
from kontobahn.bank_providers.salt_edge.adapter import NAME, SaltEdgeProvider
from kontobahn.bank_providers.salt_edge.client import Answered, SaltEdgeClient
from kontobahn.bank_providers.salt_edge.rules import REMEDIES
from kontobahn.bank_providers.salt_edge.webhooks import read_public_keys
from kontobahn.bank_providers.salt_edge.wire import Page, Provider
from kontobahn.banking.provider import ProviderDown
from kontobahn.clock import Clock
from kontobahn.errors import SetupError
from kontobahn.settings import Settings
from kontobahn.vault import Vault

__all__ = ["NAME", "probe", "set_up"]


def set_up(settings: Settings, vault: Vault, clock: Clock, network: Network) -> SaltEdgeProvider:
    """Raises SetupError, naming the setting, if one is missing or cannot be used."""
    if not settings.salt_edge_callback_key:
        raise SetupError(
            "Salt Edge needs the setting salt_edge_callback_key: the file with its public key, without which no callback is believed."
        )
    keys = read_public_keys(Path(settings.salt_edge_callback_key))
    client = _client(settings, clock, network)
    return SaltEdgeProvider(
        client, clock, keys, vault.derive("salt edge returns"), sandboxes=settings.salt_edge_sandboxes
    )


def _client(settings: Settings, clock: Clock, network: Network) -> SaltEdgeClient:
    if not settings.salt_edge_secret:
        raise SetupError("Salt Edge needs the setting salt_edge_secret beside salt_edge_app_id.")
    key = None
    if settings.salt_edge_private_key:
        key = read_private_key(Path(settings.salt_edge_private_key), "salt_edge_private_key")
    return SaltEdgeClient(
        network, clock, settings.salt_edge_url, settings.salt_edge_app_id, settings.salt_edge_secret, key
    )


async def probe(settings: Settings, clock: Clock, network: Network) -> str:
    """Asks for one bank of the list. Returns what was found, as a sentence. Raises SetupError with what is wrong."""
    if not settings.salt_edge_app_id:
        raise SetupError("Set salt_edge_app_id first: Salt Edge shows it in its dashboard, beside the secret.")
    client = _client(settings, clock, network)
    try:
        await client.get(Page[Provider], "/providers", include_sandboxes=True, per_page=1)
    except Answered as error:
        reason = REMEDIES.get(error.error_class, error.message)
        raise SetupError(f"Salt Edge answers, but refuses ({error.error_class or error.status}): {reason}.") from None
    except ProviderDown as error:
        raise SetupError(f"{error} ({settings.salt_edge_url})") from None
    finally:
        await client.close()
    if settings.salt_edge_callback_key:
        read_public_keys(Path(settings.salt_edge_callback_key))
    missing = [
        name for name in ("salt_edge_private_key", "salt_edge_callback_key") if not getattr(settings, name)
    ]  # fmt: skip
    if missing:
        return f"Salt Edge answers, and accepts this app. Not set yet: {', '.join(missing)}."
    return "Salt Edge answers, and accepts this app and its signature. Callbacks are tried when somebody connects an account."
