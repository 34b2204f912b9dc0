"""The library's client, made strict: no error of a bank is swallowed, and every message goes through our own connection.

The library posts with a class-wide switch that hides the PIN while it writes its log, which spoils messages of other threads; that code
is never reached here. One client serves one piece of work in one thread and is thrown away.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable
from datetime import date
from typing import Any

from fints.client import FinTS3PinTanClient, NeedTANResponse
from fints.exceptions import FinTSClientError, FinTSConnectionError
from fints.formals import SupportedMessageTypes
from fints.message import FinTSInstituteMessage
from fints.models import SEPAAccount
from fints.segments.statement import HKCAZ1, HKKAZ5, HKKAZ6, HKKAZ7

from kontobahn.banking.providers.fints.codes import is_failure

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


_GOODBYE = re.compile(rb"'HKEND:\d+:1\+")


class _Connection:
    def __init__(self, url: str, post: Post) -> None:
        self.url = url
        self._post = post
        # Whether the message that was sent last ends its dialog.
        self.is_goodbye = False

    def send(self, message: Any) -> Any:
        raw = message.render_bytes()
        self.is_goodbye = _GOODBYE.search(raw) is not None
        answer = self._post(self.url, base64.b64encode(raw))
        try:
            return FinTSInstituteMessage(segments=base64.b64decode(answer, validate=True))
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
            # What the bank says to the end of a dialog changes nothing, and must not hide a failure before it.
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
        """Whether the bank hands out camt for this account."""
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
