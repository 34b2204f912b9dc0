"""Orders that came in whole: signatures checked, keys changed, payments taken, waiting orders signed or cancelled."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from lxml import etree

from simulators.ebics_bank import secrecy
from simulators.ebics_bank.catalogue import KINDS, TRANSFERS, Kind, kind_of_service
from simulators.ebics_bank.codes import Refusal
from simulators.ebics_bank.customers import Order, Partner, User
from simulators.ebics_bank.desk import Desk
from simulators.ebics_bank.envelope import Request, decoded, find, key_from, parse, service_of, text
from simulators.ebics_bank.payments import read_transfers

_VERSIONS = {"Signature": ("A005", "A006"), "Authentication": ("X002",), "Encryption": ("E002",)}
_TOO_SHORT = {"Signature": "091204", "Authentication": "091205", "Encryption": "091206"}
_UNKNOWN_VERSION = {"Signature": "091201", "Authentication": "091202", "Encryption": "091203"}
_KEYS = {
    "PUB": ("Signature",),
    "HCA": ("Authentication", "Encryption"),
    "HCS": ("Signature", "Authentication", "Encryption"),
}


@dataclass
class Transaction:
    id: str
    request: Request
    partner: Partner
    user: User
    kind: Kind
    # Text in pieces: sent by the bank, or received so far.
    segments: list[str] = field(default_factory=list)
    secret: bytes = b""
    order: str = ""
    signatures: bytes = b""
    # Runs when the client has confirmed that it holds what it fetched.
    done: Callable[[], None] = lambda: None
    reached: int = 1


def unpacked(of: Callable[[], bytes]) -> bytes:
    try:
        return of()
    except (ValueError, zlib.error) as error:
        raise Refusal("090004") from error


def checked_key(root: etree._Element, role: str, version: str) -> secrecy.PublicKey:
    try:
        key = key_from(root, role)
    except ValueError as error:
        raise Refusal("090004") from error
    if key.version not in _VERSIONS[role]:
        raise Refusal(_UNKNOWN_VERSION[role])
    if version == "H005" and not key.certificate:
        raise Refusal("091217")
    if key.rsa.key_size < 2048:
        raise Refusal(_TOO_SHORT[role])
    return key


def order_meant(transaction: Transaction) -> Order:
    """The waiting order that the parameters name."""
    params = transaction.request.params
    order = transaction.partner.order(text(params, "OrderID"))
    if order is None or order.state != "waiting":
        raise Refusal("091114")
    if text(params, "PartnerID") != transaction.partner.id:
        raise Refusal("091120")
    named = service_of(find(params, "Service"))
    kind = kind_of_service(named, "upload") if named else KINDS.get(text(params, "OrderType"))
    if kind is None or kind.name != order.kind:
        raise Refusal("091112")
    return order


def refuse_duplicate(desk: Desk, transaction: Transaction, digest: bytes) -> None:
    if (
        desk.recognises_duplicates
        and transaction.kind.name in TRANSFERS
        and any(
            order.digest == digest and order.kind == transaction.kind.name and order.state != "cancelled"
            for order in transaction.partner.orders
        )
    ):
        desk.faults.append(f"a {transaction.kind.name} that was sent before")
        raise Refusal("091115")


def finish(desk: Desk, transaction: Transaction, content: bytes) -> None:
    """Carries out an order of which everything is there."""
    name, partner, user = transaction.kind.name, transaction.partner, transaction.user
    if name == "HVE":
        _sign_waiting(desk, transaction)
        return
    if name == "SPR":
        content = content or b" "
    digest = secrecy.order_digest(content)
    signers = _signers(transaction, digest)
    desk.note(partner, user.id, "FILE_UPLOAD", name, transaction.order, "TS01")
    desk.note(partner, user.id, "ES_VERIFICATION", name, transaction.order, "DS01")
    if name in _KEYS:
        _change_keys(desk, transaction, content)
    elif name == "SPR":
        user.state = "suspended"
    elif name == "HVS":
        _cancel_waiting(desk, transaction, content)
    else:
        _take_payments(desk, transaction, content, digest, signers)


def _signers(transaction: Transaction, digest: bytes) -> list[User]:
    """The users who signed the digest; refused if one of the signatures is wrong or by nobody."""
    try:
        root = parse(transaction.signatures)
    except Refusal as error:
        raise Refusal("091111") from error
    found: list[User] = []
    for element in root:
        if etree.QName(element).localname != "OrderSignatureData":
            continue
        user = transaction.partner.users.get(text(element, "UserID"))
        if text(element, "PartnerID") != transaction.partner.id:
            raise Refusal("091120")
        if user is None:
            raise Refusal("091304")
        if user.state != "ready":
            raise Refusal("091305")
        if user in found:
            raise Refusal("091306")
        key = user.keys["Signature"]
        if text(element, "SignatureVersion") != key.version:
            raise Refusal("091301")
        if not secrecy.order_is_signed(digest, decoded(text(element, "SignatureValue")), key):
            raise Refusal("091301")
        found.append(user)
    if not found:
        raise Refusal("091111")
    return found


def _take_payments(desk: Desk, transaction: Transaction, content: bytes, digest: bytes, signers: list[User]) -> None:
    partner, name, request = transaction.partner, transaction.kind.name, transaction.request
    refuse_duplicate(desk, transaction, digest)
    if request.data_digest and request.data_digest != digest:
        raise Refusal("091301")
    file = read_transfers(content) if name in TRANSFERS else None
    if file and name in ("CCT", "CIP") and len(file.transfers) == 1 and desk.refuses_single_unchecked:
        raise Refusal("091116")
    order = Order(transaction.order, name, transaction.user.id, content, digest, desk.now(), file=file)
    if _authorises(request):
        order.signatures = [(user.id, user.level) for user in signers if user.level != "T"]
    partner.orders.append(order)
    if name in ("CTV", "CIV"):
        desk.check_payees(partner, order)
    desk.try_to_execute(partner, order)
    if order.state == "waiting":
        desk.note(partner, transaction.user.id, "VEU_FORWARDING", name, order.id, "DS06")


def _authorises(request: Request) -> bool:
    """Tells whether the signatures are meant to release the order, and not only to bring it."""
    return request.has_signature_flag if request.version == "H005" else request.attribute[:1] in ("O", "U")


def _sign_waiting(desk: Desk, transaction: Transaction) -> None:
    partner, user, order = transaction.partner, transaction.user, order_meant(transaction)
    if user.level == "T" or order.kind not in user.rights:
        raise Refusal("091007")
    if any(signer == user.id for signer, _ in order.signatures):
        raise Refusal("091306")
    if _signers(transaction, order.digest) != [user]:
        raise Refusal("091301")
    desk.note(partner, user.id, "ES_UPLOAD", "HVE", transaction.order, "TS01")
    order.signatures.append((user.id, user.level))
    order.waits_for_release = False
    desk.note(partner, user.id, "VEU_VERIFICATION", order.kind, order.id, "DS01")
    desk.try_to_execute(partner, order)


def _cancel_waiting(desk: Desk, transaction: Transaction, content: bytes) -> None:
    order = order_meant(transaction)
    if order.kind not in transaction.user.rights:
        raise Refusal("091007")
    if decoded(text(parse(content), "CancelledDataDigest")) != order.digest:
        raise Refusal("090004")
    desk.cancel(transaction.partner, order, transaction.user.id)


def _change_keys(desk: Desk, transaction: Transaction, content: bytes) -> None:
    root, user, name = parse(content), transaction.user, transaction.kind.name
    if (text(root, "PartnerID"), text(root, "UserID")) != (transaction.partner.id, user.id):
        raise Refusal("091120")
    keys = {role: checked_key(root, role, transaction.request.version) for role in _KEYS[name]}
    if any(key.rsa.public_numbers() == user.keys[role].rsa.public_numbers() for role, key in keys.items()):
        raise Refusal("091218")
    user.keys |= keys
    desk.note(transaction.partner, user.id, "ORDER_HAC_FINAL_POS", name, transaction.order)
