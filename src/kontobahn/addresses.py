"""Internet addresses as callers are counted by them."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

# What one household or server gets: whoever has one IPv6 address has all of its block.
_IPV6_BLOCK_BITS = 64


@lru_cache(maxsize=4096)
def block_of(address: str) -> str:
    """Returns whom an address stands for: an IPv4 address itself, an IPv6 address its /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    host_bits = 128 - _IPV6_BLOCK_BITS
    return f"{IPv6Address(int(parsed) >> host_bits << host_bits)}/{_IPV6_BLOCK_BITS}"
