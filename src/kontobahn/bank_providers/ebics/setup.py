"""One harmless question that tries a bank: which versions of EBICS it speaks. Nobody signs in."""

from __future__ import annotations

from kontobahn.bank_providers.http import Network
from kontobahn.errors import SetupError
from kontobahn.outbound import Refused, Unreached
from kontobahn.sentences import without_stop

SECONDS, MAX_BYTES = 30.0, 1024 * 1024


async def probe(network: Network, url: str, host_id: str) -> str:
    """Returns in a sentence what the bank speaks. Raises SetupError if it does not answer, or not in EBICS."""
    from kontobahn.formats.ebics.answers import read_versions
    from kontobahn.formats.ebics.documents import EbicsError
    from kontobahn.formats.ebics.requests import check_id, versions_request

    try:
        body = versions_request(check_id("The host id", host_id))
        reply = await network.send(
            "POST", url, headers={"Content-Type": "text/xml; charset=UTF-8"}, body=body, seconds=SECONDS, max_bytes=MAX_BYTES,
            whole=True,
        )  # fmt: skip
        if reply.status != 200:
            raise SetupError(f"What answers at {url} does so with HTTP status {reply.status}.")
        versions = read_versions(reply.content)
    except (Refused, Unreached) as error:
        raise SetupError(f"The bank cannot be reached at {url}: {error}") from None
    except EbicsError as error:
        raise SetupError(f"The bank does not answer as EBICS has it: {without_stop(str(error))}.") from None
    if not versions:
        return "The bank answers, but speaks neither version 3.0 (H005) nor 2.5 (H004) of EBICS."
    names = ", ".join(f"{name} ({number})" for name, number in sorted(versions.items(), reverse=True))
    used = "3.0" if "H005" in versions else "2.5"
    return f"The bank answers, and speaks {names}; version {used} is used. Keys and rights are tried when somebody connects an account."
