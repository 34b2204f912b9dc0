"""Order data that tells of the bank and the customer: HPB, HPD, HTD, HKD, HAA, HAC and PTK, and the lists of what waits for signatures."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from xml.sax.saxutils import escape

from lxml import etree

from simulators.ebics_bank.catalogue import ALWAYS, BUSINESS, KINDS, TRANSFERS, add_service
from simulators.ebics_bank.customers import STATES, Event, Order, Partner, User
from simulators.ebics_bank.envelope import add, add_key, new_root, serialised
from simulators.ebics_bank.secrecy import PublicKey

BIC = "FAKEDEFFXXX"
_HAC = "urn:iso:std:iso:20022:tech:xsd:pain.002.001.03"


def bank_keys(version: str, host: str, authentication: PublicKey, encryption: PublicKey) -> bytes:
    root = new_root(version, "HPBResponseOrderData", is_envelope=False)
    add_key(root, "Authentication", authentication, version)
    add_key(root, "Encryption", encryption, version)
    add(root, "HostID", host)
    return serialised(root)


def bank_parameters(version: str, url: str, name: str, host: str, versions: Iterable[str]) -> bytes:
    root = new_root(version, "HPDResponseOrderData", is_envelope=False)
    access = add(root, "AccessParams")
    add(access, "URL", url)
    add(access, "Institute", name)
    add(access, "HostID", host)
    protocol = add(root, "ProtocolParams")
    numbers = add(protocol, "Version")
    add(numbers, "Protocol", " ".join(versions))
    add(numbers, "Authentication", "X002")
    add(numbers, "Encryption", "E002")
    add(numbers, "Signature", "A005 A006")
    add(protocol, "Recovery", supported="true")
    add(protocol, "PreValidation", supported="false")
    if version == "H004":
        add(protocol, "X509Data", supported="true")
    add(protocol, "ClientDataDownload", supported="true")
    add(protocol, "DownloadableOrderData", supported="true")
    return serialised(root)


def customer_data(version: str, host: str, partner: Partner, users: list[User], *, is_htd: bool) -> bytes:
    """The customer and its users with their rights: all of them for HKD, the asking one for HTD."""
    root = new_root(version, "HTDResponseOrderData" if is_htd else "HKDResponseOrderData", is_envelope=False)
    info = add(root, "PartnerInfo")
    add(add(info, "AddressInfo"), "Name", partner.name)
    add(add(info, "BankInfo"), "HostID", host)
    for number, account in enumerate(partner.accounts, 1):
        element = add(info, "AccountInfo", ID=f"K{number}", Currency=account.currency)
        add(element, "AccountNumber", account.iban, international="true")
        add(element, "BankCode", BIC, international="true")
        add(element, "AccountHolder", account.owner)
    for name in sorted({right for user in partner.users.values() for right in user.rights} | ALWAYS):
        _order_info(info, version, name)
    for user in users:
        _user_info(root, version, user)
    return serialised(root)


def _order_info(info: etree._Element, version: str, name: str) -> None:
    kind, element = KINDS[name], add(info, "OrderInfo")
    if version == "H004":
        add(element, "OrderType", name)
        add(element, "TransferType", kind.direction.capitalize())
    else:
        is_business = kind.service is not None
        add(element, "AdminOrderType", name if not is_business else "BTD" if kind.direction == "download" else "BTU")
        if kind.service:
            add_service(element, kind.service)
    add(element, "Description", kind.description)
    if name in TRANSFERS:
        add(element, "NumSigRequired", "1")


def _user_info(root: etree._Element, version: str, user: User) -> None:
    info = add(root, "UserInfo")
    add(info, "UserID", user.id, Status=STATES[user.state])
    add(info, "Name", user.name)
    names = sorted(user.rights | ALWAYS)
    uploads = [name for name in names if name in BUSINESS and KINDS[name].direction == "upload"] + (
        ["HVE", "HVS"] if user.rights & {"HVE", "HVS"} else []
    )
    if version == "H004":
        add(add(info, "Permission"), "OrderTypes", " ".join(name for name in names if name not in uploads))
        if uploads:
            add(add(info, "Permission", AuthorisationLevel=user.level), "OrderTypes", " ".join(uploads))
        return
    for name in names:
        service = KINDS[name].service
        permission = add(info, "Permission", **({"AuthorisationLevel": user.level} if name in uploads else {}))
        is_download = KINDS[name].direction == "download"
        add(permission, "AdminOrderType", name if service is None else "BTD" if is_download else "BTU")
        if service:
            add_service(permission, service)


def fetchable(version: str, kinds: Iterable[str]) -> bytes:
    root = new_root(version, "HAAResponseOrderData", is_envelope=False)
    if version == "H004":
        add(root, "OrderTypes", " ".join(kinds))
        return serialised(root)
    for name in kinds:
        if (service := KINDS[name].service) is not None:
            add_service(root, service)
    return serialised(root)


# --- What waits for signatures


def waiting_orders(version: str, partner: Partner, orders: list[Order], *, has_details: bool) -> bytes:
    """The list of HVU, or that of HVZ with its sums."""
    root = new_root(version, f"{'HVZ' if has_details else 'HVU'}ResponseOrderData", is_envelope=False)
    for order in orders:
        element = add(root, "OrderDetails")
        _name_order(element, version, order)
        add(element, "OrderID", order.id)
        if has_details:
            add(element, "DataDigest", base64.b64encode(order.digest).decode(), SignatureVersion="A006")
            add(element, "OrderDataAvailable", "true")
        add(element, "OrderDataSize", str(len(order.content)))
        if has_details:
            add(element, "OrderDetailsAvailable", "true")
            file = order.file
            add(element, "TotalOrders", str(len(file.transfers) if file else 0))
            add(element, "TotalAmount", str(file.total if file else Decimal()), isCredit="true")
            add(element, "Currency", "EUR")
        done = len(order.signatures)
        add(element, "SigningInfo", readyToBeSigned="true", NumSigRequired="1", NumSigDone=str(done))
        _signers(element, partner, order)
        origin = add(element, "OriginatorInfo")
        add(origin, "PartnerID", partner.id)
        add(origin, "UserID", order.user)
        add(origin, "Name", partner.users[order.user].name)
        add(origin, "Timestamp", _moment(order.at))
    return serialised(root)


def _name_order(element: etree._Element, version: str, order: Order) -> None:
    service = KINDS[order.kind].service
    if version == "H005" and service is not None:
        add_service(element, service)
    else:
        add(element, "OrderType", order.kind)


def _signers(element: etree._Element, partner: Partner, order: Order) -> None:
    for user, level in order.signatures:
        signer = add(element, "SignerInfo")
        add(signer, "PartnerID", partner.id)
        add(signer, "UserID", user)
        add(signer, "Name", partner.users[user].name)
        add(signer, "Timestamp", _moment(order.at))
        add(signer, "Permission", AuthorisationLevel=level)


def order_state(version: str, partner: Partner, order: Order) -> bytes:
    """HVD: the digest that a signature has to be over, and a text to show."""
    root = new_root(version, "HVDResponseOrderData", is_envelope=False)
    add(root, "DataDigest", base64.b64encode(order.digest).decode(), SignatureVersion="A006")
    file = order.file
    shown = (
        f"{order.kind} {order.id}: {len(file.transfers)} x, {file.total} EUR" if file else f"{order.kind} {order.id}"
    )
    add(root, "DisplayFile", base64.b64encode(shown.encode("iso-8859-1")).decode())
    add(root, "OrderDataAvailable", "true")
    add(root, "OrderDataSize", str(len(order.content)))
    add(root, "OrderDetailsAvailable", "true")
    _signers(root, partner, order)
    return serialised(root)


def order_details(version: str, order: Order, *, limit: int, offset: int) -> bytes:
    """HVT: the payments of an order one by one."""
    root = new_root(version, "HVTResponseOrderData", is_envelope=False)
    transfers = order.file.transfers if order.file else []
    add(root, "NumOrderInfos", str(len(transfers)))
    for transfer in transfers[offset : offset + limit if limit else None]:
        info = add(root, "OrderInfo")
        if version == "H005":
            add(info, "MsgName", "pain.001")
        else:
            add(info, "OrderFormat", "pain.001")
        for role, iban, holder in (("Originator", transfer.debtor, ""), ("Recipient", transfer.iban, transfer.name)):
            account = add(info, "AccountInfo", Currency=transfer.currency)
            add(account, "AccountNumber", iban, Role=role, international="true")
            add(account, "BankCode", BIC, Role=role, international="true")
            if holder:
                add(account, "AccountHolder", holder, Role=role)
        if transfer.day:
            add(info, "ExecutionDate", str(transfer.day))
        add(info, "Amount", str(transfer.amount), isCredit="true", Currency=transfer.currency)
        add(info, "Description", transfer.text, Type="Purpose")
    return serialised(root)


# --- The protocol


def protocol(partner: Partner, events: list[Event], version: str, at: datetime) -> bytes:
    """HAC: the steps of each order, as a pain.002."""
    steps = []
    for event in events:
        kind = KINDS.get(event.kind)
        service = kind.service if kind else None
        ids = {
            "PartnerID": partner.id,
            "UserID": event.user,
            "OrderID": event.order,
            "TimeStamp": _moment(event.at),
        }
        if version == "H005" and kind and service:
            ids["AdminOrderType"] = "BTD" if kind.direction == "download" else "BTU"
            ids |= {"ServiceName": service.name, "ServiceOption": service.option, "MsgName": service.message}
        else:
            ids["AdminOrderType" if version == "H005" else "OrderType"] = event.kind
        others = "".join(
            f"<Othr><Id>{escape(value)}</Id><SchmeNm><Prtry>{name}</Prtry></SchmeNm></Othr>"
            for name, value in ids.items()
            if value
        )
        reason = f"<Rsn><Cd>{event.code}</Cd></Rsn>" if event.code else ""
        more = "".join(f"<AddtlInf>{escape(line)}</AddtlInf>" for line in event.more)
        steps.append(
            f"<OrgnlPmtInfAndSts><OrgnlPmtInfId>{event.action}</OrgnlPmtInfId>"
            f"<StsRsnInf><Orgtr><Id><OrgId>{others}</OrgId></Id></Orgtr>{reason}{more}</StsRsnInf></OrgnlPmtInfAndSts>"
        )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><Document xmlns="{_HAC}"><CstmrPmtStsRpt>'
        f"<GrpHdr><MsgId>HAC{at:%Y%m%d%H%M%S}</MsgId><CreDtTm>{_moment(at)}</CreDtTm></GrpHdr>"
        "<OrgnlGrpInfAndSts><OrgnlMsgId>EBICS</OrgnlMsgId><OrgnlMsgNmId>EBICS</OrgnlMsgNmId></OrgnlGrpInfAndSts>"
        f"{''.join(steps)}</CstmrPmtStsRpt></Document>"
    ).encode()


def text_protocol(events: list[Event]) -> bytes:
    lines = [
        f"{event.at:%d.%m.%Y %H:%M:%S}  {event.kind:<3}  {event.order:<4}  {event.user:<12}  {event.action}  {event.code}"
        for event in events
    ]
    return "\r\n".join(lines).encode("iso-8859-1")


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
