"""How Enable Banking is told that the person is there: by headers, all that the bank requires or none at all."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from kontobahn.banking.provider import PersonHere
from kontobahn.banking.providers.enable_banking.wire import Bank

_NOBODY: dict[str, str] = {}


def psu_headers(person: PersonHere | None, bank: Bank | None) -> Mapping[str, str]:
    """Returns what to send along when data is read. A bank that requires more than is known is told nothing."""
    if person is None:
        return _NOBODY
    # A browser sends what it likes, and a line break would begin another header.
    agent = "".join(letter for letter in person.user_agent if " " <= letter <= "~")
    known = {"Psu-Ip-Address": _address(person.ip_address), "Psu-User-Agent": agent}
    told = {name: value for name, value in known.items() if value}
    if "Psu-Ip-Address" not in told:
        return _NOBODY
    required = {name.lower() for name in (bank.required_psu_headers or () if bank is not None else ())}
    return told if required <= {name.lower() for name in told} else _NOBODY


def _address(text: str) -> str:
    """Returns nothing where there is no address: behind a socket of this machine."""
    try:
        return str(ip_address(text))
    except ValueError:
        return ""
