"""New keys of ours (HCS), which count from the bank's confirmation on, and the end of all keys (SPR)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from kontobahn.bank_providers.ebics.client import EbicsClient, Line
from kontobahn.bank_providers.ebics.wire import Access, KeptKey
from kontobahn.banking.provider import ProviderDown, ProviderRefused
from kontobahn.formats.ebics import key_data, payloads, requests, return_codes
from kontobahn.formats.ebics.requests import Upload
from kontobahn.formats.ebics.services import Order
from kontobahn.sentences import without_stop

Save = Callable[[], Awaitable[None]]
# The data that SPR is signed over.
_BLANK = b" "


async def change(
    client: EbicsClient, line: Line, make: Callable[[], Awaitable[list[KeptKey]]], now: int, save: Save
) -> bool:
    """Sends new keys, signed with the old ones. Returns whether the bank has taken them."""
    access = line.access
    if not access.next_keys:
        # Before the bank sees them; and the same ones again, if an earlier attempt did not get through.
        access.next_keys = await make()
        await save()
    signature, authentication, encryption = (key.own() for key in access.next_keys)
    data = key_data.new_keys_data(access.subscriber(), (signature, authentication, encryption))
    upload = Upload(Order("HCS"), requests.signed_digest(data), payloads.new_key(), 1)
    access.next_in_doubt = True
    await save()
    try:
        await client.upload(access, upload, data)
    except ProviderRefused as error:
        if error.raw_status != return_codes.KNOWN_KEYS:
            access.next_in_doubt = False
            await save()
            raise
        return await settle(client, line, now, save)
    except ProviderDown:
        return await settle(client, line, now, save)
    _take(access, now)
    await save()
    return True


async def settle(client: EbicsClient, line: Line, now: int, save: Save) -> bool:
    """Finds out whether the bank knows the new keys by now: it says so in an answer that it signs."""
    access = line.access
    signature, authentication, encryption = access.next_keys
    tried = msgspec.structs.replace(access, signature=signature, authentication=authentication, encryption=encryption)
    try:
        await client.fetch_small(line._replace(access=tried), "HTD")
    except ProviderRefused as error:
        if error.raw_status in return_codes.NOT_ACCEPTED:
            # They are kept: should the bank take them later, they are tried again.
            access.next_in_doubt = False
            await save()
            return False
        if error.raw_status not in return_codes.NOT_OFFERED:
            raise
    _take(access, now)
    await save()
    return True


def _take(access: Access, now: int) -> None:
    access.signature, access.authentication, access.encryption = access.next_keys
    access.next_keys, access.next_in_doubt, access.keys_since = [], False, now


async def suspend(client: EbicsClient, line: Line, now: int, save: Save) -> None:
    access = line.access
    was_tried = "SPR" in access.tried
    access.tried = [*access.tried, "SPR"]
    await save()
    upload = Upload(Order("SPR"), requests.signed_digest(_BLANK), payloads.new_key(), 0)
    try:
        await client.send_signature(access, upload)
    except ProviderRefused as error:
        # The answer to an earlier attempt was lost: the bank has locked the user since.
        if not (was_tried and error.raw_status in return_codes.USER_STATE):
            raise ProviderRefused(error.error_class, without_stop(str(error)), error.raw_status) from None
    access.suspended_at = now
    await save()
