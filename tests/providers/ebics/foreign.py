"""A client by others, which speaks H005 to the simulated bank; each answer is held to the official schemas and to its signature."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

from lxml import etree
from painfree import ebics3
from painfree.ebics3 import envelope_schema

from simulators.ebics_bank import EbicsBank, Line

CAMT053 = ebics3.Service("EOP", "camt.053", scope="DE", container="ZIP")
TRANSFERS = ebics3.Service("SCT", "pain.001")
CHECKED_TRANSFERS = ebics3.Service("SCT", "pain.001", option="VOI")


def post(url: str, body: bytes) -> bytes:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    try:
        connection.request("POST", parts.path, body, {"Content-Type": "text/xml"})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    assert answer.status == 200
    return content


class ForeignClient:
    def __init__(self, bank: EbicsBank, line: Line, partner: str = "PARTNER1", user: str = "USER1") -> None:
        self.bank, self.url = bank, line.url
        # The codes of all answers, of the step and of the order.
        self.codes: list[tuple[str | None, str | None]] = []
        self.context = ebics3.RequestContext(bank.host, partner, user)
        subject = ebics3.subject_name("Muster GmbH")
        self.signature, self.authentication, self.encryption = (
            ebics3.EbicsKey.generate(version, subject=subject) for version in ("A006", "X002", "E002")
        )
        self.setup = ebics3.Initialisation(self.context, self.signature, self.authentication, self.encryption)

    def send(self, request: Any, *, is_signed: bool = True) -> bytes:
        """Posts a request; its answer has to be valid, and signed by the bank."""
        content = ebics3.serialize_request(request)
        assert envelope_schema.schema_failures(content) == []
        answer = post(self.url, content)
        assert envelope_schema.schema_failures(answer) == []
        told = ebics3.parse_response(answer)
        self.codes.append((told.header_return_code, told.body_return_code))
        if is_signed:
            keys = self.setup.bank_keys
            assert keys is not None
            assert ebics3.verify_auth_signature(etree.fromstring(answer), keys.authentication.public_key).ok
        return answer

    def introduce(self) -> None:
        """INI and HIA, the letter, and HPB with the hashes of the bank's letter."""
        for _ in ("INI", "HIA"):
            self.setup.feed(self.send(self.setup.next_request(), is_signed=False))
        letter = self.setup.letter()
        hashes = {
            "Signature": letter.signature,
            "Authentication": letter.authentication,
            "Encryption": letter.encryption,
        }
        self.bank.activate(
            self.context.partner_id,
            self.context.user_id,
            {role: bytes.fromhex(key.fingerprint) for role, key in hashes.items()},
        )
        self.setup.feed(self.send(self.setup.next_request(), is_signed=False))
        known = self.bank.letter("H005" if letter.digest == ebics3.LetterDigest.CERTIFICATE else "H004")
        self.setup.confirm_bank_keys(
            authentication=known["Authentication"], encryption=known["Encryption"], digest=letter.digest
        )

    def download(self, what: Any, *, acknowledged: bool = True, **more: Any) -> bytes:
        """A BTD of a service, or an administrative order by its letters; empty if the bank has nothing."""
        transaction = ebics3.DownloadTransaction(
            self.context, self.authentication, encryption_key=self.encryption, acknowledged=acknowledged
        )
        start = (
            transaction.admin_initialisation_request if isinstance(what, str) else transaction.initialisation_request
        )
        request = start(what, **self._bank_keys(), **more)
        while request is not None:
            transaction.feed(self.send(request))
            request = transaction.next_request()
        return bytes(transaction.order_data) if transaction.segments else b""

    def upload(
        self, service: Any, content: bytes, *, request_eds: bool | None = None, segment_size: int = 1_000_000
    ) -> Any:
        """A BTU; a segment whose answer is lost is sent once more."""
        keys = self._bank_keys()
        secured = ebics3.secure_order_data(
            content,
            signature_key=self.signature,
            bank_encryption_key=keys["bank_encryption_key"],
            partner_id=self.context.partner_id,
            user_id=self.context.user_id,
        )
        transaction = ebics3.UploadTransaction.prepare(
            content,
            secured,
            context=self.context,
            authentication_key=self.authentication,
            segment_size=segment_size,
        )
        request = transaction.initialisation_request(service, request_eds=request_eds, **keys)
        while request is not None:
            try:
                answer = self.send(request)
            except http.client.HTTPException:
                answer = self.send(request)
            transaction.feed(answer)
            request = transaction.next_request()
        return transaction

    def _bank_keys(self) -> dict[str, Any]:
        keys = self.setup.bank_keys
        assert keys is not None
        return {"bank_authentication_key": keys.authentication, "bank_encryption_key": keys.encryption}
