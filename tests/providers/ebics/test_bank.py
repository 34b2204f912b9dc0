"""The simulated bank in both versions: rights and classes, waiting orders, payees, keys that change, and misbehaviour on command."""

from __future__ import annotations

import base64
import http.client
import io
import itertools
import zipfile
from collections.abc import Iterator
from datetime import date

import pytest
from lxml import etree
from painfree.ebics3 import envelope_schema, order_data_digest, verify_auth_signature

from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Entry, StatementWarning, StatusReport
from simulators.ebics_bank import Break, EbicsBank, Line
from simulators.ebics_bank.breaks import How
from tests.providers.ebics.files import GIRO, OTHER_PAYEE, PAYEE, transfers
from tests.providers.ebics.foreign import post
from tests.providers.ebics.plain import PlainClient, keys_of

VERSIONS = ("H004", "H005")
RIGHTS = ("C53", "CRZ", "VPZ", "CCT", "CTV", "HVE", "HVS")
_messages = itertools.count(1)


class Office:
    """A bank with an own partner in each version: a machine of class T, one who signs alone, and two who sign together."""

    def __init__(self, version: str) -> None:
        self.bank, self.version = EbicsBank(), version
        self.bank.today = date(2026, 3, 2)
        self.bank.payees = {PAYEE: "Müller GmbH", OTHER_PAYEE: "Andere AG"}
        self.line = Line(self.bank)
        self.account = self.bank.add_account("PARTNER1", GIRO)
        self.partner = self.bank.partners["PARTNER1"]
        self.people: dict[str, PlainClient] = {}

    def person(self, user: str) -> PlainClient:
        """A user by its class, who is introduced once."""
        if user not in self.people:
            level = user[0]
            assert level in ("T", "E", "A", "B")
            self.bank.add_user("PARTNER1", user, *RIGHTS, level=level)  # type: ignore[arg-type]
            self.people[user] = PlainClient(
                self.bank, self.line, self.version, user, "A005" if level == "B" else "A006"
            )
            self.people[user].introduce()
        return self.people[user]

    def btf(self, old: str, *, is_signed: bool = False) -> tuple[str, str]:
        """The order's name and its parameters in this version."""
        if self.version == "H004":
            return old, "<StandardOrderParams/>"
        name, option, message, rest = {
            "C53": ("EOP", "", "camt.053", "<Container containerType='ZIP'/>"),
            "CRZ": ("PSR", "SCT", "pain.002", "<Container containerType='ZIP'/>"),
            "VPZ": ("REP", "VOP", "pain.002", "<Container containerType='ZIP'/>"),
            "CCT": ("SCT", "", "pain.001", ""),
            "CTV": ("SCT", "VOI", "pain.001", ""),
        }[old]
        way = "U" if message == "pain.001" else "D"
        option = f"<ServiceOption>{option}</ServiceOption>" if option else ""
        flag = '<SignatureFlag requestEDS="true"/>' if is_signed else ""
        service = f"<Service><ServiceName>{name}</ServiceName>{option}{rest}<MsgName>{message}</MsgName></Service>"
        return f"BT{way}", f"<BT{way}OrderParams>{service}{flag}</BT{way}OrderParams>"

    def send(self, user: str, old: str = "CCT", *, is_signed: bool = False) -> str:
        """Sends two payments, and returns the number that the bank gave the order."""
        order, params = self.btf(old, is_signed=is_signed)
        answer = self.person(user).upload(order, payments(), params, attribute="OZHNN" if is_signed else "DZHNN")
        assert answer.code == "000000"
        return answer.text("OrderID")

    def meant(self, what: str, number: str) -> str:
        order = self.partner.order(number)
        assert order is not None
        if self.version == "H005":
            option = "<ServiceOption>VOI</ServiceOption>" if order.kind == "CTV" else ""
            named = f"<Service><ServiceName>SCT</ServiceName>{option}<MsgName>pain.001</MsgName></Service>"
        else:
            named = f"<OrderType>{order.kind}</OrderType>"
        return f"<{what}OrderParams><PartnerID>PARTNER1</PartnerID>{named}<OrderID>{number}</OrderID>{{}}</{what}OrderParams>"

    def sign(self, user: str, number: str) -> str:
        """Signs by the digest that HVD tells, as somebody who never had the file."""
        person = self.person(user)
        code, told = person.download("HVD", self.meant("HVD", number).format(""))
        assert code == "000000"
        digest = base64.b64decode(str(etree.fromstring(told).findtext("{*}DataDigest")))
        params = self.meant("HVE", number).format("")
        return person.upload("HVE", b"", params, attribute="UZHNN", signs=digest, is_signature_only=True).code

    def state(self, number: str) -> str:
        order = self.partner.order(number)
        assert order is not None
        return order.state


def payments() -> bytes:
    number = next(_messages)
    return transfers(
        (f"E2E-{number}a", "12.34", "Müller GmbH", PAYEE), (f"E2E-{number}b", "100.00", "Anders AG", OTHER_PAYEE),
        message=f"MSG-{number}",
    )  # fmt: skip


@pytest.fixture(scope="module", params=VERSIONS)
def shared(request: pytest.FixtureRequest) -> Iterator[Office]:
    office = Office(request.param)
    yield office
    office.line.hang_up()


@pytest.fixture
def office(shared: Office) -> Office:
    shared.partner.deliveries.clear()
    shared.partner.orders.clear()
    shared.partner.events.clear()
    shared.partner.events_fetched = 0
    shared.account.bookings.clear()
    shared.account.stated = 0
    shared.bank.breaks.clear()
    shared.bank.faults.clear()
    return shared


def files_of(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [archive.read(name).decode() for name in archive.namelist()]


def test_it_tells_its_versions(office: Office) -> None:
    asked = '<ebicsHEVRequest xmlns="http://www.ebics.org/H000"><HostID>{}</HostID></ebicsHEVRequest>'
    root = etree.fromstring(post(office.line.url, asked.format("FAKEBANK").encode()))
    assert [one.get("ProtocolVersion") for one in root.findall("{*}VersionNumber")] == ["H004", "H005"]
    assert b"091011" in post(office.line.url, asked.format("NOBODY").encode())


def test_its_keys_come_encrypted_for_the_user(office: Office) -> None:
    root = etree.fromstring(office.person("T1").bank_keys())
    assert root.findtext("{*}HostID") == "FAKEBANK"
    where = ".//{*}X509Certificate" if office.version == "H005" else ".//{*}Modulus"
    assert len(root.findall(where)) == 2


def test_keys_are_taken_once(office: Office) -> None:
    assert office.person("T1").send_keys("INI", "SignaturePubKeyOrderData", "Signature").code == "091002"


def test_a_machine_brings_orders_that_wait_for_a_person(office: Office) -> None:
    number = office.send("T1", is_signed=True)
    assert office.state(number) == "waiting"
    code, listed = office.person("E1").download("HVZ", "<HVZOrderParams/>")
    assert code == "000000"
    root = etree.fromstring(listed)
    assert root.findtext(".//{*}TotalAmount") == "112.34"
    assert office.sign("T1", number) == "091007"
    assert office.sign("E1", number) == "000000"
    assert office.state(number) == "executed"
    assert [str(booking.amount) for booking in office.account.bookings] == ["-12.34", "-100.00"]
    assert office.person("E1").download("HVZ", "<HVZOrderParams/>")[0] == "090005"
    assert office.person("E1").download("HVU", "<HVUOrderParams/>")[0] == "090005"
    code, protocol = office.person("T1").download("HAC")
    assert code == "000000"
    assert "VEU_FORWARDING" in protocol.decode()
    assert "ORDER_HAC_FINAL_POS" in protocol.decode()
    (status,) = files_of(office.person("T1").download(*office.btf("CRZ"))[1])
    assert "<GrpSts>ACSC</GrpSts>" in status


def test_two_of_whom_one_is_a_first_signer_sign_together(office: Office) -> None:
    number = office.send("B1", is_signed=True)
    assert office.sign("B2", number) == "000000"
    assert office.state(number) == "waiting"
    assert office.sign("B2", number) == "091306"
    assert office.sign("A1", number) == "000000"
    assert office.state(number) == "executed"


def test_a_waiting_order_is_shown_and_cancelled(office: Office) -> None:
    number = office.send("T1")
    flags = '<OrderFlags completeOrderData="false" fetchLimit="1" fetchOffset="1"/>'
    code, details = office.person("E1").download("HVT", office.meant("HVT", number).format(flags))
    assert code == "000000"
    root = etree.fromstring(details)
    assert (root.findtext("{*}NumOrderInfos"), root.findtext(".//{*}Amount")) == ("2", "100.00")
    if office.version == "H005":
        assert envelope_schema.schema_failures(details) == []
    order = office.partner.order(number)
    assert order is not None
    digest = base64.b64encode(order_data_digest(order.content)).decode()
    data = (
        f'<HVSRequestOrderData xmlns="urn:org:ebics:{office.version}"><CancelledDataDigest SignatureVersion="A006">{digest}'
        "</CancelledDataDigest></HVSRequestOrderData>"
    ).encode()
    assert office.person("E1").upload("HVS", data, office.meant("HVS", number).format("")).code == "000000"
    assert office.state(number) == "cancelled"
    assert office.account.bookings == []


def test_payees_are_checked_before_a_person_releases(office: Office) -> None:
    number = office.send("E1", "CTV", is_signed=True)
    assert office.state(number) == "waiting"
    (report,) = files_of(office.person("E1").download(*office.btf("VPZ"))[1])
    assert [report.count(f"<TxSts>{code}</TxSts>") for code in ("RCVC", "RVNM")] == [1, 1]
    assert office.sign("A2", number) == "000000"
    assert office.state(number) == "executed"


def test_what_a_user_may_not_do_is_refused(office: Office) -> None:
    person = office.person("T1")
    rights = office.bank.partners["PARTNER1"].users["T1"].rights
    rights.discard("C53")
    try:
        assert person.download(*office.btf("C53"))[0] == "090003"
        code, told = person.download("HTD")
        assert code == "000000"
        user = etree.fromstring(told).find("{*}UserInfo")
        assert user is not None
        assert {"camt.053", "C53"}.isdisjoint(" ".join(user.itertext()).split())
    finally:
        rights.add("C53")
    assert person.download("XYZ")[0] == "091005"


def test_a_wrong_order_signature_and_an_order_sent_twice_are_refused(office: Office) -> None:
    order, params = office.btf("CCT", is_signed=True)
    person, content = office.person("E1"), payments()
    if office.version == "H004":
        assert person.upload(order, content, params, signs=bytes(32)).code == "091301"
    assert person.upload(order, content, params).code == "000000"
    assert person.upload(order, content, params).code == "091115"
    assert person.upload(order, b"<Document/>", params).code == "090004"
    assert len(office.partner.orders) == 1


def test_keys_change_with_the_old_ones_until_then(office: Office) -> None:
    person = office.person("T3")
    fresh = keys_of("A006", 2)
    roles = ("Authentication", "Encryption", "Signature")
    data = person.key_order("HCSRequestOrderData", roles, fresh)
    if office.version == "H004":
        data = data.replace(b"<SignaturePubKeyInfo>", b'<SignaturePubKeyInfo xmlns="http://www.ebics.org/S001">')
    assert person.upload("HCS", data).code == "000000"
    assert person.download("HTD")[0] == "061001"
    person.keys = fresh
    assert person.download("HTD")[0] == "000000"
    assert person.upload("SPR", b" ", attribute="UZHNN", is_signature_only=True).code == "000000"
    assert person.download("HTD")[0] == "091002"


def test_single_keys_change_too(office: Office) -> None:
    person = office.person("T4")
    fresh = keys_of("A006", 2)
    answer = person.upload("PUB", person.key_order("SignaturePubKeyOrderData", ("Signature",), fresh))
    assert answer.code == "000000"
    person.keys = {**person.keys, "Signature": fresh["Signature"]}
    data = person.key_order("HCARequestOrderData", ("Authentication", "Encryption"), fresh)
    assert person.upload("HCA", data).code == "000000"
    person.keys = fresh
    assert person.upload("HCA", data).code == "091218"


def test_the_three_keys_come_in_one_order(office: Office) -> None:
    office.bank.add_user("PARTNER1", "H3K1")
    person = PlainClient(office.bank, office.line, office.version, "H3K1")
    assert person.send_keys("H3K", "H3KRequestOrderData", "Signature", "Authentication", "Encryption").code == "000000"
    office.bank.activate("PARTNER1", "H3K1")
    assert person.download("HTD")[0] == "000000"


def test_what_the_bank_writes_is_read_by_our_readers(office: Office) -> None:
    office.account.book(date(2026, 3, 2), "119.00", "Rechnung 1", name="Kunde & Söhne", end_to_end_id="IN-1")
    number = office.send("E1", is_signed=True)
    office.bank.close_day("PARTNER1")
    statement = office.person("E1").download(*office.btf("C53"))[1]
    items = list(read(io.BytesIO(statement), "C53.zip"))
    assert [item for item in items if isinstance(item, StatementWarning)] == []
    entries = [item for item in items if isinstance(item, Entry)]
    assert [entry.amount_minor for entry in entries] == [11900, -1234, -10000]
    (report,) = read(io.BytesIO(office.person("E1").download(*office.btf("CRZ"))[1]), "CRZ.zip")
    assert isinstance(report, StatusReport)
    assert office.state(number) == "executed"


def test_the_protocol_comes_as_text_as_well(office: Office) -> None:
    number = office.send("T1")
    code, protocol = office.person("T1").download("PTK")
    assert code == "000000"
    assert f"CCT  {number}" in protocol.decode("iso-8859-1")
    assert office.person("T1").download("HAC")[0] == "090005"


def test_what_is_no_message_is_refused(office: Office) -> None:
    person = office.person("T1")
    for content in (b"<a", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'):
        assert person.read(post(office.line.url, content)).code == "091010"
    assert person.read(post(office.line.url, b"<a/>")).code == "061002"


def test_a_receipt_before_the_last_segment_is_a_fault(office: Office) -> None:
    office.bank.deliver("PARTNER1", "C53", bytes(range(256)) * 20)
    office.bank.segment_size = 100
    begun = office.person("T1").start(*office.btf("C53"), "DZHNN")
    office.bank.segment_size = 1_000_000
    body = '<TransferReceipt authenticate="true"><ReceiptCode>0</ReceiptCode></TransferReceipt>'
    office.person("T1").go_on(begun.text("TransactionID"), "Receipt", body)
    assert office.bank.faults == ["a receipt for C53 before its last segment"]


def test_a_message_is_taken_once_and_only_as_it_was_signed(office: Office) -> None:
    person = office.person("T1")
    assert person.start("HTD", "<StandardOrderParams/>", "DZHNN").code == "000000"
    assert person.repeat().code == "091103"
    person.sent = person.sent.replace(b"HTD", b"HKD")
    assert person.repeat().code == "061001"


def test_an_answer_is_lost_before_or_after_the_order_was_taken(office: Office) -> None:
    for how, taken in (("unheard", 0), ("lost", 1)):
        order, params = office.btf("CCT")
        office.bank.breaks.append(Break(how, phase="Transfer", order="CCT"))  # type: ignore[arg-type]
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            office.person("T1").upload(order, payments(), params, attribute="DZHNN")
        assert len(office.partner.orders) == taken


def test_a_code_on_command_does_nothing_else(office: Office) -> None:
    office.bank.breaks.append(Break("code", phase="Transfer", order="CCT", code="091102"))
    order, params = office.btf("CCT")
    assert office.person("T1").upload(order, payments(), params, attribute="DZHNN").code == "091102"
    assert office.partner.orders == []


# Whether the signature still holds for a reader that looks no further.
HOSTILE: dict[How, bool] = {
    "short_segment": True, "wrong_signature": False, "foreign_signature": False, "wrapped": True, "two_bodies": False,
    "two_ids": False,
}  # fmt: skip


@pytest.mark.parametrize("how", HOSTILE)
def test_it_misbehaves_on_command(office: Office, how: How) -> None:
    office.bank.deliver("PARTNER1", "C53", b"<Document/>")
    person = office.person("T1")
    office.bank.breaks.append(Break(how, phase="Initialisation", order="C53"))
    person.start(*office.btf("C53"), "DZHNN")
    root = etree.fromstring(person.heard)
    assert verify_auth_signature(root, office.bank.authentication.public.rsa).ok is HOSTILE[how]
    if how == "wrapped":
        assert root.findtext("{*}header/{*}mutable/{*}ReportText") == "[EBICS_OK] Forged"


def test_an_answer_comes_unsigned_on_command(office: Office) -> None:
    office.bank.breaks.append(Break("no_signature", order="HTD"))
    answer = office.person("T1").start("HTD", "<StandardOrderParams/>", "DZHNN")
    assert answer.root.find("{*}AuthSignature") is None


@pytest.mark.parametrize("how", ["cut", "nonsense", "entities", "external_entity"])
def test_it_answers_what_no_reader_should_take(office: Office, how: How) -> None:
    office.bank.breaks.append(Break(how, order="HTD"))
    with pytest.raises(etree.XMLSyntaxError):
        office.person("T1").start("HTD", "<StandardOrderParams/>", "DZHNN")
    assert len(office.person("T1").heard) < 100_000
