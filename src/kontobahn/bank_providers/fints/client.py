"""The library's client, made strict: no error of a bank is swallowed, and every message goes through our own connection.

The library posts with a class-wide switch that hides the PIN while it writes its log, which spoils messages of other threads; that code
is never reached here. One client serves one piece of work in one thread and is thrown away. Work blocks; between two of its pauses
nothing is held but what `Work` says, which goes into the sealed state.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import date
from typing import Any

from fints.client import FinTS3PinTanClient, NeedRetryResponse, NeedTANResponse
from fints.exceptions import FinTSClientError, FinTSConnectionError, FinTSUnsupportedOperation
from fints.formals import DescriptionRequired, SupportedMessageTypes
from fints.message import FinTSInstituteMessage
from fints.models import SEPAAccount
from fints.segments.statement import HKCAZ1, HKKAZ5, HKKAZ6, HKKAZ7

from kontobahn.bank_providers.fints.rules import is_failure
from kontobahn.bank_providers.fints.wire import Challenge, Documents, Method, SeenAccount, Stage, Work
from kontobahn.money import to_minor

__all__ = ["BankError", "FinTSConnectionError", "NeedTANResponse", "StrictClient"]
PRODUCT_VERSION = "1.0"
# It writes what banks say to its own log, and where nobody listens to that, to standard error.
logging.getLogger("fints").setLevel(logging.CRITICAL + 1)
# Posts a message and returns the answer. Raises FinTSConnectionError.
Post = Callable[[str, bytes], bytes]
# Takes documents: booked and pending.
Keep = Callable[[list[bytes], list[bytes]], None]
# Of the bookings of one account.
MAX_PAGES = 10_000


class BankError(FinTSClientError):  # type: ignore[misc]
    """The bank refused. A subclass of the library's, which wraps all others."""

    def __init__(self, codes: list[tuple[str, str]]) -> None:
        super().__init__(", ".join(code for code, _ in codes))
        self.codes = codes


# Of one message, without the documents in it. The parser takes its time for each, and everybody else's with it.
MAX_ELEMENTS = 50_000
MAX_DOCUMENTS = 1_000
MAX_BYTES_BETWEEN_DOCUMENTS = 4 * 1024 * 1024
_DOCUMENT = re.compile(rb"@([0-9]{1,9})@")
# Decoded in one piece, an answer of 29 MB would stop every other thread for a tenth of a second.
_SLICE_BYTES = 1024 * 1024


def check_size(content: bytes) -> None:
    """Raises FinTSConnectionError for a message with more elements than any bank sends. Documents count as one, however long."""
    elements = documents = position = 0
    while position < len(content):
        furthest = position + MAX_BYTES_BETWEEN_DOCUMENTS
        found = _DOCUMENT.search(content, position, furthest)
        end = found.start() if found else min(furthest, len(content))
        elements += sum(content.count(mark, position, end) for mark in (b"'", b"+", b":"))
        documents += 1
        is_cut = found is None and end < len(content)
        if is_cut or elements > MAX_ELEMENTS or documents > MAX_DOCUMENTS:
            raise FinTSConnectionError("The bank's answer has more elements than can be read.")
        position = found.end() + int(found[1]) if found else len(content)


def decode_base64(text: bytes) -> bytes:
    """Decodes slice by slice, so that other threads have their turns. Raises ValueError."""
    decoded = []
    for at in range(0, len(text), _SLICE_BYTES):
        piece = text[at : at + _SLICE_BYTES]
        decoded.append(base64.b64decode(piece, validate=True))
        if piece.endswith(b"=") and at + _SLICE_BYTES < len(text):
            raise ValueError("padding before the end")
    return b"".join(decoded)


_GOODBYE = re.compile(rb"'HKEND:\d+:1\+")


class _Connection:
    def __init__(self, url: str, post: Post) -> None:
        self.url = url
        self._post = post
        # True if the message that was sent last ends its dialog.
        self.is_goodbye = False

    def send(self, message: Any) -> Any:
        raw = message.render_bytes()
        self.is_goodbye = _GOODBYE.search(raw) is not None
        answer = self._post(self.url, base64.b64encode(raw))
        try:
            content = decode_base64(answer)
            check_size(content)
            return FinTSInstituteMessage(segments=content)
        except FinTSConnectionError:
            raise
        except Exception:
            # Whatever the parser stumbles over, it is not FinTS. The answer is not repeated: it may hold anything.
            raise FinTSConnectionError("The answer is not a FinTS message.") from None


class StrictClient(FinTS3PinTanClient):  # type: ignore[misc]
    def __init__(
        self, post: Post, *, blz: str, url: str, user: str, customer: str | None, pin: str | None, product_id: str, data: bytes | None
    ) -> None:  # fmt: skip
        super().__init__(
            blz, user, pin, url, customer_id=customer, from_data=data, product_id=product_id, product_version=PRODUCT_VERSION
        )  # fmt: skip
        self.connection = _Connection(url, post)
        # At the first contact banks say which methods there are, and some refuse the rest of the message.
        self.is_first_contact = False
        self._has_failed = False
        self._lists_devices = False

    def process_response_message(self, dialog: Any, message: Any, internal_send: bool = True) -> None:
        responses = [
            response for name in ("HIRMG", "HIRMS") for segment in message.find_segments(name) for response in segment.responses
        ]  # fmt: skip
        codes = [(str(response.code), str(response.text or "")) for response in responses]
        present = {code for code, _ in codes}
        try:
            super().process_response_message(dialog, message, internal_send=internal_send)
        except BankError:
            raise
        except FinTSClientError:
            # Said again below, with its codes.
            pass
        # The library keeps every message of a dialog and never looks at them again.
        for kept in dialog.messages.values():
            kept.clear()
        if "9800" in present:
            # Only after the library has seen it: it takes any error outside a dialog for a wrong PIN.
            dialog.open = False
        if not any(is_failure(code) for code in present) or self._has_failed or self.connection.is_goodbye:
            # The bank's answer to the end of a dialog changes nothing, and must not hide a failure before it.
            return
        if self.is_first_contact and "9075" in present:
            return
        self._has_failed = True
        raise BankError(codes)

    def set_tan_mechanism(self, security_function: str) -> None:
        if self._standing_dialog:
            # The bank has another list of methods now, without the one that was chosen.
            raise BankError([("9391", "The TAN method that was chosen exists no more at the bank")])
        super().set_tan_mechanism(security_function)

    # --- Devices

    def find_devices(self) -> list[str]:
        """Returns the names of the person's devices. Empty if the bank wants a confirmation even for that: then it knows which."""
        self._lists_devices = True
        try:
            _, media = self.get_tan_media() or (None, [])
        finally:
            self._lists_devices = False
        self.init_tan_response: Any = None
        return [str(item.tan_medium_name) for item in media if item.tan_medium_name]

    def _get_tan_segment(self, orig_seg: Any, tan_process: str, tan_seg: Any = None) -> Any:
        segment = super()._get_tan_segment(orig_seg, tan_process, tan_seg)
        if self._lists_devices and tan_process == "4" and hasattr(segment, "segment_type"):
            # A dialog only for the list of devices. One for everything would have to be confirmed, on a device that nobody has chosen.
            segment.segment_type = "HKTAB"
        return segment

    # --- Bookings as the bank's own documents

    def reads_camt(self, account: SEPAAccount) -> bool:
        """Returns whether the bank hands out camt for this account."""
        if not self.bpd.find_segment_first("HICAZS"):
            return False
        allowed = [
            {item.transaction for item in entry.allowed_transactions}
            for entry in self.upd.find_segments("HIUPD")
            if entry.iban == account.iban
        ]
        return not allowed or any("HKCAZ" in names for names in allowed)

    def begin_bookings(self, account: SEPAAccount, since: date | None, keep: Keep) -> None:
        """Says which bookings the next answers are about, and where their documents go; after a pause as well."""
        self._order, self._documents_of, self._answer = self._bookings_of(account, since)
        self._keep = keep

    def read_bookings(self, touchdown: str | None = None) -> Any:
        """Reads page by page, from the beginning or from where an answer said that there is more. Returns None, or that a TAN is needed.

        The library would call itself for each page, and hold all of them.
        """
        with self._get_dialog() as dialog:
            for _ in range(MAX_PAGES):
                found = self._send_with_possible_retry(dialog, self._order(touchdown), self._take_page)
                if found is None or isinstance(found, NeedTANResponse):
                    return found
                if found == touchdown:
                    break
                touchdown = found
        raise FinTSConnectionError("The bank's list of bookings does not end.")

    def _take_page(self, command_seg: Any, response: Any) -> str | None:
        """Hands over a page's documents, and returns where the next page begins."""
        self._keep(*self._documents_of(list(response.response_segments(command_seg, self._answer))))
        more = [found.parameters[0] for found in response.responses(command_seg, "3040") if found.parameters]
        return str(more[0]) if more else None

    def _bookings_of(self, account: SEPAAccount, since: date | None) -> tuple[Any, Any, str]:
        if self.reads_camt(account):
            parameter = self.bpd.find_segment_first("HICAZS").parameter
            formats = list(parameter.supported_camt_formats)
            return (
                lambda touchdown: HKCAZ1(
                    account=HKCAZ1._fields["account"].type.from_sepa_account(account), all_accounts=False, date_start=since,
                    date_end=None, touchdown_point=touchdown, supported_camt_messages=SupportedMessageTypes(formats),
                ),
                _camt_documents,
                "HICAZ",
            )  # fmt: skip
        order = self._find_highest_supported_command(HKKAZ5, HKKAZ6, HKKAZ7)
        return (
            lambda touchdown: order(
                account=order._fields["account"].type.from_sepa_account(account), all_accounts=False, date_start=since,
                date_end=None, touchdown_point=touchdown,
            ),
            _mt940_documents,
            "HIKAZ",
        )  # fmt: skip


def _camt_documents(segments: list[Any]) -> tuple[list[bytes], list[bytes]]:
    booked = [
        bytes(document) for segment in segments for document in segment.statement_booked.camt_statements if document
    ]
    return booked, [bytes(segment.statement_pending) for segment in segments if segment.statement_pending]


def _mt940_documents(segments: list[Any]) -> tuple[list[bytes], list[bytes]]:
    # Banks cut a statement at any place, so the parts are one document.
    booked = b"".join(bytes(segment.statement_booked) for segment in segments if segment.statement_booked)
    pending = b"".join(bytes(segment.statement_pending) for segment in segments if segment.statement_pending)
    return [booked] if booked else [], [pending] if pending else []


# --- Work


def _client(work: Work, post: Post) -> StrictClient:
    login = work.login
    return StrictClient(
        post, blz=login.blz, url=login.url, user=login.user, customer=login.customer, pin=work.pin, product_id=work.product_id,
        data=login.data,
    )  # fmt: skip


# --- First contact


def find_methods(work: Work, post: Post) -> list[Method]:
    """Asks the bank which ways to confirm the person has."""
    client = _client(work, post)
    client.is_first_contact = True
    client.fetch_tan_mechanisms()
    methods = [Method(code, str(found.name)) for code, found in client.get_tan_mechanisms().items() if code != "999"]
    work.login.data = client.deconstruct(including_private=True)
    return methods


def find_devices(work: Work, post: Post, method: str) -> list[str]:
    """Chooses a method, and asks for the devices if one has to be named."""
    client = _client(work, post)
    if method:
        client.set_tan_mechanism(method)
    names: list[str] = []
    chosen = client.get_tan_mechanisms().get(client.get_current_tan_mechanism())
    must = getattr(chosen, "description_required", None) == DescriptionRequired.MUST
    if chosen is not None and must and (getattr(chosen, "supported_media_number", None) or 0) > 1:
        names = client.find_devices()
    work.login.data = client.deconstruct(including_private=True)
    return names


def choose_device(work: Work, post: Post, name: str) -> None:
    client = _client(work, post)
    client.selected_tan_medium = name
    work.login.data = client.deconstruct(including_private=True)


# --- Reading


def read(work: Work, post: Post) -> Challenge | Documents:
    """Reads everything in one dialog. Returns what the bank wants confirmed on the way, or what it has handed out."""
    client, documents = _client(work, post), Documents()
    with _quietly_left(client):
        if client.init_tan_response is not None:
            request, client.init_tan_response = client.init_tan_response, None
            work.stage = "start"
            return _pause(work, client, documents, request)
        return _read_on(work, client, documents)


def go_on(work: Work, post: Post, tan: str) -> Challenge | Documents:
    """Goes on from a pause, with a TAN or with a question whether it was confirmed elsewhere."""
    client, documents = _client(work, post), Documents(work.documents)
    request = NeedRetryResponse.from_data(work.request)
    # The library forgets this.
    request.decoupled = work.is_decoupled
    with _quietly_left(client.resume_dialog(work.dialog)):
        if work.stage == "bookings":
            _begin_bookings(work, client, documents)
        result = client.send_tan(request, tan)
        if work.stage == "bookings" and isinstance(result, str):
            result = client.read_bookings(result)
        if isinstance(result, NeedTANResponse):
            return _pause(work, client, documents, result)
        if work.stage != "start":
            _store(work, client, result)
        return _read_on(work, client, documents)


def give_up(work: Work, post: Post) -> None:
    """Ends a dialog that waits for the person."""
    if work.dialog:
        with _client(work, post).resume_dialog(work.dialog):
            pass


@contextmanager
def _quietly_left(dialog: AbstractContextManager[Any]) -> Iterator[None]:
    """A dialog whose end does not matter: everything was said before."""
    dialog.__enter__()
    try:
        yield
    finally:
        with suppress(Exception):
            dialog.__exit__(None, None, None)


def _read_on(work: Work, client: StrictClient, documents: Documents) -> Challenge | Documents:
    while True:
        work.stage = _next(work)
        if not work.stage:
            work.login.data = client.deconstruct(including_private=True)
            return documents
        result = _ask(work, client, documents)
        if isinstance(result, NeedTANResponse):
            return _pause(work, client, documents, result)
        _store(work, client, result)


def _next(work: Work) -> Stage:
    if work.accounts is None:
        return "accounts"
    for account in work.accounts:
        if not account.has_balance:
            return "balance"
        if not account.has_bookings:
            return "bookings"
    return ""


def _current(work: Work) -> SeenAccount:
    return next(account for account in work.accounts or [] if not (account.has_balance and account.has_bookings))


def _sepa(account: SeenAccount) -> SEPAAccount:
    return SEPAAccount(account.iban, account.bic, account.number, account.sub, account.blz)


def _ask(work: Work, client: StrictClient, documents: Documents) -> Any:
    try:
        if work.stage == "accounts":
            return client.get_sepa_accounts()
        if work.stage == "balance":
            return client.get_balance(_sepa(_current(work)))
        _begin_bookings(work, client, documents)
        return client.read_bookings()
    except FinTSUnsupportedOperation:
        # A bank that does not offer this for any account: a depot, a card.
        return None


def _begin_bookings(work: Work, client: StrictClient, documents: Documents) -> None:
    account = _current(work)
    number = (work.accounts or []).index(account)

    def keep(booked: list[bytes], pending: list[bytes]) -> None:
        for found, is_pending in ((booked, False), (pending, True)):
            for document in found:
                documents.add(number, document, is_pending=is_pending)

    client.begin_bookings(_sepa(account), work.since, keep)


def _store(work: Work, client: StrictClient, result: Any) -> None:
    if work.stage == "accounts":
        work.accounts = _accounts(client, result or [])
    elif work.stage == "balance":
        account = _current(work)
        account.has_balance = True
        if result is not None:
            account.balance_minor = to_minor(result.amount.amount)
    else:
        _current(work).has_bookings = True


def _accounts(client: StrictClient, found: list[SEPAAccount]) -> list[SeenAccount]:
    known = {one["iban"]: one for one in client.get_information()["accounts"]}
    seen = []
    for account in found:
        facts = known.get(account.iban) or {}
        seen.append(
            SeenAccount(
                iban=account.iban, bic=account.bic or "", number=account.accountnumber, sub=account.subaccount or "",
                blz=account.blz, name=str(facts.get("product_name") or ""), holder=" ".join(facts.get("owner_name") or []) or None,
                type=int(facts.get("type") or 1), currency=str(facts.get("currency") or "EUR"),
            )
        )  # fmt: skip
    return seen


def _pause(work: Work, client: StrictClient, documents: Documents, request: NeedTANResponse) -> Challenge:
    work.documents = documents.pack()
    work.is_decoupled = bool(request.decoupled)
    work.request = request.get_data()
    work.dialog = client.pause_dialog()
    work.login.data = client.deconstruct(including_private=True)
    image_type, image = request.challenge_matrix or (None, None)
    method = client.get_tan_mechanisms().get(client.get_current_tan_mechanism())

    def parameter(name: str, default: int) -> int:
        value = getattr(method, name, None)
        return default if value is None else int(value)

    return Challenge(
        text=str(request.challenge or ""),
        is_decoupled=work.is_decoupled,
        flicker=_flicker(request.challenge_hhduc),
        image_type=image_type,
        image=image,
        max_polls=max(1, parameter("decoupled_max_poll_number", 60)),
        first_seconds=max(1, parameter("wait_before_first_poll", 5)),
        next_seconds=max(1, parameter("wait_before_next_poll", 3)),
        by_itself=bool(getattr(method, "automated_polling_allowed", True)),
        by_hand=bool(getattr(method, "manual_confirmation_allowed", True)),
    )


def _flicker(code: str | None) -> str | None:
    """Returns the code for an optical generator as the bars show it; None if there is none, or it cannot be read."""
    if not code:
        return None
    from fints.hhd import flicker

    try:
        return str(flicker.parse(code).render())
    except Exception:
        # The person can still type the code from the text into the generator.
        return None
