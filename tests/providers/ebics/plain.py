"""A client that writes its messages letter by letter in either version, for what the foreign one never asks; signed and encrypted by it."""

from __future__ import annotations

import base64
import functools
import zlib
from typing import Any, NamedTuple

from lxml import etree
from painfree import ebics3

from simulators.ebics_bank import EbicsBank, Line
from tests.providers.ebics.foreign import post

DS = "http://www.w3.org/2000/09/xmldsig#"
SHA256 = "http://www.w3.org/2001/04/xmlenc#sha256"
SIGNATURES = {"H004": "http://www.ebics.org/S001", "H005": "http://www.ebics.org/S002"}


class Answer(NamedTuple):
    step: str
    order: str
    root: Any

    @property
    def code(self) -> str:
        """The code that is not fine, if there is one."""
        return self.step if self.step not in ("000000", "011000") else self.order

    def text(self, name: str) -> str:
        return str(self.root.findtext(f".//{{*}}{name}") or "")


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@functools.cache
def _key(version: str, number: int) -> Any:
    return ebics3.EbicsKey.generate(version, subject=ebics3.subject_name(f"Muster GmbH {number}"))


def keys_of(signature: str, number: int = 1) -> dict[str, Any]:
    """Keys by role: the same for every user, since making them takes long, and others by another number."""
    versions = {"Signature": signature, "Authentication": "X002", "Encryption": "E002"}
    return {role: _key(version, number) for role, version in versions.items()}


class PlainClient:
    def __init__(self, bank: EbicsBank, line: Line, version: str, user: str, signature: str = "A006") -> None:
        self.bank, self.url, self.version = bank, line.url, version
        self.partner, self.user = "PARTNER1", user
        self.keys = keys_of(signature)
        # The last message and its answer, as they went over the line.
        self.sent = self.heard = b""

    # --- Messages

    def envelope(self, name: str, static: str, mutable: str, body: str, *, is_signed: bool = True) -> Answer:
        root = etree.fromstring(
            f'<{name} xmlns="urn:org:ebics:{self.version}" xmlns:ds="{DS}" Version="{self.version}" Revision="1">'
            f'<header authenticate="true"><static><HostID>{self.bank.host}</HostID>{static}</static>'
            f"<mutable>{mutable}</mutable></header><body>{body}</body></{name}>"
        )
        if is_signed:
            ebics3.build_auth_signature(root, self.keys["Authentication"].private_key)
        self.sent = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
        return self.repeat()

    def repeat(self) -> Answer:
        """Posts the last message, again if need be."""
        self.heard = post(self.url, self.sent)
        return self.read(self.heard)

    @staticmethod
    def read(content: bytes) -> Answer:
        root = etree.fromstring(content)
        codes = [str(root.findtext(f"{{*}}{path}/{{*}}ReturnCode")) for path in ("header/{*}mutable", "body")]
        return Answer(codes[0], codes[1], root)

    def who(self, *, has_nonce: bool = True) -> str:
        fresh = (
            f"<Nonce>{ebics3.generate_nonce()}</Nonce><Timestamp>2026-03-02T10:00:00Z</Timestamp>" if has_nonce else ""
        )
        return f"{fresh}<PartnerID>{self.partner}</PartnerID><UserID>{self.user}</UserID>"

    def details(self, order: str, params: str, attribute: str) -> str:
        if self.version == "H005":
            return f"<OrderDetails><AdminOrderType>{order}</AdminOrderType>{params}</OrderDetails>"
        return f"<OrderDetails><OrderType>{order}</OrderType><OrderAttribute>{attribute}</OrderAttribute>{params}</OrderDetails>"

    def start(self, order: str, params: str, attribute: str, *, segments: str = "", body: str = "") -> Answer:
        bank = self.bank
        digests = "".join(
            f'<{role} Version="{key.version}" Algorithm="{SHA256}">{encoded(key.digest(self.version))}</{role}>'
            for role, key in (("Authentication", bank.authentication.public), ("Encryption", bank.encryption.public))
        )
        return self.envelope(
            "ebicsRequest",
            f"{self.who()}{self.details(order, params, attribute)}<BankPubKeyDigests>{digests}</BankPubKeyDigests>"
            f"<SecurityMedium>0000</SecurityMedium>{segments}",
            "<TransactionPhase>Initialisation</TransactionPhase>",
            body,
        )

    def go_on(self, transaction: str, phase: str, body: str, *, segment: str = "") -> Answer:
        mutable = f"<TransactionPhase>{phase}</TransactionPhase>{segment}"
        return self.envelope("ebicsRequest", f"<TransactionID>{transaction}</TransactionID>", mutable, body)

    # --- Keys

    def key_info(self, role: str, keys: dict[str, Any]) -> str:
        """A key as order data tell it: in a certificate, or as numbers in the older version."""
        key = keys[role]
        if self.version == "H005":
            value = (
                f"<ds:X509Data><ds:X509Certificate>{encoded(key.certificate_der())}</ds:X509Certificate></ds:X509Data>"
            )
        else:
            value = (
                f"<PubKeyValue><ds:RSAKeyValue><ds:Modulus>{key.modulus_b64}</ds:Modulus>"
                f"<ds:Exponent>{key.exponent_b64}</ds:Exponent></ds:RSAKeyValue></PubKeyValue>"
            )
        return f"<{role}PubKeyInfo>{value}<{role}Version>{key.version.value}</{role}Version></{role}PubKeyInfo>"

    def key_order(self, root: str, roles: tuple[str, ...], keys: dict[str, Any]) -> bytes:
        namespace = SIGNATURES[self.version] if root.startswith("Signature") else f"urn:org:ebics:{self.version}"
        parts = "".join(self.key_info(role, keys) for role in roles)
        return (
            f'<{root} xmlns="{namespace}" xmlns:ds="{DS}">{parts}'
            f"<PartnerID>{self.partner}</PartnerID><UserID>{self.user}</UserID></{root}>"
        ).encode()

    def send_keys(self, order: str, root: str, *roles: str) -> Answer:
        static = f"{self.who(has_nonce=False)}{self.details(order, '', 'DZNNN')}<SecurityMedium>0000</SecurityMedium>"
        data = encoded(zlib.compress(self.key_order(root, roles, self.keys)))
        body = f"<DataTransfer><OrderData>{data}</OrderData></DataTransfer>"
        return self.envelope("ebicsUnsecuredRequest", static, "", body, is_signed=False)

    def introduce(self) -> None:
        assert self.send_keys("INI", "SignaturePubKeyOrderData", "Signature").code == "000000"
        assert self.send_keys("HIA", "HIARequestOrderData", "Authentication", "Encryption").code == "000000"
        self.bank.activate(self.partner, self.user)

    def bank_keys(self) -> bytes:
        static = f"{self.who()}{self.details('HPB', '', 'DZHNN')}<SecurityMedium>0000</SecurityMedium>"
        answer = self.envelope("ebicsNoPubKeyDigestsRequest", static, "", "")
        assert answer.code == "000000"
        return self.opened(answer.text("TransactionKey"), answer.text("OrderData"))

    def opened(self, key: str, data: str) -> bytes:
        return bytes(ebics3.open_order_data(data, base64.b64decode(key), self.keys["Encryption"]))

    # --- Orders

    def download(self, order: str, params: str = "", *, receipt: str = "0") -> tuple[str, bytes]:
        """The code of a download, and what it brought."""
        answer = self.start(order, params or "<StandardOrderParams/>", "DZHNN")
        if answer.code != "000000":
            return answer.code, b""
        transaction, key, data = (answer.text(name) for name in ("TransactionID", "TransactionKey", "OrderData"))
        for number in range(2, int(answer.text("NumSegments")) + 1):
            wanted = f'<SegmentNumber lastSegment="false">{number}</SegmentNumber>'
            data += self.go_on(transaction, "Transfer", "", segment=wanted).text("OrderData")
        body = f'<TransferReceipt authenticate="true"><ReceiptCode>{receipt}</ReceiptCode></TransferReceipt>'
        assert self.go_on(transaction, "Receipt", body).step == ("011000" if receipt == "0" else "011001")
        return "000000", self.opened(key, data)

    def upload(
        self,
        order: str,
        content: bytes,
        params: str = "",
        *,
        attribute: str = "OZHNN",
        signs: bytes | None = None,
        is_signature_only: bool = False,
    ) -> Answer:
        """Sends an order in one segment; `signs` is what its signature is over, if not the order itself."""
        digest = ebics3.order_data_digest(content) if signs is None else signs
        key = self.keys["Signature"]
        signature = encoded(ebics3.sign_digest(digest, key.private_key, key.version.value))
        signed = (
            f'<UserSignatureData xmlns="{SIGNATURES[self.version]}"><OrderSignatureData><SignatureVersion>{key.version.value}'
            f"</SignatureVersion><SignatureValue>{signature}</SignatureValue><PartnerID>{self.partner}</PartnerID>"
            f"<UserID>{self.user}</UserID></OrderSignatureData></UserSignatureData>"
        ).encode()
        secret, public = ebics3.generate_transaction_key(), self.bank.encryption.public
        named = f'<DataDigest SignatureVersion="{key.version.value}">{encoded(digest)}</DataDigest>'
        body = (
            '<DataTransfer><DataEncryptionInfo authenticate="true">'
            f'<EncryptionPubKeyDigest Version="E002" Algorithm="{SHA256}">{encoded(public.digest(self.version))}'
            f"</EncryptionPubKeyDigest><TransactionKey>{encoded(ebics3.rsa_encrypt(secret, public.rsa))}</TransactionKey>"
            f'</DataEncryptionInfo><SignatureData authenticate="true">{ebics3.encrypt_payload(signed, secret)}</SignatureData>'
            f"{named if self.version == 'H005' else ''}</DataTransfer>"
        )
        segments = f"<NumSegments>{0 if is_signature_only else 1}</NumSegments>"
        begun = self.start(order, params or "<StandardOrderParams/>", attribute, segments=segments, body=body)
        if begun.code != "000000" or is_signature_only:
            return begun
        data = f"<DataTransfer><OrderData>{ebics3.encrypt_payload(content, secret)}</OrderData></DataTransfer>"
        last = '<SegmentNumber lastSegment="true">1</SegmentNumber>'
        return self.go_on(begun.text("TransactionID"), "Transfer", data, segment=last)
