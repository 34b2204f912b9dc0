"""EBICS on the wire: what we write can be read, and what a bank sends is refused unless it is exactly what the bank signed."""

from __future__ import annotations

import base64
import re
import zlib
from datetime import UTC, date, datetime
from functools import cache

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from lxml import etree

from kontobahn.bank_providers.ebics.rules import read_sheet
from kontobahn.formats.ebics import answers, documents, keys, requests, services
from kontobahn.formats.ebics.answers import NotSigned, in_words, read_answer, read_key_answer, read_versions
from kontobahn.formats.ebics.documents import EbicsError, add, canonical, read_document, written
from kontobahn.formats.ebics.keys import KeyVersion, OwnKey, check, grouped, sign, typed_digest
from kontobahn.formats.ebics.requests import BankKeys, Period, Subscriber, Upload

NOW = datetime(2026, 11, 2, 8, 30, tzinfo=UTC)
OURS = Subscriber("H005", "BANKDE", "FIRMA1", "TECH1")
_H005 = "urn:org:ebics:H005"


@cache
def key(version: KeyVersion, owner: str = "ours") -> OwnKey:
    return keys.new_key(version, owner, NOW, 2048)


@cache
def bank() -> BankKeys:
    return BankKeys(key("X002", "bank").public(), key("E002", "bank").public())


def answer(
    *, technical: str = "000000", business: str = "000000", data: str = "", wrapped: bytes = b""
) -> etree._Element:
    root = etree.Element(f"{{{_H005}}}ebicsResponse", nsmap={None: _H005, "ds": "http://www.w3.org/2000/09/xmldsig#"})
    header = add(root, "header", authenticate="true")
    add(add(header, "static"), "TransactionID", "A" * 32)
    mutable = add(header, "mutable")
    add(mutable, "TransactionPhase", "Initialisation")
    add(mutable, "SegmentNumber", "1", lastSegment="true")
    add(mutable, "ReturnCode", technical)
    add(mutable, "ReportText", "[EBICS_OK] OK")
    body = add(root, "body")
    if data:
        transfer = add(body, "DataTransfer")
        add(add(transfer, "DataEncryptionInfo", authenticate="true"), "TransactionKey", documents.encoded(wrapped))
        add(transfer, "OrderData", data)
    add(body, "ReturnCode", business, authenticate="true")
    return root


def signed(root: etree._Element) -> bytes:
    sign(root, key("X002", "bank"))
    return written(root)


def read(content: bytes) -> object:
    return read_answer(content, "H005", bank().authentication)


# --- Requests


@pytest.mark.parametrize("version", ["H005", "H004"])
def test_each_request_is_signed_as_a_whole(version: keys.Protocol) -> None:
    ours = OURS._replace(protocol=version)
    upload = Upload(services.order_of("transfers", version), b"\0" * 32, documents.new_key(), 1, "orders-1.xml")
    written_requests = [
        requests.bank_keys_request(ours, key("X002"), NOW),
        requests.download_request(
            ours, key("X002"), bank(), services.order_of("camt.053", version), NOW,
            period=Period(date(2026, 10, 1), date(2026, 10, 31)),
        ),
        requests.upload_request(ours, (key("A006"), key("X002")), bank(), upload, NOW),
    ]  # fmt: skip
    for content in written_requests:
        root = read_document(content)
        info = root.find(".//{*}SignedInfo")
        value = root.findtext(".//{*}SignatureValue")
        assert info is not None
        assert value is not None
        assert keys.is_authentic(key("X002").public(), canonical([info]), base64.b64decode(value))
        root.find("{*}header/{*}static/{*}UserID").text = "OTHER"  # type: ignore[union-attr]
        # Only the header is marked in the first two, and changing it is seen in all of them.
        with pytest.raises(EbicsError):
            check(root, key("X002").public())


def test_version_three_names_a_service_where_two_has_letters() -> None:
    new = requests.download_request(OURS, key("X002"), bank(), services.order_of("camt.053", "H005"), NOW)
    assert re.search(
        rb"<AdminOrderType>BTD</AdminOrderType><BTDOrderParams><Service><ServiceName>EOP</ServiceName><Scope>DE</Scope>"
        rb'<Container containerType="ZIP"/><MsgName>camt.053</MsgName></Service></BTDOrderParams>',
        new,
    )
    old_order = services.order_of("camt.053", "H004")
    old = requests.download_request(OURS._replace(protocol="H004"), key("X002"), bank(), old_order, NOW)
    assert b"<OrderType>C53</OrderType><OrderAttribute>DZHNN</OrderAttribute><StandardOrderParams/>" in old


def test_an_upload_waits_at_the_bank_for_other_signatures() -> None:
    upload = Upload(services.order_of("transfers", "H005"), b"\0" * 32, documents.new_key(), 1)
    content = requests.upload_request(OURS, (key("A006"), key("X002")), bank(), upload, NOW)
    assert b'<SignatureFlag requestEDS="true"/>' in content
    assert upload.transaction_key not in content
    assert "•••" in repr(upload)


@pytest.mark.parametrize("version", ["H005", "H004"])
def test_the_bank_s_keys_come_back_as_they_were_sent(version: keys.Protocol) -> None:
    ours = OURS._replace(protocol=version)
    data = zlib.decompress(requests.other_keys_data(ours, key("X002", "bank"), key("E002", "bank")))
    sent = data.replace(b"HIARequestOrderData", b"HPBResponseOrderData")
    found = requests.read_bank_keys(sent, ours)
    assert [one.digest("H004") for one in found] == [one.digest("H004") for one in bank()]
    with pytest.raises(EbicsError, match="another host"):
        requests.read_bank_keys(sent.replace(b"<PartnerID>", b"<HostID>OTHER</HostID><PartnerID>"), ours)


def test_a_short_key_of_a_bank_is_refused() -> None:
    small = keys.PublicKey("X002", 2**1023 + 1, 65537)
    with pytest.raises(EbicsError, match="2048"):
        keys.checked(small)


def test_hashes_are_read_as_people_copy_them() -> None:
    digest = bank().encryption.digest("H005")
    assert typed_digest(grouped(digest)) == digest
    assert typed_digest(digest.hex(":")) == digest
    for wrong in ("", "AB", digest.hex()[:-1], digest.hex() + "0", "G" * 64):
        with pytest.raises(EbicsError, match="64 digits"):
            typed_digest(wrong)


# --- Payloads


def test_data_is_unpacked_however_it_was_cut() -> None:
    data, secret = b"Kontoauszug " * 40_000, documents.new_key()
    encrypted = documents.packed(data, secret)
    for size in (1, 7, 16, 1000, len(encrypted)):
        parts = [encrypted[start : start + size] for start in range(0, min(len(encrypted), 64_000), size)]
        parts.append(encrypted[len(parts) * size :])
        assert b"".join(documents.unpacked(parts, secret)) == data
    assert "".join(documents.segments(data, secret, 100)) == documents.encoded(encrypted)
    for broken in (encrypted[:-16], encrypted[:-1], b"", encrypted[16:]):
        with pytest.raises(EbicsError):
            b"".join(documents.unpacked([broken], secret))
    with pytest.raises(EbicsError, match="more than"):
        b"".join(documents.unpacked([encrypted], secret, 1000))


def test_data_that_end_early_or_are_padded_wrongly_are_refused() -> None:
    compressed, secret = zlib.compress(b"Kontoauszug " * 40), documents.new_key()

    def encrypted(text: bytes, added: int) -> bytes:
        missing = -len(text) % documents.BLOCK
        encryptor = Cipher(algorithms.AES(secret), modes.CBC(bytes(documents.BLOCK))).encryptor()
        return encryptor.update(text + bytes(missing) + bytes(documents.BLOCK - 1) + bytes([added]))

    assert documents.unpack(encrypted(compressed, documents.BLOCK), secret, 1000) == b"Kontoauszug " * 40
    for text, added in ((compressed[: documents.BLOCK], 16), (compressed, 0), (compressed, 17)):
        with pytest.raises(EbicsError):
            documents.unpack(encrypted(text, added), secret, 1000)
    # A bound holds to the byte.
    whole = documents.packed(b"x" * 1000, secret)
    assert len(documents.unpack(whole, secret, 1000)) == 1000
    with pytest.raises(EbicsError, match="more than"):
        documents.unpack(whole, secret, 999)


def test_base64_may_be_cut_within_a_group() -> None:
    reader, text = documents.Base64Reader(), documents.encoded(b"0123456789")
    assert reader.decode(text[:5]) + reader.decode(text[5:6] + "\n") + reader.decode(text[6:]) == b"0123456789"
    reader.finish()
    reader.decode("QUJ")
    with pytest.raises(EbicsError, match="group"):
        reader.finish()


def test_a_signature_is_over_the_order_without_line_ends() -> None:
    assert requests.signed_digest(b"<a>\r\n</a>\x1a") == requests.signed_digest(b"<a></a>")


# --- Answers


def test_an_answer_is_read_if_the_bank_signed_it() -> None:
    secret = documents.new_key()
    wrapped = keys.wrap(key("E002").public(), secret)
    data = documents.encoded(documents.packed(b"hello", secret))
    found = read_answer(signed(answer(data=data, wrapped=wrapped)), "H005", bank().authentication)
    assert (found.technical, found.business, found.is_last, found.transaction_id) == (
        "000000",
        "000000",
        True,
        "A" * 32,
    )
    assert found.transaction_key is not None
    opened = keys.unwrap(key("E002"), found.transaction_key)
    assert documents.unpack(documents.decoded(found.order_data or ""), opened, 100) == b"hello"


def test_an_answer_says_which_code_decides_and_where_it_ends() -> None:
    for technical, business, decides in (("000000", "090005", "090005"), ("061001", "090005", "061001")):
        root = answer(technical=technical, business=business)
        assert read_answer(signed(root), "H005", bank().authentication).code == decides
    root = answer()
    segment = root.find("{*}header/{*}mutable/{*}SegmentNumber")
    assert segment is not None
    segment.getparent().remove(segment)  # type: ignore[union-attr]
    assert not read_answer(signed(root), "H005", bank().authentication).is_last
    for count, is_possible in (("10000", True), ("10001", False), ("-1", False)):
        root = answer()
        add(root[0][0], "NumSegments", count)
        if is_possible:
            assert read_answer(signed(root), "H005", bank().authentication).segments == int(count)
        else:
            with pytest.raises(EbicsError, match="segments"):
                read(signed(root))


@pytest.mark.parametrize("name", ["Extra", "ReturnCode"])
def test_a_signature_over_unknown_or_doubled_places_is_refused(name: str) -> None:
    root = answer()
    add(root[-1], name, "000000", authenticate="true")
    with pytest.raises(EbicsError, match=r"other parts|several elements"):
        read(signed(root))


def test_a_key_that_takes_for_ever_is_refused() -> None:
    with pytest.raises(EbicsError, match="bits"):
        keys.checked(keys.PublicKey("X002", (1 << keys.MAX_BITS) + 1, 65537))


def _changed(root: etree._Element) -> None:
    root.find("{*}header/{*}mutable/{*}ReturnCode").text = "011000"  # type: ignore[union-attr]


def _wrapped(root: etree._Element) -> None:
    """The signed header goes elsewhere, and another one takes its place."""
    header = root.find("{*}header")
    assert header is not None
    other = etree.fromstring(etree.tostring(header))
    del other.attrib["authenticate"]
    root.insert(0, other)
    root[-1].append(header)


def _second_signature(root: etree._Element) -> None:
    found = root.find("{*}AuthSignature")
    assert found is not None
    root[-1].append(etree.fromstring(etree.tostring(found)))


def _unmarked(root: etree._Element) -> None:
    del root.find("{*}body/{*}ReturnCode").attrib["authenticate"]  # type: ignore[union-attr]


def _other_reference(root: etree._Element) -> None:
    root.find(".//{*}Reference").set("URI", "#xpointer(//*[@id='x'])")  # type: ignore[union-attr]


def _no_signature(root: etree._Element) -> None:
    root.remove(root.find("{*}AuthSignature"))  # type: ignore[arg-type]


def _second_header(root: etree._Element) -> None:
    found = root.find("{*}header")
    assert found is not None
    root.append(etree.fromstring(etree.tostring(found)))


@pytest.mark.parametrize(
    "attack", [_changed, _wrapped, _second_signature, _unmarked, _other_reference, _no_signature, _second_header]
)
def test_an_answer_that_was_tampered_with_is_refused(attack: object) -> None:
    root = read_document(signed(answer()))
    attack(root)  # type: ignore[operator]
    with pytest.raises(EbicsError):
        read(etree.tostring(root))


def test_an_answer_signed_with_another_key_is_refused() -> None:
    root = answer(technical="091008")
    sign(root, key("X002"))
    with pytest.raises(NotSigned) as refused:
        read(written(root))
    assert refused.value.code == "091008"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"<ebicsResponse", b'<!DOCTYPE a [<!ENTITY b "c">]><ebicsResponse'),
        (b"<ebicsResponse", b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><ebicsResponse'),
        (b"OK</ReportText>", b"&b;</ReportText>"),
        (b"<body>", b'<body Id="x"><a Id="x"/>'),
        (b"UTF-8", b"UTF-7"),
        (b"</body>", b""),
        (b"urn:org:ebics:H005", b"urn:org:ebics:H009"),
        (b">1</SegmentNumber>", b">-1</SegmentNumber>"),
        (b">1</SegmentNumber>", b">99999999</SegmentNumber>"),
    ],
)  # fmt: skip
def test_a_document_that_no_bank_sends_is_refused(old: bytes, new: bytes) -> None:
    content = signed(answer()).replace(b"'", b'"', 4)
    assert old in content
    with pytest.raises(EbicsError):
        read(content.replace(old, new))


def test_deep_and_large_documents_are_refused() -> None:
    with pytest.raises(EbicsError, match="deeply"):
        read_document(b"<a>" * 60 + b"</a>" * 60)
    with pytest.raises(EbicsError, match="larger"):
        read_document(b"<a>" + b" " * 9_000_000 + b"</a>")


def test_answers_about_keys_and_versions() -> None:
    root = answer(technical="091002")
    content = written(root).replace(b"ebicsResponse", b"ebicsKeyManagementResponse")
    assert read_key_answer(content, "H005").code == "091002"
    with pytest.raises(EbicsError):
        # An answer that needs no signature is none to a request that is signed.
        read(content)
    versions = (
        b'<ebicsHEVResponse xmlns="http://www.ebics.org/H000"><SystemReturnCode><ReturnCode>%s</ReturnCode><ReportText>no host'
        b'</ReportText></SystemReturnCode><VersionNumber ProtocolVersion="H003">02.40</VersionNumber>'
        b'<VersionNumber ProtocolVersion="H005">03.00</VersionNumber></ebicsHEVResponse>'
    )
    assert read_versions(versions % b"000000") == {"H005": "03.00"}
    with pytest.raises(EbicsError, match="no host"):
        read_versions(versions % b"091011")


def test_codes_have_words_and_keep_their_digits() -> None:
    assert in_words("090003").endswith("(090003)")
    assert in_words("099999", "Etwas Neues.") == "Etwas Neues (099999)"
    assert in_words("099999") == "The bank refused (099999)"


# --- Rights and the protocol


RIGHTS = b"""<HTDResponseOrderData xmlns="urn:org:ebics:H005"><PartnerInfo>
<AccountInfo ID="a1" Currency="EUR" Description="Girokonto"><AccountNumber international="false">202051</AccountNumber>
<AccountNumber international="true">DE02 1203 0000 0000 2020 51</AccountNumber><AccountHolder>Muster GmbH</AccountHolder></AccountInfo>
<OrderInfo><AdminOrderType>BTD</AdminOrderType><Service><ServiceName>EOP</ServiceName><Scope>DE</Scope><Container containerType="ZIP"/>
<MsgName version="08">camt.053</MsgName></Service><Description>Auszug</Description></OrderInfo></PartnerInfo>
<UserInfo><UserID Status="1">TECH1</UserID><Name>Technik</Name>
<Permission><AdminOrderType>BTD</AdminOrderType><Service><ServiceName>EOP</ServiceName><Scope>DE</Scope><Container containerType="ZIP"/>
<MsgName version="08">camt.053</MsgName></Service></Permission>
<Permission AuthorisationLevel="T"><AdminOrderType>BTU</AdminOrderType><Service><ServiceName>SCT</ServiceName><MsgName>pain.001</MsgName>
</Service></Permission><Permission><AdminOrderType>HAC</AdminOrderType></Permission></UserInfo></HTDResponseOrderData>"""


def test_rights_say_what_may_be_fetched_and_sent() -> None:
    found = services.read_rights(RIGHTS, "TECH1")
    assert [(account.iban, account.holder, account.name) for account in found.accounts] == [
        ("DE02120300000000202051", "Muster GmbH", "Girokonto")
    ]
    [order] = found.orders_of("camt.053")
    assert str(order.service) == "EOP:DE::camt.053.08 (ZIP)"
    assert found.classes_of("transfers") == {"T"}
    assert (
        found.orders_of("camt.052")
        == found.orders_of("instant_transfers")
        == found.orders_of("checked_transfers")
        == []
    )
    old = RIGHTS.replace(b"H005", b"H004")
    old = re.sub(
        rb"(?s)<Permission>.*</Permission>", b"<Permission><OrderTypes>C53 STA CCT</OrderTypes></Permission>", old
    )
    told = services.read_rights(old, "TECH1")
    assert [order.type for order in told.orders_of("camt.053") + told.orders_of("transfers")] == ["C53", "CCT"]
    assert told.classes_of("transfers") == {"?"}


def test_the_protocol_says_how_an_order_ended() -> None:
    entry = (
        "<OrgnlPmtInfAndSts><OrgnlPmtInfId>{action}</OrgnlPmtInfId><StsRsnInf><Orgtr><Id><OrgId><Othr><Id>{order}</Id><SchmeNm>"
        "<Prtry>OrderID</Prtry></SchmeNm></Othr></OrgId></Id></Orgtr><Rsn><Cd>{reason}</Cd></Rsn><AddtlInf>Text</AddtlInf></StsRsnInf>"
        "</OrgnlPmtInfAndSts>"
    )
    document = (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.03"><CstmrPmtStsRpt>'
        + entry.format(action="FILE_UPLOAD", order="N001", reason="TS01")
        + entry.format(action="ORDER_HAC_FINAL_NEG", order="N002", reason="DS0E")
        + "</CstmrPmtStsRpt></Document>"
    )
    first, second = answers.read_protocol(document.encode())
    assert (first.action, first.order_id, first.is_good) == (answers.ARRIVED, "N001", True)
    assert (answers.FINAL[second.action], second.order_id, second.text) == ("refused", "N002", "Text")
    with pytest.raises(EbicsError):
        answers.read_protocol(b"<Document/>")


SHEET = """Musterbank eG               Bankparameterdaten EBICS
Kreditinstitut: Musterbank eG
Teilnehmer-ID     TECH0001
Kunden-ID         K1234567
Host-ID
MUSTERBANK
URL: https://ebics.musterbank.example/ebics/EBICS.aspx
Weitere Angaben unter https://www.musterbank.example.
Hashwert des öffentlichen Authentifikationsschlüssels X002 (SHA-256)
{authentication}
Hashwert des öffentlichen Verschlüsselungsschlüssels E002 (SHA-256)
{encryption}
"""


def test_a_data_sheet_proposes_what_it_says_clearly() -> None:
    authentication, encryption = "A1" * 32, "0F" * 32
    grouped = " ".join(encryption[at : at + 2] for at in range(0, 32, 2)) + "\n"
    grouped += " ".join(encryption[at : at + 2] for at in range(32, 64, 2))
    text = SHEET.format(authentication=authentication, encryption=grouped)
    full = {
        "bank": "Musterbank eG", "host": "MUSTERBANK", "partner": "K1234567", "user": "TECH0001",
        "url": "https://ebics.musterbank.example/ebics/EBICS.aspx", "x002": authentication, "e002": encryption,
    }  # fmt: skip
    assert read_sheet(text).values == full
    # What is said in two ways is not proposed, and the rest is.
    for name, other in (
        ("host", "Host ID: OTHER"),
        ("user", "User-ID: OTHER2"),
        ("url", "https://other.example/ebics"),
    ):
        found = read_sheet(f"{text}\n{other}").values
        assert found == {key: value for key, value in full.items() if key != name}
    assert "x002" not in read_sheet(f"{text}\nX002: {'B2' * 32}").values
    # A hash belongs to the key that was named last before it, and has 64 digits.
    assert read_sheet(f"X002 und E002: {authentication}").values == {"e002": authentication}
    assert read_sheet(f"A006: {authentication}").values == {}
    assert read_sheet(f"X002: {authentication}AB").values == {}
    assert read_sheet(f"X002: {authentication[:-2]}").values == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"host_id": "x", "HostID": "FAKEBANK", "PartnerID": "K1", "UserID": "T1"}',
        "<Sheet><HostID>FAKEBANK</HostID><PartnerID>K1</PartnerID><UserID>T1</UserID></Sheet>",
        "HostID;FAKEBANK\nPartnerID;K1\nUserID;T1\n",
        "Host-ID: FAKEBANK Partner-ID: K1 User-ID: T1",
    ],
)
def test_structured_data_sheets_are_read_alike(text: str) -> None:
    assert read_sheet(text).values == {"host": "FAKEBANK", "partner": "K1", "user": "T1"}


@pytest.mark.parametrize(
    "text",
    [
        "", "Host-ID Kunden-ID Teilnehmer-ID", "Host-ID: bitte erfragen", "Ihre Kunden-ID erhalten Sie per Post", "Host-ID: A-B",
        "User-ID: " + "A" * 36, "\x00" * 50,
    ],
)  # fmt: skip
def test_a_data_sheet_that_says_nothing_proposes_nothing(text: str) -> None:
    assert read_sheet(text).values == {}


WAITING = """<HVZResponseOrderData xmlns="urn:org:ebics:H005"><OrderDetails><Service><ServiceName>SCT</ServiceName>
<MsgName version="09">pain.001</MsgName></Service><OrderID>N001</OrderID><DataDigest>{digest}</DataDigest><TotalOrders>2</TotalOrders>
<TotalAmount isCredit="true">{amount}</TotalAmount><Currency>EUR</Currency><SigningInfo NumSigRequired="2" NumSigDone="1"/>
<SignerInfo><UserID>T1</UserID><Name>Erika Muster</Name></SignerInfo><OriginatorInfo><UserID>T2</UserID></OriginatorInfo>
</OrderDetails></HVZResponseOrderData>"""


def test_orders_that_wait_are_read_with_their_sums() -> None:
    digest = documents.encoded(b"d" * 32)
    [found] = answers.read_waiting(WAITING.format(digest=digest, amount="24.68").encode())
    assert (found.order_id, str(found.amount), found.currency, found.payments) == ("N001", "24.68", "EUR", 2)
    assert (found.needed, found.done, found.signers, found.sender) == (2, 1, ("Erika Muster",), "T2")
    assert found.digest == b"d" * 32
    assert services.is_of_kind(found.order, "transfers")
    # A sum that a page could not write out is none.
    for amount in ("", "x", "NaN", "Infinity", "1E+30", "1E-12"):
        [odd] = answers.read_waiting(WAITING.format(digest=digest, amount=amount).encode())
        assert odd.amount is None, amount
    state = '<HVDResponseOrderData xmlns="urn:org:ebics:H005"><DataDigest>{digest}</DataDigest></HVDResponseOrderData>'
    assert answers.read_order_state(state.format(digest=digest).encode()).digest == b"d" * 32
    for wrong in ("", documents.encoded(b"d" * 31), documents.encoded(b"d" * 33)):
        with pytest.raises(EbicsError):
            answers.read_order_state(state.format(digest=wrong).encode())
    assert [answers.is_order_id(name) for name in ("N001", "n001", "N01", "N0011", "1001", "N00/")] == [True] + [
        False
    ] * 5


def test_reports_on_orders_and_payee_checks_are_two_kinds() -> None:
    for option, wanted in ((None, "pain.002"), ("SCT", "pain.002"), ("VOP", "payee_checks")):
        order = services.Order("BTD", services.Btf("REP", "pain.002", option=option))
        assert [kind for kind in ("pain.002", "payee_checks") if services.is_of_kind(order, kind)] == [wanted]


def test_rights_of_all_users_are_read_for_one() -> None:
    all_users = RIGHTS.replace(b"HTDResponseOrderData", b"HKDResponseOrderData")
    [own] = re.findall(rb"(?s)<UserInfo>.*</UserInfo>", all_users)
    other = re.sub(rb"(?s)<Permission.*</Permission>", b"", own.replace(b"TECH1", b"OTHER"))
    both = all_users.replace(own, other + own)
    assert services.read_rights(both, "TECH1").orders_of("camt.053")
    assert not services.read_rights(both, "OTHER").orders_of("camt.053")
    with pytest.raises(EbicsError):
        services.read_rights(both, "NOBODY")


def test_a_protocol_of_another_kind_is_refused() -> None:
    with pytest.raises(EbicsError, match="HAC"):
        answers.read_protocol(b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.10"/>')
