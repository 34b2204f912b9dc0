"""The only module that connects to the network: which addresses may be reached, for how long, and how much is read.

`OutboundClient.send` checks the URL, resolves the name itself, allows only public addresses, connects to the very address it has
checked, follows no redirect, takes no proxy from the environment and stops reading at a limit. What a caller may see of a failure
is one sentence without addresses.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kontobahn.errors import SetupError
from kontobahn.sentences import said

if TYPE_CHECKING:
    import aiohttp

MAX_URL_LENGTH = 2000
# Anything may listen on other ports, and not all of it is meant to be reached by strangers.
PORTS = (443, 8443)
CONNECT_SECONDS = 8.0
SECONDS = 15.0
MAX_BYTES = 16 * 1024
# A name server that does not answer blocks a thread for many seconds; other names must not wait for it.
_RESOLVER_THREADS = 64

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Refused(Exception):
    """The URL, or an address of its host, breaks our rule; nothing was sent. The message may be shown to anybody."""


class Unreached(Exception):
    """There was no complete answer. ``kind`` is a label for metrics; the message names no addresses."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


# --- Public addresses

# An explicit list, because the standard library's is_global is true for several of these (NAT64, 6to4, multicast) and
# differs between versions of Python.
_PUBLIC_V4 = (ipaddress.IPv4Address("1.0.0.0"), ipaddress.IPv4Address("223.255.255.255"))
_NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
        "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24",
    )
)  # fmt: skip
# There is no public unicast outside 2000::/3: loopback, mapped and compatible IPv4, NAT64, unique-local, link-local,
# site-local and multicast all lie elsewhere.
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20")
)


def is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        first, last = _PUBLIC_V4
        return first <= address <= last and not any(address in network for network in _NOT_PUBLIC_V4)
    if address.scope_id is not None:
        return False
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


# --- Allowed URLs

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([/?][^#]*)?")
_TAIL = re.compile(r"(?:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# Names that no public registry gives out, among them those that hosts files and routers give to a machine of their own.
_PRIVATE_SUFFIXES = (
    "localhost", "localdomain", "localdomain4", "localdomain6", "local", "internal", "intranet", "private", "corp", "home", "lan",
    "home.arpa", "onion",
)  # fmt: skip


class Target(NamedTuple):
    """An allowed URL in parts: requests are built from these, and the URL is never parsed a second time."""

    scheme: str
    host: str
    port: int
    tail: str
    # The address if the host is one; None if it is a name.
    address: Address | None


class Rule(NamedTuple):
    """The addresses that may be connected to: public addresses over TLS, and what the operator has named."""

    named: frozenset[tuple[str, int]] = frozenset()
    # For commands that people run against services they chose themselves.
    anywhere: bool = False

    @classmethod
    def of_setting(cls, text: str, setting: str = "webhook_allow") -> Rule:
        """From `localhost:3000,receiver.test:8443`."""
        named = set()
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            match = _AUTHORITY.fullmatch(part)
            if match is None or match[2] is None:
                raise SetupError(f"The setting {setting} names “{part}”; write host:port, for example localhost:3000.")
            named.add((match[1].strip("[]").lower(), int(match[2])))
        return cls(frozenset(named))

    def parse(self, url: str) -> Target:
        """Returns the parts of a URL. Raises Refused, with the reason, if it is not allowed."""
        return _parse(self, url)

    def check_host(self, host: str, port: int, ports: tuple[int, ...]) -> None:
        """Raises Refused unless this host and port may be connected to, as far as they tell without looking the name up."""
        is_named = self.permits(host, port)
        if not is_named and port not in ports:
            raise Refused(said("The port must be {ports}.", ports=" or ".join(map(str, ports))))
        _checked_host(host, is_named=is_named)

    def permits(self, host: str, port: int) -> bool:
        """Returns whether any address is allowed."""
        return self.anywhere or (host, port) in self.named

    def check_addresses(self, host: str, port: int, addresses: list[str]) -> None:
        """Raises unless every address of the name is allowed: with a good and a bad one, either might be connected to."""
        if not addresses:
            raise Unreached("dns", "The name has no address.")
        if not self.permits(host, port) and not all(is_public(ipaddress.ip_address(address)) for address in addresses):
            raise Refused("The name resolves to an address that is not public.")


# Depends only on its arguments, and is called for every attempt.
@lru_cache(maxsize=1024)
def _parse(rule: Rule, url: str) -> Target:
    if len(url) > MAX_URL_LENGTH:
        raise Refused(said("The URL is longer than {most} characters.", most=MAX_URL_LENGTH))
    if not url.isascii():
        raise Refused("The URL has characters that are not ASCII; write an international name in its xn-- form.")
    match = _URL.fullmatch(url)
    if match is None or not _TAIL.fullmatch(match[3] or ""):
        raise Refused("The URL is not of the form https://host/path.")
    scheme, authority, tail = match[1].lower(), match[2], match[3] or "/"
    if "@" in authority:
        raise Refused("The URL must not contain a user name or a password.")
    host, port = _split_authority(authority, 80 if scheme == "http" else 443)
    is_named = rule.permits(host, port)
    if scheme != "https" and not (scheme == "http" and is_named):
        raise Refused("The URL must begin with https://.")
    if not is_named and port not in PORTS:
        raise Refused(said("The port must be {ports}.", ports=" or ".join(map(str, PORTS))))
    address = _checked_host(host, is_named=is_named)
    return Target(scheme, host, port, tail if tail.startswith("/") else f"/{tail}", address)


def _checked_host(host: str, *, is_named: bool) -> Address | None:
    """Returns the address if the host is one; None for a name. Raises Refused if it is allowed by nothing."""
    address = _literal(host)
    if address is None and not is_named:
        _check_name(host)
    elif address is not None and not is_named and not is_public(address):
        raise Refused("The address is not public.")
    return address


def _split_authority(authority: str, default_port: int) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise Refused("The URL's host is not a valid name or address.")
    port = int(match[2]) if match[2] is not None else default_port
    if not 0 < port < 65536:
        raise Refused("The port is not a number from 1 to 65535.")
    return match[1].strip("[]").lower(), port


def _literal(host: str) -> Address | None:
    """Returns the address if the host is one, in its usual spelling; None if it is a name."""
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host)
        except ValueError:
            raise Refused("The URL's host is not a valid IPv6 address.") from None
    last = host.rpartition(".")[2]
    # Many programs take 2130706433, 0x7f.1, 127.1 and 0177.0.0.1 for addresses: what ends in a number must be four of them.
    if not (last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last)):
        return None
    try:
        return ipaddress.IPv4Address(host)
    except ValueError:
        raise Refused("The URL's host is an address in an unusual spelling.") from None


def _check_name(host: str) -> None:
    if host.endswith("."):
        raise Refused("The URL's host must not end with a dot.")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise Refused("The URL's host is not a valid name.")
    if _is_private_name(host):
        raise Refused("The URL's host is a name inside a private network.")


def _is_private_name(host: str) -> bool:
    return "." not in host or any(host == name or host.endswith(f".{name}") for name in _PRIVATE_SUFFIXES)


def is_private_host(host: str) -> bool:
    """Returns whether a URL's host is, by what it looks like, inside a private network."""
    try:
        return not is_public(ipaddress.ip_address(host))
    except ValueError:
        return bool(_LABEL.fullmatch(host.partition(".")[0])) and _is_private_name(host)


# --- Names


class Resolver(Protocol):
    async def addresses(self, host: str, port: int) -> list[str]:
        """Returns every IPv4 and IPv6 address of the name. Raises OSError if there is none."""


class SystemResolver:
    """The operating system's resolver, on threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="resolver")

    async def addresses(self, host: str, port: int) -> list[str]:
        found = await asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host, port)
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))

    @staticmethod
    def _look_up(host: str, port: int) -> list[Any]:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


# --- Sending


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    # As much of the body as the limit allowed.
    content: bytes


class OutboundClient:
    """One client with its connections; kept open for as long as its owner runs."""

    def __init__(
        self, rule: Rule, *, resolver: Resolver | None = None, tls: ssl.SSLContext | None = None, user_agent: str = ""
    ) -> None:
        self.rule = rule
        self.resolver: Resolver = resolver or SystemResolver()
        self.tls = tls
        self.user_agent = user_agent or "Kontobahn"
        self._session: aiohttp.ClientSession | None = None

    async def check(self, url: str) -> None:
        """Raises Refused if we would not connect to this URL now; for a URL that is about to be saved.

        A name that cannot be resolved now passes: it is resolved and checked again at every connection.
        """
        target = self.rule.parse(url)
        if target.address is None:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    found = await self.resolver.addresses(target.host, target.port)
                    self.rule.check_addresses(target.host, target.port, found)
            except (OSError, Unreached):  # a TimeoutError is an OSError
                pass

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        seconds: float = SECONDS,
        max_bytes: int = MAX_BYTES,
        whole: bool = False,
    ) -> Reply:
        """Sends one request and returns its answer, whatever the status; a redirect is an answer like any other.

        Of a longer answer the beginning is returned; if it is needed `whole`, Unreached is raised instead.
        """
        target = self.rule.parse(url)
        session = await self._opened()
        import aiohttp
        from yarl import URL

        path, _, query = target.tail.partition("?")
        built = URL.build(
            scheme=target.scheme, host=target.host, port=target.port, path=path, query_string=query, encoded=True
        )
        timeout = aiohttp.ClientTimeout(total=seconds, connect=min(seconds, CONNECT_SECONDS))
        try:
            async with session.request(
                method, built, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                content = await _read(response, max_bytes)
                if whole and len(content) >= max_bytes:
                    raise Unreached("size", said("The answer has more than {bytes} bytes.", bytes=f"{max_bytes:,}"))
                return Reply(response.status, response.headers, content)
        except aiohttp.ClientError as error:
            raise _translate_error(error) from error
        except TimeoutError as error:
            raise Unreached(
                "timeout", said("No complete answer within {seconds} seconds.", seconds=f"{seconds:g}")
            ) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Takes a quarter of a second, once; other calls must not wait for it.
            await asyncio.to_thread(import_module, "aiohttp")
        if self._session is None:
            import aiohttp
            from aiohttp.abc import AbstractResolver, ResolveResult

            client = self

            class Checked(AbstractResolver):
                """Called for each new connection, which is made only to the addresses it returns."""

                async def resolve(
                    self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
                ) -> list[ResolveResult]:
                    found = await client.resolver.addresses(host, port)
                    client.rule.check_addresses(host, port, found)
                    return [_resolved(host, address, port) for address in found]

                async def close(self) -> None:
                    pass

            connector = aiohttp.TCPConnector(
                resolver=Checked(), use_dns_cache=False, limit=0, ssl=self.tls or ssl.create_default_context()
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"User-Agent": self.user_agent},
                skip_auto_headers=("Accept-Encoding",),
            )
        return self._session


def _resolved(host: str, address: str, port: int) -> Any:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": flags}


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Reads up to the limit; a connection with more to come is closed, not drained."""
    content = bytearray()
    while len(content) < max_bytes:
        chunk = await response.content.read(max_bytes - len(content))
        if not chunk:
            return bytes(content)
        content += chunk
    if not response.content.at_eof():
        response.close()
    return bytes(content)


def _translate_error(error: aiohttp.ClientError) -> Exception:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Unreached("dns", "The name cannot be resolved.")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Unreached("tls", "The receiver's certificate is not valid for its name.")
    if isinstance(error, aiohttp.ClientSSLError):
        return Unreached("tls", "No secure connection could be made.")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Unreached("timeout", "No connection in time.")
    if isinstance(error, aiohttp.ServerTimeoutError):
        return Unreached("timeout", "No complete answer in time.")
    if isinstance(error, aiohttp.ClientConnectorError):
        return Unreached("connect", "The connection was refused or cannot be made.")
    return Unreached("protocol", "The connection ended before a complete answer.")


def redact(text: str, *secrets: str) -> str:
    """Returns the text without these, wherever they stand in it."""
    # The longest first: one may be a part of another.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "•••")
    return text
