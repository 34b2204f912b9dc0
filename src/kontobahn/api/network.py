"""The address that a request came from. X-Forwarded-For is trusted only if a trusted proxy sent it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from kontobahn.errors import SetupError


class ClientAddress:
    def __init__(self, trusted_proxies: str) -> None:
        try:
            self._trusted: list[IPv4Network | IPv6Network] = [
                ip_network(part.strip(), strict=False) for part in trusted_proxies.split(",") if part.strip()
            ]
        except ValueError as error:
            raise SetupError(f"The setting trusted_proxies is not a list of networks: {error}.") from None
        self._is_trusted = lru_cache(maxsize=1024)(self._look_up)

    def of(self, scope: Mapping[str, Any], forwarded_for: bytes | None) -> str:
        client = scope.get("client")
        peer: str = client[0] if client else "unknown"
        if not self._trusted or forwarded_for is None or not self._is_trusted(peer):
            return peer
        # From the right: the first address that is not a trusted proxy is the caller's.
        for hop in reversed(forwarded_for.decode("latin-1").split(",")):
            address = _normal(hop)
            if address is None:
                return peer
            if not self._is_trusted(address):
                return address
            peer = address
        return peer

    def _look_up(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._trusted)


def _normal(hop: str) -> str | None:
    try:
        return str(ip_address(hop.strip()))
    except ValueError:
        return None
