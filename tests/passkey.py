"""A passkey in software: it makes credentials and signs challenges as a security key does. For tests without a browser."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from base64 import urlsafe_b64encode
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

_PRESENT, _VERIFIED, _WITH_KEY = 0x01, 0x04, 0x40


class Passkey:
    def __init__(self, site: str, origin: str) -> None:
        self._site, self._origin = site, origin
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._id = secrets.token_bytes(16)
        self.counter = 0
        # Whether the person has shown the device who they are.
        self.verified = True

    def make(self, options: dict[str, Any]) -> str:
        """Answers what a page asks to make a passkey with."""
        numbers = self._key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        credential = bytes(16) + struct.pack(">H", len(self._id)) + self._id + cbor2.dumps(cose)
        data = self._data(_WITH_KEY) + credential
        return self._answer(
            clientDataJSON=self._said("webauthn.create", options),
            attestationObject=cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data}),
        )

    def sign(self, options: dict[str, Any]) -> str:
        """Answers what a page asks to sign in with."""
        self.counter += 1
        data, said = self._data(0), self._said("webauthn.get", options)
        signature = self._key.sign(data + hashlib.sha256(said).digest(), ec.ECDSA(SHA256()))
        return self._answer(clientDataJSON=said, authenticatorData=data, signature=signature)

    def _data(self, flags: int) -> bytes:
        flags |= _PRESENT | (_VERIFIED if self.verified else 0)
        return hashlib.sha256(self._site.encode()).digest() + struct.pack(">BI", flags, self.counter)

    def _said(self, kind: str, options: dict[str, Any]) -> bytes:
        return json.dumps({"type": kind, "challenge": options["challenge"], "origin": self._origin}).encode()

    def _answer(self, **response: bytes) -> str:
        fields = {name: _text(content) for name, content in response.items()}
        return json.dumps({
            "id": _text(self._id), "rawId": _text(self._id), "type": "public-key", "response": fields,
            "clientExtensionResults": {},
        })  # fmt: skip


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
