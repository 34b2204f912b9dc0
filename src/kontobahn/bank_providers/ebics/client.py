"""Messages to a bank and its answers: keys, what the bank knows about us, and downloads that are stored before the bank has a receipt.

Signing and reading happens in threads. Only what the protocol calls a failure is raised, in the words of the port.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from typing import IO, NamedTuple, ParamSpec, TypeVar

import msgspec

from kontobahn.bank_providers.ebics import rules, store
from kontobahn.bank_providers.ebics.store import DownloadRow, NewDownload
from kontobahn.bank_providers.ebics.wire import Access, KeptKey
from kontobahn.bank_providers.http import Network, not_reached
from kontobahn.banking.provider import ProviderDown, ProviderRefused
from kontobahn.clock import Clock, to_datetime
from kontobahn.db import Database
from kontobahn.formats.ebics import answers, documents, requests
from kontobahn.formats.ebics.answers import Answer, NotSigned
from kontobahn.formats.ebics.documents import MAX_BYTES, EbicsError
from kontobahn.formats.ebics.keys import Protocol, unwrap
from kontobahn.formats.ebics.requests import BankKeys, Period, Upload, Waiting
from kontobahn.formats.ebics.services import Order
from kontobahn.outbound import Refused, Unreached
from kontobahn.sentences import said, without_stop
from kontobahn.threads import Pool
from kontobahn.vault import Vault

P = ParamSpec("P")
T = TypeVar("T")
SECONDS = 60.0
_HEADERS = {"Content-Type": "text/xml; charset=UTF-8"}
# All that the bank knows about us fits into memory.
MAX_ADMIN_BYTES = 64 * 1024 * 1024
# A larger download is worked on in files without a name.
IN_MEMORY = 4 * 1024 * 1024
# After this many answers that ask to go on elsewhere, a transaction is given up.
MAX_RESUMES = 5


class Line(NamedTuple):
    """An access in use: whose it is, and the access itself."""

    organization_id: str
    ref: str
    access: Access


class EbicsClient:
    def __init__(self, db: Database, vault: Vault, clock: Clock, network: Network, pool: Pool) -> None:
        self._db, self._vault, self._clock, self._network, self._pool = db, vault, clock, network, pool

    async def post(self, url: str, body: bytes) -> bytes:
        try:
            reply = await self._network.send(
                "POST", url, headers=_HEADERS, body=body, seconds=SECONDS, max_bytes=MAX_BYTES, whole=True
            )
        except (Refused, Unreached) as error:
            raise not_reached("The bank", error) from None
        if reply.status != 200:
            raise ProviderDown(said("The bank answers with HTTP status {status}.", status=reply.status))
        return reply.content

    # --- Keys

    async def versions(self, url: str, host_id: str) -> dict[Protocol, str]:
        content = await self.post(url, requests.versions_request(host_id))
        return await self._in_thread(answers.read_versions, content)

    async def send_keys(self, access: Access, order_type: str) -> Answer:
        """Sends the key for signatures (INI), or the other two (HIA)."""
        subscriber = access.subscriber()
        if order_type == "INI":
            data = await self._in_thread(requests.signature_key_data, subscriber, access.signature.own())
        else:
            keys = access.authentication.own(), access.encryption.own()
            data = await self._in_thread(requests.other_keys_data, subscriber, *keys)
        content = await self.post(access.url, requests.unsecured_request(subscriber, order_type, data))
        return await self._in_thread(answers.read_key_answer, content, access.protocol)

    async def bank_keys(self, access: Access) -> BankKeys:
        """Asks for the bank's keys, which nobody has compared yet."""
        subscriber, now = access.subscriber(), to_datetime(self._clock.now())
        body = await self._in_thread(requests.bank_keys_request, subscriber, access.authentication.own(), now)
        content = await self.post(access.url, body)

        def read() -> BankKeys:
            answer = answers.read_key_answer(content, access.protocol)
            rules.check(answer)
            if answer.order_data is None or answer.transaction_key is None:
                raise EbicsError("The bank's answer does not hold its keys.")
            key = unwrap(access.encryption.own(), answer.transaction_key)
            plain = documents.unpack(documents.decoded(answer.order_data), key, MAX_BYTES)
            return requests.read_bank_keys(plain, subscriber)

        return await self._in_thread(read)

    # --- Downloads

    async def fetch_small(
        self, line: Line, order_type: str, period: Period | None = None, about: Waiting | None = None
    ) -> bytes | None:
        """Returns what the bank tells about us, with its receipt: nothing is lost if we forget it. None if there is nothing."""
        access = line.access
        answer = await self._begin(access, Order(order_type), period, about)
        if answer is None:
            return None
        key, reader = await self._key(access, answer), documents.Base64Reader()
        parts, size, number = [reader.decode(answer.order_data or "")], 0, 1
        while not answer.is_last:
            number += 1
            answer = await self._next(access, answer.transaction_id or "", number, answer.segments)
            parts.append(reader.decode(answer.order_data or ""))
            size += len(parts[-1])
            if size > MAX_ADMIN_BYTES or number > answers.MAX_SEGMENTS:
                raise ProviderRefused("ProviderError", "The bank tells more about the user than can be read")
        data = await self._in_thread(lambda: b"".join(documents.unpacked(parts, key, MAX_ADMIN_BYTES)))
        await self.give_receipt(access, answer.transaction_id or "")
        return data

    async def download(self, line: Line, kind: str, order: Order, period: Period | None = None) -> bool:
        """Stores what the bank has, and then tells it so. Returns False if there is nothing."""
        answer = await self._begin(line.access, order, period)
        if answer is None:
            return False
        key = await self._key(line.access, answer)
        content = _text(answer)
        new = NewDownload(
            line.organization_id, line.ref, kind, str(order.service or order.type), answer.transaction_id or "", key, content,
            answer.is_last,
        )  # fmt: skip
        row = await self._db.write(store.begin, self._vault, new)
        await self._go_on(line, row, answer.segments)
        return True

    async def resume(self, line: Line) -> None:
        """Finishes what was begun before: segments that are missing, and receipts that the bank does not have."""
        for row in await self._db.read(store.open_downloads, line.organization_id, line.ref):
            try:
                await self._go_on(line, row, None)
            except ProviderRefused as error:
                if error.raw_status not in answers.LOST_TRANSACTION:
                    raise
                # The bank has forgotten the transaction, and offers the same again.
                if row.is_whole:
                    await self._db.write(store.has_receipt, row)
                else:
                    await self._db.write(store.drop, row)

    async def _go_on(self, line: Line, row: DownloadRow, segments: int | None) -> None:
        resumes = 0
        while not row.is_whole:
            answer = await self._next(line.access, row.transaction_id, row.segments + 1, segments, takes_resume=True)
            if answer.technical == answers.RESUME:
                resumes += 1
                if answer.segment is None or not 0 < answer.segment <= row.segments or resumes > MAX_RESUMES:
                    raise ProviderDown("The bank wants the download to go on where it cannot.")
                row = await self._db.write(store.cut, row, answer.segment)
                continue
            content = _text(answer)
            row = await self._db.write(store.add_segment, row, content, is_last=answer.is_last)
        if not await self._can_be_unpacked(row):
            await self._db.write(store.drop, row)
            await self.give_receipt(line.access, row.transaction_id, is_positive=False)
            raise ProviderDown("The bank's data cannot be decrypted, and were not taken.")
        await self.give_receipt(line.access, row.transaction_id)
        await self._db.write(store.has_receipt, row)

    async def _can_be_unpacked(self, row: DownloadRow) -> bool:
        try:
            with await self.plain(row):
                return True
        except EbicsError:
            return False

    async def plain(self, row: DownloadRow) -> IO[bytes]:
        """Returns a download as the bank had it before it was encrypted, in a file without a name. Raises EbicsError."""
        key = store.key_of(self._vault, row)
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as encrypted:
            reader = documents.Base64Reader()
            for number in range(1, row.segments + 1):
                text = await self._db.read(store.segment, row, number)
                encrypted.write(reader.decode(text.decode("ascii")))
            reader.finish()
            encrypted.seek(0)
            plain: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by whoever asks for it
            try:
                await self._pool.run(documents.write_to, plain, iter(lambda: encrypted.read(IN_MEMORY), b""), key)
            except BaseException:
                plain.close()
                raise
        plain.seek(0)
        return plain

    # --- Uploads

    async def begin_upload(self, access: Access, upload: Upload) -> Answer:
        """Announces an order, of which the bank has nothing yet, and returns the answer with its number."""
        now, bank = to_datetime(self._clock.now()), access.bank()
        keys = access.signature.own(), access.authentication.own()
        body = await self._in_thread(requests.upload_request, access.subscriber(), keys, bank, upload, now)
        answer = await self._ask(access, body)
        rules.check(answer)
        if answer.transaction_id is None or not answer.order_id:
            raise ProviderRefused("ProviderError", "The bank gave the order no number")
        return answer

    async def send_segment(
        self, access: Access, transaction_id: str, number: int, segment: str, *, is_last: bool
    ) -> None:
        """Raises ProviderDown if it is unknown whether the bank has it."""
        key = access.authentication.own()
        body = await self._in_thread(
            lambda: requests.upload_segment_request(
                access.subscriber(), key, transaction_id, number, segment, is_last=is_last
            )
        )
        await self._deliver(access, body)

    async def send_signature(self, access: Access, upload: Upload) -> None:
        """Sends an order that is a signature alone. Raises ProviderDown if it is unknown whether the bank has it."""
        now, keys = to_datetime(self._clock.now()), (access.signature.own(), access.authentication.own())
        body = await self._in_thread(requests.upload_request, access.subscriber(), keys, access.bank(), upload, now)
        await self._deliver(access, body)

    async def upload(self, access: Access, upload: Upload, data: bytes) -> None:
        """Sends an order of ours that is no file. Raises ProviderDown if it is unknown whether the bank has it."""
        segments = documents.segments(data, upload.transaction_key)
        try:
            begun = await self.begin_upload(access, upload._replace(segments=len(segments)))
        except ProviderDown as error:
            # No data were on their way.
            raise ProviderRefused("ProviderError", without_stop(str(error))) from None
        for number, segment in enumerate(segments, 1):
            await self.send_segment(
                access, begun.transaction_id or "", number, segment, is_last=number == len(segments)
            )

    async def _deliver(self, access: Access, body: bytes) -> None:
        content = await self.post(access.url, body)
        try:
            answer = await self._pool.run(answers.read_answer, content, access.protocol, access.bank().authentication)
        except EbicsError as error:
            # Also what is not signed says nothing about where the order is.
            raise ProviderDown(str(error)) from None
        if answer.technical == answers.RESUME or answer.technical in answers.LOST_TRANSACTION | answers.PASSING:
            raise ProviderDown(answers.in_words(answer.technical, answer.text))
        rules.check(answer)

    async def give_receipt(self, access: Access, transaction_id: str, *, is_positive: bool = True) -> None:
        key = access.authentication.own()
        body = await self._in_thread(
            lambda: requests.receipt_request(access.subscriber(), key, transaction_id, is_positive=is_positive)
        )
        rules.check(await self._ask(access, body))

    async def _begin(
        self, access: Access, order: Order, period: Period | None, about: Waiting | None = None
    ) -> Answer | None:
        now, key, bank = to_datetime(self._clock.now()), access.authentication.own(), access.bank()
        body = await self._in_thread(
            lambda: requests.download_request(access.subscriber(), key, bank, order, now, period=period, about=about)
        )
        answer = await self._ask(access, body)
        if answers.NOTHING_THERE in (answer.technical, answer.business):
            return None
        rules.check(answer)
        if answer.transaction_id is None or answer.order_data is None:
            raise ProviderRefused("ProviderError", "The bank's answer holds no data")
        return answer

    async def _next(
        self, access: Access, transaction_id: str, number: int, segments: int | None, *, takes_resume: bool = False
    ) -> Answer:
        key = access.authentication.own()
        body = await self._in_thread(
            lambda: requests.segment_request(
                access.subscriber(), key, transaction_id, number, is_last=number == segments
            )
        )
        answer = await self._ask(access, body)
        if takes_resume and answer.technical == answers.RESUME:
            return answer
        rules.check(answer)
        if answer.order_data is None or answer.segment not in (None, number):
            raise ProviderDown("The bank sends another part of the data than it was asked for.")
        return answer._replace(transaction_id=transaction_id, segments=segments)

    async def _key(self, access: Access, answer: Answer) -> bytes:
        wrapped = answer.transaction_key
        if wrapped is None:
            raise ProviderRefused("ProviderError", "The bank's answer holds no key of its data")
        return await self._in_thread(lambda: unwrap(access.encryption.own(), wrapped))

    async def _ask(self, access: Access, body: bytes) -> Answer:
        content = await self.post(access.url, body)
        try:
            return await self._pool.run(answers.read_answer, content, access.protocol, access.bank().authentication)
        except NotSigned as error:
            raise rules.not_signed(error) from None
        except EbicsError as error:
            # It is unknown what the bank did.
            raise ProviderDown(str(error)) from None

    async def _in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await self._pool.run(function, *args, **kwargs)
        except EbicsError as error:
            raise ProviderRefused("ProviderError", without_stop(str(error))) from None


def _text(answer: Answer) -> bytes:
    """Returns a segment as it is stored: in base64, because banks may cut it anywhere."""
    text = "".join((answer.order_data or "").split())
    if not text.isascii():
        raise ProviderRefused("ProviderError", "The bank's answer holds no data")
    return text.encode("ascii")


# New keys of ours (HCS), which count from the bank's confirmation on, and the end of all keys (SPR).


Save = Callable[[], Awaitable[None]]
# The data that SPR is signed over.
_BLANK = b" "


async def change_keys(
    client: EbicsClient, line: Line, make: Callable[[], Awaitable[list[KeptKey]]], now: int, save: Save
) -> bool:
    """Sends new keys, signed with the old ones. Returns whether the bank has taken them."""
    access = line.access
    if not access.next_keys:
        # Before the bank sees them; and the same ones again, if an earlier attempt did not get through.
        access.next_keys = await make()
        await save()
    signature, authentication, encryption = (key.own() for key in access.next_keys)
    data = requests.new_keys_data(access.subscriber(), (signature, authentication, encryption))
    upload = Upload(Order("HCS"), requests.signed_digest(data), documents.new_key(), 1)
    access.next_in_doubt = True
    await save()
    try:
        await client.upload(access, upload, data)
    except ProviderRefused as error:
        if error.raw_status != answers.KNOWN_KEYS:
            access.next_in_doubt = False
            await save()
            raise
        return await settle_keys(client, line, now, save)
    except ProviderDown:
        return await settle_keys(client, line, now, save)
    _take(access, now)
    await save()
    return True


async def settle_keys(client: EbicsClient, line: Line, now: int, save: Save) -> bool:
    """Finds out whether the bank knows the new keys by now: it says so in an answer that it signs."""
    access = line.access
    signature, authentication, encryption = access.next_keys
    tried = msgspec.structs.replace(access, signature=signature, authentication=authentication, encryption=encryption)
    try:
        await client.fetch_small(line._replace(access=tried), "HTD")
    except ProviderRefused as error:
        if error.raw_status in answers.NOT_ACCEPTED:
            # They are kept: should the bank take them later, they are tried again.
            access.next_in_doubt = False
            await save()
            return False
        if error.raw_status not in answers.NOT_OFFERED:
            raise
    _take(access, now)
    await save()
    return True


def _take(access: Access, now: int) -> None:
    access.signature, access.authentication, access.encryption = access.next_keys
    access.next_keys, access.next_in_doubt, access.keys_since = [], False, now


async def suspend_keys(client: EbicsClient, line: Line, now: int, save: Save) -> None:
    access = line.access
    was_tried = "SPR" in access.tried
    access.tried = [*access.tried, "SPR"]
    await save()
    upload = Upload(Order("SPR"), requests.signed_digest(_BLANK), documents.new_key(), 0)
    try:
        await client.send_signature(access, upload)
    except ProviderRefused as error:
        # The answer to an earlier attempt was lost: the bank has locked the user since.
        if not (was_tried and error.raw_status in answers.USER_STATE):
            raise ProviderRefused(error.error_class, without_stop(str(error)), error.raw_status) from None
    access.suspended_at = now
    await save()
