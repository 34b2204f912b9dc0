"""A bank that speaks FinTS 3.0 with PIN and TAN, on loopback: what it holds, what it wants confirmed, and how it misbehaves.

It checks what it is sent: the length of each message, the PIN, the TAN, the order of messages in a dialog. Whatever is wrong is kept
in `faults`. A test changes the attributes while it runs.
"""

from __future__ import annotations

import base64
import itertools
import threading
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from simulators.fints_wire import ANONYMOUS, Message, Segment, binary, escape, read_message, write_message

CAMT = "urn:iso:std:iso:20022:tech:xsd:camt.052.001.08"
Codes = list[tuple[str, str]]
Confirmation = Literal["none", "tan", "decoupled"]
_OK: Codes = [("0010", "Nachricht entgegengenommen.")]


@dataclass
class Account:
    iban: str
    number: str
    owner: str = "Muster GmbH"
    product: str = "Girokonto"
    # 1: current account, 10: savings.
    type: int = 1
    # Empty: the bank tells none.
    balance: str = "C:1042,5:EUR:20260302"
    # Documents, one a page; MT940 likewise.
    camt: list[bytes] = field(default_factory=list)
    camt_pending: bytes = b""
    mt940: list[bytes] = field(default_factory=list)
    mt940_pending: bytes = b""
    has_camt: bool = True
    # The orders that the login may send, if not those of every account; and what single orders are refused with.
    rights: tuple[str, ...] | None = None
    errors: dict[str, Codes] = field(default_factory=dict)


@dataclass
class _Dialog:
    user: str
    next_number: int = 2
    # The order that waits for a TAN, by its reference.
    waiting: dict[str, Segment] = field(default_factory=dict)
    polls: int = 0
    is_open: bool = True
    # Whether the person was confirmed at the start.
    is_confirmed: bool = True
    # The answer with the installation's id, once the person has confirmed.
    waits_for_id: str = ""


class FakeBank:
    def __init__(self, blz: str = "99990000") -> None:
        self.blz, self.bic, self.name = blz, "FAKEDEFFXXX", "Fakebank"
        self.users = {"muster": "12345"}
        self.tan = "123456"
        # Added to the words that it asks for a confirmation with.
        self.adds = ""
        self.accounts: list[Account] = []
        # Whether the start of a dialog has to be confirmed, and which orders have to be.
        self.start: Confirmation = "none"
        self.confirmed_orders: set[str] = set()
        self.methods = ["920", "922"]
        self.devices: list[str] = []
        self.lists_devices_freely = True
        # The number of times that a confirmation elsewhere is still open before it is there.
        self.open_polls = 2
        self.max_polls = 180
        # The codes that an order is refused with, by its name; `start` for the start of a dialog, `tan` for a TAN.
        self.errors: dict[str, Codes] = {}
        # The fate of the next answers: nothing, status 500, nonsense, a cut connection, too much of it, what was sent,
        # and no answer at all.
        self.breaks: list[Literal["", "500", "nonsense", "cut", "huge", "echo", "silent"]] = []
        # True if its answers have lines and end with one, as in mail.
        self.writes_lines = False
        # The version of its balances, and how it lists accounts: as it should, with texts that are too long, or as an older version does.
        self.balance_version = 7
        self.lists_accounts: Literal["", "long", "short", "old"] = ""
        # True if what it does not list among an account's orders may be allowed all the same.
        self.lists_some_orders = False
        # True if it gives this installation an id only with a strong confirmation.
        self.confirms_sync = False
        # Whether it says at the end of a page that the same page follows.
        self.repeats_page = False
        self.asked_from: list[str] = []
        self.faults: list[str] = []
        self.open_at_once = 0
        self._dialogs: dict[str, _Dialog] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        # While it is not set, no message is answered.
        self.pause = threading.Event()
        self.pause.set()
        self.messages = 0

    # --- The server

    def serve(self) -> str:
        """Starts it on loopback, and returns its address."""
        bank = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer leaves as a whole, without waiting for more to send.
            wbufsize, disable_nagle_algorithm = -1, True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                how = bank.breaks.pop(0) if bank.breaks else None
                if how == "cut":
                    self.close_connection = True
                    self.connection.close()
                    return
                if how == "silent":
                    bank._stopping.wait()
                    return
                bank.pause.wait()
                with bank._lock:
                    answer = bank.answer(body)
                if how == "huge":
                    answer = b"A" * 80_000_000
                content = {"nonsense": b"%%% not base64 %%%", "echo": body}.get(how or "", answer)
                self.send_response(500 if how == "500" else 200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that went away is no fault of the bank's."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/fints"

    def stop(self) -> None:
        self._stopping.set()
        self.pause.set()
        self._server.shutdown()
        self._server.server_close()

    # --- Messages

    def answer(self, body: bytes) -> bytes:
        found = self._answer(body)
        return base64.encodebytes(base64.b64decode(found)).replace(b"\n", b"\r\n") if self.writes_lines else found

    def _answer(self, body: bytes) -> bytes:
        asked = read_message(body)
        self.messages += 1
        if not asked.is_whole:
            self.faults.append("a message with a wrong length")
        names = [order.name for order in asked.orders]
        if asked.dialog == "0":
            return self._start(asked, names)
        dialog = self._dialogs.get(asked.dialog)
        if dialog is None or not dialog.is_open:
            self.faults.append(f"{names} in a dialog that is not open")
            return self._refuse(asked, asked.dialog, [("9800", "Der Dialog ist abgebrochen.")], asked.orders[0])
        if asked.number != dialog.next_number:
            self.faults.append(f"message {asked.number} where {dialog.next_number} was due")
        if self.users.get(dialog.user, "") != asked.pin:
            self.faults.append(f"the PIN {asked.pin!r}, which is wrong")
        dialog.next_number += 1
        return self._continue(asked, dialog, names)

    def _start(self, asked: Message, names: list[str]) -> bytes:
        identification = asked.orders[0]
        codes = self.errors.get("sync" if "HKSYN" in names else "start") or self._wrong_pin(asked)
        if codes:
            return self._refuse(asked, "0", codes, identification)
        if self.confirms_sync and "HKSYN" in names and "HKTAN" not in names:
            refused = "HIRMG:2:2+9050::Die Nachricht enthält Fehler."
            why = f"HIRMS:90:2:{identification.number}+9075::Starke Authentifizierung erforderlich."
            return write_message(asked, "0", [refused, *self._parameters(asked, names), why])
        dialog_id = f"D{next(self._numbers)}"
        dialog = self._dialogs[dialog_id] = _Dialog(asked.user)
        self.open_at_once = max(self.open_at_once, self._open_of(asked.user))
        segments = ["HIRMG:2:2+0010::Nachricht entgegengenommen.", *self._parameters(asked, names)]
        if "HKTAN" in names:
            order = next(order for order in asked.orders if order.name == "HKTAN")
            # Its second element says what the dialog is for: everything, or only the list of devices.
            how: Confirmation = "none" if order.text(2) == "HKTAB" and self.lists_devices_freely else self.start
            if self.devices and order.text(2) != "HKTAB" and order.text(11) not in self.devices:
                self.faults.append(f"the device {order.text(11)!r}, which does not exist")
            segments += self._confirm(dialog, order, identification, how)
            dialog.is_confirmed = how == "none"
        if "HKSYN" in names:
            order = next(order for order in asked.orders if order.name == "HKSYN")
            if dialog.is_confirmed:
                segments.append(f"HISYN:90:4:{order.number}+SYS{dialog_id}")
            dialog.waits_for_id = f"HISYN:90:4:{order.number}+SYS{dialog_id}"
        elif not self._knows(identification):
            self.faults.append("an installation without an id")
        return write_message(asked, dialog_id, segments)

    def _wrong_pin(self, asked: Message) -> Codes:
        if asked.user == ANONYMOUS:
            return []
        if asked.user not in self.users:
            return [("9931", "Zugang gesperrt oder unbekannt.")]
        return [] if self.users[asked.user] == asked.pin else [("9942", "PIN ungültig.")]

    def _open_of(self, user: str) -> int:
        return sum(dialog.is_open for dialog in self._dialogs.values() if dialog.user == user)

    def _refuse(self, asked: Message, dialog: str, codes: Codes, order: Segment) -> bytes:
        ends = [("9800", "Dialog abgebrochen.")] if asked.dialog == "0" else []
        if any(code == "9800" for code, _ in codes) and dialog in self._dialogs:
            self._dialogs[dialog].is_open = False
        general = "+".join(
            f"{code}::{escape(text)}" for code, text in [("9050", "Die Nachricht enthält Fehler."), *ends]
        )
        special = "+".join(f"{code}::{escape(text)}" for code, text in codes)
        return write_message(asked, dialog, [f"HIRMG:2:2+{general}", f"HIRMS:3:2:{order.number}+{special}"])

    def _continue(self, asked: Message, dialog: _Dialog, names: list[str]) -> bytes:
        order = asked.orders[0]
        codes = self.errors.get(order.name)
        if not codes and order.name in ("HKSAL", "HKKAZ", "HKCAZ"):
            account = self._account(order)
            codes = account.errors.get(order.name)
            if order.name not in self._rights(account) and not self.lists_some_orders:
                self.faults.append(f"{order.name}, which is not allowed")
        if codes:
            return self._refuse(asked, asked.dialog, codes, order)
        if order.name == "HKEND":
            dialog.is_open = False
            return write_message(asked, asked.dialog, ["HIRMG:2:2+0010::Entgegengenommen.+0100::Dialog beendet."])
        if order.name == "HKTAN":
            return self._take_tan(asked, dialog, order)
        if not dialog.is_confirmed:
            self.faults.append(f"{order.name} before the start was confirmed")
        if "HKTAN" in names and order.name in self.confirmed_orders:
            how: Confirmation = "decoupled" if self.start == "decoupled" else "tan"
            return write_message(
                asked, asked.dialog, ["HIRMG:2:2+0010::Ok.", *self._confirm(dialog, asked.orders[1], order, how)]
            )
        return write_message(asked, asked.dialog, ["HIRMG:2:2+0010::Ok.", *self._execute(order)])

    def _confirm(self, dialog: _Dialog, tan_order: Segment, order: Segment, how: Confirmation) -> list[str]:
        number, version = tan_order.number, tan_order.version
        if how == "none":
            return [
                f"HIRMS:80:2:{number}+3076::Keine starke Authentifizierung erforderlich.",
                f"HITAN:81:{version}:{number}+4++noref+nochallenge",
            ]
        reference = f"R{next(self._numbers)}"
        dialog.waiting[reference], dialog.polls = order, 0
        code = "3955" if how == "decoupled" else "0030"
        text = "Bitte in der App freigeben" if how == "decoupled" else "Bitte TAN eingeben"
        return [
            f"HIRMS:80:2:{number}+{code}::{text}.",
            f"HITAN:81:{version}:{number}+4++{reference}+{escape(f'{text}: Auftrag {order.name} für Müller & Söhne{self.adds}')}",
        ]

    def _take_tan(self, asked: Message, dialog: _Dialog, order: Segment) -> bytes:
        reference, number = order.text(5), order.number
        waiting = dialog.waiting.get(reference)
        if waiting is None:
            self.faults.append("a TAN for nothing")
            return self._refuse(asked, asked.dialog, [("9010", "Unbekannte Referenz.")], order)
        if order.text(1) == "S":
            dialog.polls += 1
            if dialog.polls <= self.open_polls:
                still = [
                    f"HIRMS:3:2:{number}+3956::Starke Kundenauthentifizierung noch ausstehend.",
                    f"HITAN:4:{order.version}:{number}+S++{reference}",
                ]
                return write_message(asked, asked.dialog, ["HIRMG:2:2+0010::Ok.", *still])
        else:
            codes = self.errors.get("tan") or ([] if asked.tan == self.tan else [("9941", "TAN ungültig.")])
            if codes:
                return self._refuse(asked, asked.dialog, [*codes, ("9800", "Dialog abgebrochen.")], order)
        del dialog.waiting[reference]
        dialog.is_confirmed = True
        done = [
            f"HIRMS:3:2:{number}+0020::Auftrag ausgeführt.",
            f"HITAN:4:{order.version}:{number}+{order.text(1)}++{reference}",
        ]
        result = (
            self._execute(waiting) if waiting.name != "HKIDN" else [dialog.waits_for_id] if dialog.waits_for_id else []
        )
        return write_message(asked, asked.dialog, ["HIRMG:2:2+0010::Ok.", *done, *result])

    # --- Orders

    def _execute(self, order: Segment) -> list[str]:
        match order.name:
            case "HKSPA":
                accounts = "+".join(f"J:{self._kti(account)}" for account in self.accounts)
                return [f"HISPA:10:1:{order.number}+{accounts}"]
            case "HKTAB":
                media = "+".join(f"M:1:922:::::::::::{escape(name)}" for name in self.devices)
                return [f"HITAB:10:5:{order.number}+1+{media}"]
            case "HKSAL":
                account = self._account(order)
                if not account.balance:
                    return [f"HIRMS:3:2:{order.number}+3010::Kein Saldo vorhanden."]
                # The newest version has more at its end.
                more = "++++++20260302:101500++C:500,:EUR" if order.version > 7 else ""
                return [
                    f"HISAL:10:{order.version}:{order.number}+{self._kti(account)}+{escape(account.product)}+EUR+{account.balance}{more}"
                ]
            case "HKCAZ":
                return self._bookings(order, self._account(order).camt)
            case "HKKAZ":
                return self._bookings(order, self._account(order).mt940)
        return [f"HIRMS:3:2:{order.number}+9160::Auftrag nicht unterstützt."]

    def _bookings(self, order: Segment, pages: list[bytes]) -> list[str]:
        is_camt = order.name == "HKCAZ"
        account = self._account(order)
        touchdown = order.text(7 if is_camt else 6)
        if not touchdown:
            self.asked_from.append(order.text(4 if is_camt else 3))
        page = int(touchdown) if touchdown else 0
        if not pages:
            return [f"HIRMS:3:2:{order.number}+3010::Keine Umsätze gefunden."]
        following = page if self.repeats_page and page else page + 1
        more = (
            [f"HIRMS:3:2:{order.number}+3040::Es liegen weitere Informationen vor:{following}"]
            if following < len(pages)
            else []
        )
        if is_camt:
            pending = f"+{binary(account.camt_pending)}" if account.camt_pending and page == 0 else ""
            return [
                *more,
                f"HICAZ:10:1:{order.number}+{self._kti(account)}+{escape(CAMT)}+{binary(pages[page])}{pending}",
            ]
        pending = f"+{binary(account.mt940_pending)}" if account.mt940_pending and page == 0 else ""
        return [*more, f"HIKAZ:10:7:{order.number}+{binary(pages[page])}{pending}"]

    def _listed(self, account: Account, user: str, version: int) -> str:
        """The account in the user parameters."""
        orders = "+".join(f"{order}:1" for order in self._rights(account))
        number, owner, product = f"{account.number}::280:{self.blz}", escape(account.owner), escape(account.product)
        match self.lists_accounts:
            case "long":
                owner, product = f"{owner} und Partner in Abwicklung", f"{product} mit allen Vorteilen und noch mehr"
                limit = "E:1000,:EUR:30:mehr als die Form hat"
                return f"HIUPD:n:6:{version}+{number}+{account.iban}+{user}+{account.type}+EUR+{owner}++{product}+{limit}+{orders}"
            case "short":
                return f"HIUPD:n:6:{version}+{number}+{account.iban}"
            case "old":
                return f"HIUPD:n:5:{version}+{number}+{user}+EUR+{owner}++{product}++{orders}"
        return f"HIUPD:n:6:{version}+{number}+{account.iban}+{user}+{account.type}+EUR+{owner}++{product}++{orders}"

    def _rights(self, account: Account) -> tuple[str, ...]:
        if account.rights is not None:
            return account.rights
        return ("HKSAL", "HKKAZ", "HKCAZ") if account.has_camt else ("HKSAL", "HKKAZ")

    def _knows(self, identification: Segment) -> bool:
        """Returns whether the installation names an id, or nobody in particular asks."""
        return identification.text(2) == ANONYMOUS or identification.text(3) not in ("", "0")

    def _account(self, order: Segment) -> Account:
        return next(account for account in self.accounts if account.iban == order.text(1))

    def _kti(self, account: Account) -> str:
        return f"{account.iban}:{self.bic}:{account.number}::280:{self.blz}"

    # --- Parameters

    def _parameters(self, asked: Message, names: list[str]) -> list[str]:
        order = next(order for order in asked.orders if order.name == "HKVVB")
        version = order.number
        allowed_methods = f"3920::Zugelassene Verfahren:{':'.join(self.methods)}"
        if (order.text(1), order.text(2)) == ("12", "7"):
            # The client has them already.
            return [f"HIRMS:3:2:{version}+{allowed_methods}"]
        pins = "".join(
            f":{name}:{'J' if name in self.confirmed_orders else 'N'}"
            for name in ("HKSAL", "HKKAZ", "HKCAZ", "HKSPA", "HKTAB")
        )
        number = len(self.devices)
        must = 2 if self.devices else 0
        bank = [
            f"HIBPA:n:3:{version}+12+280:{self.blz}+{escape(self.name)}+1+1+300",
            f"HIKOM:n:4:{version}+280:{self.blz}+1+3:loopback",
            f"HISHV:n:3:{version}+N+PIN:2",
            f"HISPAS:n:1:{version}+1+1+1+J:J:N:sepade.pain.001.001.03.xsd",
            f"HISALS:n:{self.balance_version}:{version}+1+1+1",
            f"HIKAZS:n:7:{version}+1+1+1+90:N:N",
            f"HITABS:n:5:{version}+1+1+1",
            f"HITANS:n:6:{version}+1+1+1+N:N:0:920:2:smsTAN:::smsTAN:6:1:TAN-Nummer:3:N:2:N:0:0:N:N:00:{must}:N:{number}",
            f"HITANS:n:7:{version}+1+1+1+N:N:0:922:2:pushTAN-dec:Decoupled::pushTAN 2.0:::Aufforderung:2048:N:2:N:0:0:N:N:00"
            f":{must}:N:{number}:{self.max_polls}:1:1:J:J",
            f"HIPINS:n:1:{version}+1+1+1+5:38:6:USERID:CUSTID{pins}:HKTAN:N",
        ]
        if any(account.has_camt for account in self.accounts):
            bank.append(f"HICAZS:n:1:{version}+1+1+1+90:N:N:{escape(CAMT)}")
        user = [f"HIUPA:n:4:{version}+{escape(asked.user)}+7+{int(self.lists_some_orders)}"]
        user += [self._listed(account, escape(asked.user), version) for account in self.accounts]
        numbered = [segment.replace(":n:", f":{at}:", 1) for at, segment in enumerate([*bank, *user], 4)]
        return [
            f"HIRMS:3:2:{version}+3050::BPD nicht mehr aktuell.+{allowed_methods}",
            *numbered,
        ]


def camt_document(
    iban: str, day: date, entries: list[tuple[str, str]], *, status: str = "BOOK", reference: str = "REF"
) -> bytes:
    """A camt.052 with entries of (amount with its sign, text); without entries it is an empty report.

    With the same `reference` two documents number their entries alike, as some banks do.
    """
    body = "".join(
        f'<Ntry><NtryRef>{number}</NtryRef><Amt Ccy="EUR">{amount.lstrip("-")}</Amt>'
        f"<CdtDbtInd>{'DBIT' if amount.startswith('-') else 'CRDT'}</CdtDbtInd><Sts><Cd>{status}</Cd></Sts>"
        f"<BookgDt><Dt>{day}</Dt></BookgDt><ValDt><Dt>{day}</Dt></ValDt><AcctSvcrRef>{reference}-{number}</AcctSvcrRef>"
        f"<NtryDtls><TxDtls><RmtInf><Ustrd>{text}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>"
        for number, (amount, text) in enumerate(entries, 1)
    )
    return (
        f'<?xml version="1.0" encoding="ISO-8859-1"?><Document xmlns="{CAMT}"><BkToCstmrAcctRpt>'
        f"<GrpHdr><MsgId>M</MsgId><CreDtTm>{day}T10:00:00</CreDtTm></GrpHdr><Rpt><Id>R</Id><CreDtTm>{day}T10:00:00</CreDtTm>"
        f"<Acct><Id><IBAN>{iban}</IBAN></Id><Ccy>EUR</Ccy></Acct>{body}</Rpt></BkToCstmrAcctRpt></Document>"
    ).encode("iso-8859-1")
