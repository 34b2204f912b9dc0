"""The bank's side of the line: how it answers each message.

It checks what it is sent: signatures, states, rights, nonces, the order of segments. Whatever a client should not have done is kept
in `faults`. A test changes the attributes while it runs.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Callable

from lxml import etree

from simulators.ebics_bank import reports, secrecy, uploads
from simulators.ebics_bank.catalogue import ALWAYS, BUSINESS, KINDS, Kind, kind_of_service
from simulators.ebics_bank.codes import Refusal, levels, report
from simulators.ebics_bank.customers import User
from simulators.ebics_bank.desk import Desk
from simulators.ebics_bank.envelope import (
    HEV,
    Request,
    add,
    decoded,
    encrypted_for,
    find,
    is_authentic,
    new_root,
    parse,
    read,
    text,
)
from simulators.ebics_bank.uploads import Transaction, order_meant, unpacked


class EbicsBank(Desk):
    def __init__(self, host: str = "FAKEBANK") -> None:
        super().__init__(host)
        self.transactions: dict[str, Transaction] = {}

    # --- Messages

    def answer(self, body: bytes) -> tuple[etree._Element, bool]:
        """The answer to a message, and whether it is to be signed."""
        try:
            root = parse(body)
        except Refusal as refusal:
            return self._response("H005", refusal.code), True
        if etree.QName(root).namespace == HEV:
            return self._tell_versions(root), False
        version = root.get("Version", "")
        is_key_order = etree.QName(root).localname in ("ebicsUnsecuredRequest", "ebicsNoPubKeyDigestsRequest")
        try:
            request = read(root)
            if request.host != self.host:
                raise Refusal("091011")
            if version not in self.versions:
                raise Refusal("061002")
            if is_key_order:
                return self._take_key_order(request), False
            if request.kind != "ebicsRequest":
                raise Refusal("061002")
            return self._take(request), True
        except Refusal as refusal:
            version = version if version in self.versions else "H005"
            if is_key_order:
                return self._key_response(version, refusal.code), False
            return self._response(version, refusal.code), True

    def refused(self, body: bytes, code: str) -> tuple[etree._Element, bool]:
        """An answer with that code to whatever was asked; nothing is done."""
        request = read(parse(body))
        if request.kind != "ebicsRequest":
            return self._key_response(request.version, code), False
        segment = (max(request.segment - 1, 1), False) if code == "061101" else None
        phase, transaction = request.phase or "Initialisation", request.transaction
        return self._response(request.version, code, phase=phase, transaction=transaction, segment=segment), True

    def describe(self, body: bytes) -> tuple[str, str, int]:
        """The phase, the order and the segment of a message, for choosing a misbehaviour."""
        try:
            root = parse(body)
            if etree.QName(root).namespace == HEV:
                return "", "HEV", 0
            request = read(root)
        except (Refusal, ValueError):
            return "", "", 0
        if request.transaction in self.transactions:
            return request.phase, self.transactions[request.transaction].kind.name, request.segment
        try:
            return request.phase, self._kind(request).name, request.segment
        except Refusal:
            return request.phase, request.order_type, request.segment

    def _tell_versions(self, asked: etree._Element) -> etree._Element:
        root = etree.Element(f"{{{HEV}}}ebicsHEVResponse", nsmap={None: HEV})
        code = "000000" if text(asked, "HostID") == self.host else "091011"
        result = add(root, "SystemReturnCode")
        add(result, "ReturnCode", code)
        add(result, "ReportText", report(code))
        for version, number in self.versions.items() if code == "000000" else ():
            add(root, "VersionNumber", number, ProtocolVersion=version)
        return root

    def _response(
        self,
        version: str,
        code: str = "000000",
        *,
        phase: str = "Initialisation",
        transaction: str = "",
        segments: int = 0,
        segment: tuple[int, bool] | None = None,
        order: str = "",
    ) -> etree._Element:
        root = new_root(version, "ebicsResponse")
        header = add(root, "header", authenticate="true")
        static, mutable = add(header, "static"), add(header, "mutable")
        if transaction:
            add(static, "TransactionID", transaction)
        if segments:
            add(static, "NumSegments", str(segments))
        add(mutable, "TransactionPhase", phase)
        if segment:
            add(mutable, "SegmentNumber", str(segment[0]), lastSegment="true" if segment[1] else "false")
        if order:
            add(mutable, "OrderID", order)
        step, of_order = levels(code)
        add(mutable, "ReturnCode", step)
        add(mutable, "ReportText", report(code))
        add(add(root, "body"), "ReturnCode", of_order, authenticate="true")
        return root

    def _key_response(self, version: str, code: str = "000000", order: str = "") -> etree._Element:
        root = new_root(version, "ebicsKeyManagementResponse")
        header = add(root, "header", authenticate="true")
        add(header, "static")
        mutable = add(header, "mutable")
        if order:
            add(mutable, "OrderID", order)
        step, of_order = levels(code)
        add(mutable, "ReturnCode", step)
        add(mutable, "ReportText", report(code))
        add(add(root, "body"), "ReturnCode", of_order, authenticate="true")
        return root

    # --- Keys

    def _take_key_order(self, request: Request) -> etree._Element:
        self.heard.append((request.order_type, ""))
        partner = self.partners.get(request.partner)
        user = partner.users.get(request.user) if partner else None
        if partner is None or user is None:
            raise Refusal("091002")
        if request.order_type == "HPB":
            return self._send_bank_keys(request, user)
        data = unpacked(lambda: zlib.decompress(decoded(request.order_data)))
        roles = {
            "INI": ("Signature",),
            "HIA": ("Authentication", "Encryption"),
            "H3K": ("Signature", "Authentication", "Encryption"),
        }.get(request.order_type)
        if roles is None:
            raise Refusal("091005")
        root = parse(data)
        if (text(root, "PartnerID"), text(root, "UserID")) != (request.partner, request.user):
            raise Refusal("091120")
        keys = {role: uploads.checked_key(root, role, request.version) for role in roles}
        self._take_keys(request.order_type, user, keys)
        order = self.new_order_id()
        self.note(partner, user.id, "FILE_UPLOAD", request.order_type, order, "TS01")
        return self._key_response(request.version, order=order)

    @staticmethod
    def _take_keys(order_type: str, user: User, keys: dict[str, secrecy.PublicKey]) -> None:
        after = {
            ("INI", "new"): "ini",
            ("INI", "hia"): "initialised",
            ("HIA", "new"): "hia",
            ("HIA", "ini"): "initialised",
            ("H3K", "new"): "initialised",
        }.get((order_type, user.state))
        if after is None:
            raise Refusal("091002")
        user.keys |= keys
        user.state = after  # type: ignore[assignment]

    def _send_bank_keys(self, request: Request, user: User) -> etree._Element:
        if user.state != "ready":
            raise Refusal("091002")
        if not is_authentic(request.root, user.keys["Authentication"]):
            raise Refusal("061001")
        self._count_nonce(request)
        root = self._key_response(request.version)
        body = find(root, "body")
        assert body is not None
        content = reports.bank_keys(request.version, self.host, self.authentication.public, self.encryption.public)
        secret = secrecy.new_secret()
        transfer = etree.Element(f"{{{etree.QName(root).namespace}}}DataTransfer")
        body.insert(0, transfer)
        encrypted_for(transfer, request.version, user.keys["Encryption"], secret)
        add(transfer, "OrderData", secrecy.encrypt(content, secret))
        return root

    def _count_nonce(self, request: Request) -> None:
        if len(request.nonce) != 32:
            raise Refusal("061002")
        if request.nonce in self.nonces:
            self.faults.append("a message that was sent before")
            raise Refusal("091103")
        self.nonces.add(request.nonce)

    # --- Orders

    def _take(self, request: Request) -> etree._Element:
        if request.phase == "Initialisation":
            return self._start(request)
        transaction = self.transactions.get(request.transaction)
        if transaction is None or transaction.request.version != request.version:
            raise Refusal("091101")
        if not is_authentic(request.root, transaction.user.keys["Authentication"]):
            raise Refusal("061001")
        self.heard.append((transaction.kind.name, request.phase))
        if request.phase == "Transfer":
            if transaction.kind.direction == "download":
                return self._send_segment(request, transaction)
            return self._take_segment(request, transaction)
        if request.phase == "Receipt" and transaction.kind.direction == "download":
            return self._take_receipt(request, transaction)
        raise Refusal("061002")

    def _start(self, request: Request) -> etree._Element:
        partner = self.partners.get(request.partner)
        user = partner.users.get(request.user) if partner else None
        if partner is None or user is None or user.state != "ready":
            raise Refusal("091002")
        if not is_authentic(request.root, user.keys["Authentication"]):
            raise Refusal("061001")
        self._count_nonce(request)
        if request.bank_digests != {
            "Authentication": self.authentication.public.digest(request.version),
            "Encryption": self.encryption.public.digest(request.version),
        }:
            raise Refusal("091008")
        kind = self._kind(request)
        self.heard.append((kind.name, request.phase))
        if kind.name not in user.rights | ALWAYS:
            raise Refusal("090003")
        transaction = Transaction(os.urandom(16).hex().upper(), request, partner, user, kind)
        if kind.direction == "download":
            return self._start_download(transaction)
        return self._start_upload(transaction)

    @staticmethod
    def _kind(request: Request) -> Kind:
        kind: Kind | None
        if request.order_type in ("BTD", "BTU"):
            if request.version != "H005" or request.service is None:
                raise Refusal("091005")
            kind = kind_of_service(request.service, "download" if request.order_type == "BTD" else "upload")
        else:
            kind = KINDS.get(request.order_type)
            if kind and kind.service and request.version == "H005":
                kind = None
        if kind is None:
            raise Refusal("091005")
        return kind

    # --- Downloads

    def _start_download(self, transaction: Transaction) -> etree._Element:
        request = transaction.request
        content, transaction.done = self._content(transaction)
        transaction.secret = secrecy.new_secret()
        coded, size = secrecy.encrypt(content, transaction.secret), self.segment_size
        transaction.segments = [coded[at : at + size] for at in range(0, len(coded), size)]
        self.transactions[transaction.id] = transaction
        count = len(transaction.segments)
        root = self._response(request.version, transaction=transaction.id, segments=count, segment=(1, count == 1))
        body = find(root, "body")
        assert body is not None
        transfer = etree.Element(f"{{{etree.QName(root).namespace}}}DataTransfer")
        body.insert(0, transfer)
        encrypted_for(transfer, request.version, transaction.user.keys["Encryption"], transaction.secret)
        add(transfer, "OrderData", transaction.segments[0])
        return root

    def _send_segment(self, request: Request, transaction: Transaction) -> etree._Element:
        count = len(transaction.segments)
        if not 1 <= request.segment <= count:
            raise Refusal("091104")
        transaction.reached = max(transaction.reached, request.segment)
        root = self._response(
            request.version,
            phase="Transfer",
            transaction=transaction.id,
            segment=(request.segment, request.segment == count),
        )
        body = find(root, "body")
        assert body is not None
        transfer = etree.Element(f"{{{etree.QName(root).namespace}}}DataTransfer")
        body.insert(0, transfer)
        add(transfer, "OrderData", transaction.segments[request.segment - 1])
        return root

    def _take_receipt(self, request: Request, transaction: Transaction) -> etree._Element:
        del self.transactions[transaction.id]
        code = "011001"
        if request.receipt == "0":
            if transaction.reached < len(transaction.segments):
                self.faults.append(f"a receipt for {transaction.kind.name} before its last segment")
            self.on_receipt(transaction.kind.name)
            transaction.done()
            code = "011000"
        return self._response(request.version, code, phase="Receipt", transaction=transaction.id)

    # --- Uploads

    def _start_upload(self, transaction: Transaction) -> etree._Element:
        request = transaction.request
        transaction.secret = unpacked(lambda: secrecy.unwrap(request.key, self.encryption))
        transaction.signatures = unpacked(lambda: secrecy.decrypt(request.signature_data, transaction.secret))
        uploads.refuse_duplicate(self, transaction, request.data_digest)
        transaction.order = self.new_order_id()
        if request.segments == 0:
            # Only a signature: an order is signed or the access is locked, and there is nothing to transfer.
            uploads.finish(self, transaction, b"")
        else:
            self.transactions[transaction.id] = transaction
        return self._response(request.version, transaction=transaction.id, order=transaction.order)

    def _take_segment(self, request: Request, transaction: Transaction) -> etree._Element:
        held, version = len(transaction.segments), request.version
        if request.segment != held + 1:
            # The client goes on where the bank knows the transfer to be.
            segment = (held, False) if held else None
            phase = "Transfer" if held else "Initialisation"
            return self._response(version, "061101", phase=phase, transaction=transaction.id, segment=segment)
        if len(request.order_data) > 1_048_576:
            raise Refusal("091009")
        if request.segment > transaction.request.segments:
            raise Refusal("091104")
        transaction.segments.append(request.order_data)
        code = "000000"
        if request.is_last:
            del self.transactions[transaction.id]
            try:
                coded = "".join(transaction.segments)
                uploads.finish(self, transaction, unpacked(lambda: secrecy.decrypt(coded, transaction.secret)))
            except Refusal as refusal:
                code = refusal.code
                user, kind = transaction.user.id, transaction.kind.name
                self.note(transaction.partner, user, "ORDER_HAC_FINAL_NEG", kind, transaction.order, "", code)
        return self._response(
            version,
            code,
            phase="Transfer",
            transaction=transaction.id,
            segment=(request.segment, request.is_last),
            order=transaction.order,
        )

    # --- The data of downloads

    def _content(self, transaction: Transaction) -> tuple[bytes, Callable[[], None]]:
        """The order data of a download, and what happens when it was received."""
        request, partner = transaction.request, transaction.partner
        name, version = transaction.kind.name, transaction.request.version
        if name in BUSINESS:
            return self._files(transaction)
        if name in ("HAC", "PTK"):
            return self._protocol(transaction)
        waiting = [
            order for order in partner.orders if order.state == "waiting" and order.kind in transaction.user.rights
        ]
        if name in ("HVU", "HVZ") and not waiting:
            raise Refusal("090005")
        match name:
            case "HPD":
                content = reports.bank_parameters(version, self.url, self.name, self.host, self.versions)
            case "HTD" | "HKD":
                users = [transaction.user] if name == "HTD" else list(partner.users.values())
                content = reports.customer_data(version, self.host, partner, users, is_htd=name == "HTD")
            case "HAA":
                kinds = {delivery.kind for delivery in partner.deliveries if not delivery.is_fetched}
                content = reports.fetchable(version, sorted(kinds & transaction.user.rights))
            case "HVU" | "HVZ":
                content = reports.waiting_orders(version, partner, waiting, has_details=name == "HVZ")
            case "HVD":
                content = reports.order_state(version, partner, order_meant(transaction))
            case _:
                flags = find(request.params, "OrderFlags")
                limit, offset = (
                    int(flags.get(word, "0")) if flags is not None else 0 for word in ("fetchLimit", "fetchOffset")
                )
                content = reports.order_details(version, order_meant(transaction), limit=limit, offset=offset)
        return content, lambda: None

    def _files(self, transaction: Transaction) -> tuple[bytes, Callable[[], None]]:
        dates = transaction.request.dates
        chosen = [
            delivery
            for delivery in transaction.partner.deliveries
            if delivery.kind == transaction.kind.name
            and (dates[0] <= delivery.day <= dates[1] if dates else not delivery.is_fetched)
        ]
        if not chosen:
            raise Refusal("090005")

        def received() -> None:
            for delivery in chosen:
                delivery.is_fetched = True

        service = transaction.kind.service
        if service is None or service.container != "ZIP":
            return b"".join(delivery.content for delivery in chosen), received
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for delivery in chosen:
                day = delivery.day
                entry = zipfile.ZipInfo(delivery.name, (day.year, day.month, day.day, 20, 0, 0))
                archive.writestr(entry, delivery.content, zipfile.ZIP_DEFLATED)
        return packed.getvalue(), received

    def _protocol(self, transaction: Transaction) -> tuple[bytes, Callable[[], None]]:
        partner, dates = transaction.partner, transaction.request.dates
        events, until = partner.events[partner.events_fetched :], len(partner.events)
        if dates:
            events = [event for event in partner.events if dates[0] <= event.at.date() <= dates[1]]
        if not events:
            raise Refusal("090005")

        def received() -> None:
            partner.events_fetched = max(partner.events_fetched, until)

        if transaction.kind.name == "PTK":
            return reports.text_protocol(events), received
        return reports.protocol(partner, events, transaction.request.version, self.now()), received
