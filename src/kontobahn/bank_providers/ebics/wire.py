"""An access as it is kept, sealed: the bank's data sheet, our keys, the bank's keys once a person has compared them, and our rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from kontobahn.formats.statements import Balance

if TYPE_CHECKING:
    from kontobahn.formats.ebics.keys import OwnKey, PublicKey
    from kontobahn.formats.ebics.requests import BankKeys, Subscriber
    from kontobahn.formats.ebics.services import Rights

# made: the keys exist here; sent: the bank has them and waits for the letter; compared: a person has compared the bank's.
Stage = Literal["made", "sent", "compared"]


class KeptKey(msgspec.Struct, array_like=True):
    """A key pair of ours, or a public key of the bank's, whose private half is empty."""

    version: str
    private: bytes
    certificate: bytes
    modulus: bytes = b""
    exponent: int = 0

    def __repr__(self) -> str:
        return f"KeptKey({self.version}, •••)"

    def own(self) -> OwnKey:
        from kontobahn.formats.ebics.keys import OwnKey

        return OwnKey(self.version, self.private, self.certificate)  # type: ignore[arg-type]

    def public(self) -> PublicKey:
        from kontobahn.formats.ebics.keys import PublicKey

        number = int.from_bytes(self.modulus, "big")
        return PublicKey(self.version, number, self.exponent, self.certificate)  # type: ignore[arg-type]


def kept_pair(key: OwnKey) -> KeptKey:
    return KeptKey(key.version, key.private, key.certificate)


def kept_public(key: PublicKey) -> KeptKey:
    size = (key.modulus.bit_length() + 7) // 8
    return KeptKey(key.version, b"", key.certificate, key.modulus.to_bytes(size, "big"), key.exponent)


class Access(msgspec.Struct, kw_only=True):
    bank_name: str
    url: str
    protocol: Literal["H004", "H005"]
    host_id: str
    partner_id: str
    user_id: str
    # The person who signs the letter.
    company: str
    signature: KeptKey
    authentication: KeptKey
    encryption: KeptKey
    stage: Stage = "made"
    # Set before each is sent: a bank that has it already refuses it the second time.
    tried: list[str] = []
    sent: list[str] = []
    sent_at: int = 0
    # By version of the key: hashes of the bank's keys that its data sheet seems to say. A person has to confirm them.
    proposed_hashes: dict[str, str] = {}
    bank_authentication: KeptKey | None = None
    bank_encryption: KeptKey | None = None
    # The answer to HTD or HKD, as the bank sent it; empty if it does not tell.
    rights: bytes = b""
    # The orders with something to fetch (HAA), and when we asked.
    to_fetch: list[str] = []
    asked_at: int = 0
    # Keys for signature, authentication and encryption that the bank has not confirmed; in doubt from the moment they are sent.
    next_keys: list[KeptKey] = []
    next_in_doubt: bool = False
    keys_since: int = 0
    suspended_at: int = 0
    # By IBAN: the last balance that a statement closed with, which holds until the next statement.
    closings: dict[str, Balance] = {}

    def __repr__(self) -> str:
        return f"Access({self.bank_name}, {self.stage}, •••)"

    def subscriber(self) -> Subscriber:
        from kontobahn.formats.ebics.requests import Subscriber

        return Subscriber(self.protocol, self.host_id, self.partner_id, self.user_id)

    def bank(self) -> BankKeys:
        from kontobahn.formats.ebics.requests import BankKeys

        assert self.stage == "compared"
        assert self.bank_authentication is not None
        assert self.bank_encryption is not None
        return BankKeys(self.bank_authentication.public(), self.bank_encryption.public())

    def told_rights(self) -> Rights | None:
        from kontobahn.formats.ebics.services import read_rights

        return read_rights(self.rights, self.user_id) if self.rights else None
