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
from functools import cache
from typing import Any, NamedTuple

from fints.client import SYSTEM_ID_UNASSIGNED, FinTS3PinTanClient, NeedRetryResponse, NeedTANResponse
from fints.exceptions import FinTSClientError, FinTSConnectionError, FinTSUnsupportedOperation
from fints.formals import (
    CUSTOMER_ID_ANONYMOUS,
    DescriptionRequired,
    SupportedMessageTypes,
    SynchronizationMode,
    UPDUsage,
)
from fints.message import FinTSInstituteMessage
from fints.models import SEPAAccount
from fints.parser import FinTS3Parser, FinTS3Serializer
from fints.segments.base import FinTS3Segment
from fints.segments.dialog import HKSYN3
from fints.segments.saldo import HKSAL5, HKSAL6, HKSAL7
from fints.segments.statement import HKCAZ1, HKKAZ5, HKKAZ6, HKKAZ7

from kontobahn.bank_providers.fints.rules import concerns_one_order, is_failure
from kontobahn.bank_providers.fints.wire import Challenge, Documents, Method, SeenAccount, Stage, Work
from kontobahn.outbound import redact

__all__ = ["BankError", "FinTSConnectionError", "NeedTANResponse", "StrictClient"]
PRODUCT_VERSION = "1.0"
# It writes what banks say to its own log, and where nobody listens to that, to standard error.
logging.getLogger("fints").setLevel(logging.CRITICAL + 1)

# The rights to an account, see `_rights`. The library makes 999 orders of the few that a bank allows, whenever one is read or kept.
READ_BY_ELEMENTS = "HIUPD"


@cache
def _kinds() -> dict[tuple[str, int], Any]:
    """The library's segments by type and version. By itself it compares the names of all of them with each segment of a message."""
    return {(kind.TYPE, kind.VERSION): kind for kind in FinTS3Segment._all_subclasses()}


def _kind_of(segment: Any) -> Any:
    kind, _, version, *_ = segment[0]
    return FinTS3Segment if kind == READ_BY_ELEMENTS else _kinds().get((kind, int(version)), FinTS3Segment)


def _parse_segment(parser: FinTS3Parser, segment: Any) -> Any:
    """A segment that is not as the library knows it keeps its elements, and spoils no other. The library warns, and minds some."""
    try:
        return parser._parse_segment_as_class(_kind_of(segment), segment)
    except Exception:
        return parser._parse_segment_as_class(FinTS3Segment, segment)


FinTS3Parser.parse_segment = _parse_segment
# Posts a message and returns the answer. Raises FinTSConnectionError.
Post = Callable[[str, bytes], bytes]
# Takes documents: booked and pending.
Keep = Callable[[list[bytes], list[bytes]], None]
# Of the bookings of one account.
MAX_PAGES = 10_000
_BALANCE_AMOUNT = re.compile(r"([0-9]{1,15}),?([0-9]{0,2})0*")


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
    """Decodes slice by slice, so that other threads have their turns; lines may end, as in mail. Raises ValueError."""
    if b"\n" in text or b"\r" in text:
        pieces = (text[at : at + _SLICE_BYTES] for at in range(0, len(text), _SLICE_BYTES))
        text = b"".join(piece.translate(None, b"\r\n") for piece in pieces)
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
            # The bank has ended it, said or unsaid.
            dialog.open = False
            return
        self._has_failed = True
        raise BankError(codes)

    # --- The id of this installation: from the first contact, or with a confirmation where the bank gives none without

    def _ensure_system_id(self) -> None:
        if self.has_system_id or not self.is_first_contact or self.user_id == CUSTOMER_ID_ANONYMOUS:
            return
        with self._get_dialog(lazy_init=True) as dialog:
            self.take_system_id(dialog.init(HKSYN3(SynchronizationMode.NEW_SYSTEM_ID)))

    @property
    def has_system_id(self) -> bool:
        return bool(self.system_id != SYSTEM_ID_UNASSIGNED)

    @contextmanager
    def synchronising(self) -> Iterator[None]:
        """A dialog that asks for the id with the method that was chosen. `init_tan_response` says whether a TAN comes before it."""
        self._standing_dialog = dialog = self._get_dialog(lazy_init=True)
        with _quietly_left(dialog):
            self.take_system_id(dialog.init(HKSYN3(SynchronizationMode.NEW_SYSTEM_ID)))
            yield
        self._standing_dialog = None

    def take_system_id(self, response: Any) -> None:
        found = response.find_segment_first("HISYN")
        if found is not None:
            self.system_id = str(_elements(found)[1])

    def overlook(self) -> None:
        """Takes a failure for one that concerns only the order before."""
        self._has_failed = False

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

    def rights_to(self, account: SEPAAccount) -> Rights | None:
        """Returns what the bank says that the login may do with an account; None if it says nothing of it."""
        number = account.accountnumber.lstrip("0")
        found = [_rights(_elements(entry)) for entry in self.upd.find_segments("HIUPD")]
        same = [one for one in found if one.iban == account.iban] or [
            one for one in found if not one.iban and one.number.lstrip("0") == number
        ]
        return same[0] if same else None

    def may(self, account: SEPAAccount, *orders: str) -> bool:
        """Returns whether one of these orders may be sent: unless the bank says that what it does not list is not allowed."""
        rights = self.rights_to(account)
        is_conclusive = self.upa is None or getattr(self.upa, "upd_usage", None) != UPDUsage.UPD_INCONCLUSIVE
        return rights is None or not rights.orders or not is_conclusive or not rights.orders.isdisjoint(orders)

    def reads_camt(self, account: SEPAAccount) -> bool:
        """Returns whether the bank hands out camt for this account."""
        rights = self.rights_to(account)
        offered = self.bpd.find_segment_first("HICAZS") is not None
        return offered and (rights is None or not rights.orders or "HKCAZ" in rights.orders)

    # --- Balances

    def read_balance(self, account: SEPAAccount) -> Any:
        """Returns the balance as the bank writes it, None if it has none, or that a TAN is needed."""
        order = self._find_highest_supported_command(HKSAL5, HKSAL6, HKSAL7, HKSAL8)
        with self._get_dialog() as dialog:
            segment = order(account=order._fields["account"].type.from_sepa_account(account), all_accounts=False)
            return self._send_with_possible_retry(dialog, segment, self._take_balance)

    def _take_balance(self, command_seg: Any, response: Any) -> Balance | None:
        for segment in response.response_segments(command_seg, "HISAL"):
            for element in _elements(segment)[2:]:
                # Credit or debit, amount, currency, day: the first is what is booked, in every version.
                if isinstance(element, list) and len(element) > 2 and element[0] in ("C", "D"):
                    return Balance(element[0] == "D", str(element[1]), str(element[2]))
        return None

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


# --- Segments as the bank sent them: the library knows some versions, and refuses texts that are longer than they should be


class HKSAL8(HKSAL7):  # type: ignore[misc]
    """The library finds it by its name. It asks like the version before; the answer has more after what is read."""


class Balance(NamedTuple):
    is_debit: bool
    amount: str
    currency: str


class Rights(NamedTuple):
    """An account in the user parameters, and the orders that the login may send for it."""

    number: str
    iban: str
    type: int
    currency: str
    holder: str
    product: str
    orders: frozenset[str]


_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_ORDER = re.compile(r"[A-Z]K[A-Z]{2,4}")
_SOME_CURRENCY = re.compile(r"[A-Z]{3}")


def _elements(segment: Any) -> list[Any]:
    """Returns a segment's elements, the head first: texts, or lists of them where they are groups."""
    return list(FinTS3Serializer().serialize_segment(segment))


def _rights(elements: list[Any]) -> Rights:
    """Reads an account by what its elements are: versions differ in their number, and banks in their length."""
    first = elements[1] if len(elements) > 1 else ""
    rest = elements[2:]
    texts = [str(element or "") if not isinstance(element, list) else "" for element in rest]
    orders = [str(element[0] if isinstance(element, list) and element else element) for element in rest]
    iban = next((text for text in texts if _IBAN.fullmatch(text)), "")
    at = next((at for at, text in enumerate(texts) if _SOME_CURRENCY.fullmatch(text)), None)
    # After the currency: two names, and the product's.
    names = ["", "", ""] if at is None else [*texts[at + 1 : at + 4], "", "", ""]
    kind = texts[at - 1] if at else ""
    return Rights(
        number=str((first[0] if isinstance(first, list) and first else first) or ""),
        iban=iban,
        type=int(kind) if kind.isdigit() and len(kind) < 3 else 1,
        currency="EUR" if at is None else texts[at],
        holder=" ".join(filter(None, names[:2])),
        product=names[2],
        orders=frozenset(order for order in orders if _ORDER.fullmatch(order)),
    )


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
    if not client.has_system_id:
        with client.synchronising():
            if client.init_tan_response is not None:
                request, client.init_tan_response = client.init_tan_response, None
                work.stage = "sync"
                return _pause(work, client, documents, request)
        client = _with_system_id(work, client, post)
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
    if work.stage == "sync":
        return _go_on_synchronising(work, client, request, tan, post)
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


def _go_on_synchronising(
    work: Work, client: StrictClient, request: NeedTANResponse, tan: str, post: Post
) -> Challenge | Documents:
    with _quietly_left(client.resume_dialog(work.dialog)):
        result = client.send_tan(request, tan)
        if isinstance(result, NeedTANResponse):
            return _pause(work, client, Documents(), result)
        client.take_system_id(result)
    _with_system_id(work, client, post)
    return read(work, post)


def _with_system_id(work: Work, client: StrictClient, post: Post) -> StrictClient:
    """Returns a client for what follows. Raises BankError if there is no id even now: the person would be asked for ever."""
    if not client.has_system_id:
        raise BankError([("9391", "The bank gives this installation no id")])
    work.login.data = client.deconstruct(including_private=True)
    return _client(work, post)


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
            refused = [account.refused for account in work.accounts or []]
            if refused and all(refused):
                raise BankError(refused[0])
            work.login.data = client.deconstruct(including_private=True)
            return documents
        result = _ask(work, client, documents)
        if isinstance(result, NeedTANResponse):
            return _pause(work, client, documents, result)
        if result is not _REFUSED:
            _store(work, client, result)


# The bank refused an order for one account.
_REFUSED = object()


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
            return client.read_balance(_sepa(_current(work)))
        _begin_bookings(work, client, documents)
        return client.read_bookings()
    except FinTSUnsupportedOperation:
        # A bank that does not offer this for any account: a depot, a card.
        return None
    except BankError as error:
        if work.stage == "accounts" or not concerns_one_order(error.codes):
            raise
        # The other accounts are read all the same.
        client.overlook()
        account = _current(work)
        account.refused = [(code, redact(text, work.pin)) for code, text in error.codes]
        account.has_balance = account.has_bookings = True
        return _REFUSED


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
        account.balance_minor = None if result is None else _cents(account, result)
    else:
        _current(work).has_bookings = True


def _accounts(client: StrictClient, found: list[SEPAAccount]) -> list[SeenAccount]:
    seen = []
    for account in found:
        rights = client.rights_to(account) or Rights("", "", 1, "EUR", "", "", frozenset())
        seen.append(
            SeenAccount(
                iban=account.iban, bic=account.bic or "", number=account.accountnumber, sub=account.subaccount or "",
                blz=account.blz, name=rights.product, holder=rights.holder or None, type=rights.type, currency=rights.currency,
                # Nothing is asked for that the login may not have: a refusal would end the dialog at some banks.
                may_balance=client.may(account, "HKSAL"), may_bookings=client.may(account, "HKKAZ", "HKCAZ"),
            )
        )  # fmt: skip
        seen[-1].has_balance, seen[-1].has_bookings = not seen[-1].may_balance, not seen[-1].may_bookings
    return seen


def _cents(account: SeenAccount, balance: Balance) -> int | None:
    """Returns whole cents; None for what cannot be read as such, or is in another currency: it is never rounded."""
    found = _BALANCE_AMOUNT.fullmatch(balance.amount)
    if found is None or balance.currency != account.currency:
        account.balance_told = f"{balance.amount} {balance.currency}"
        return None
    cents = int(found[1] + found[2].ljust(2, "0"))
    return -cents if balance.is_debit else cents


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
