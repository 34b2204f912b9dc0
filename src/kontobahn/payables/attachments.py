"""The files of a mail that may be invoices: XML and PDF, also of mails that were forwarded inside it. Pure."""

from __future__ import annotations

import email
import email.policy
from email.message import Message
from typing import NamedTuple

from kontobahn.formats.invoices.source import MAX_FILE_BYTES

# A mail of a person has a handful.
_MAX_PARTS = 300
MAX_FILES = 50
# Each line is held against the boundary of every part around it: many short lines in many parts would take hours.
_MAX_LINES, _MAX_BOUNDARIES = 1_200_000, 50
_MAX_TEXT = 200
_NAME_LENGTH = 255
_ENDINGS = (".xml", ".pdf")
_TYPES = ("application/pdf", "application/xml", "text/xml")


class Unreadable(Exception):
    """The mail is made so that it cannot be taken apart within our bounds."""


class MailFile(NamedTuple):
    name: str
    content: bytes


class Mail(NamedTuple):
    sender: str
    subject: str
    files: list[MailFile]
    # The number of files that are larger than we take.
    left_out: int


def read(content: bytes) -> Mail:
    """Takes a mail apart: XML comes first, so that a PDF of the same invoice finds it. Raises Unreadable."""
    if content.count(b"\n") > _MAX_LINES or content.lower().count(b"boundary") > _MAX_BOUNDARIES:
        raise Unreadable
    try:
        message = email.message_from_bytes(content, policy=email.policy.default)
        found = _files(message)
        files = [file for file in found if len(file.content) <= MAX_FILE_BYTES]
        files.sort(key=lambda file: _is_pdf(file.content))
        return Mail(_line(message, "From"), _line(message, "Subject"), files, len(found) - len(files))
    except (RecursionError, LookupError, ValueError, AttributeError, TypeError) as error:
        # The library stumbles over what nobody's program writes.
        raise Unreadable from error


def _files(message: Message) -> list[MailFile]:
    found: list[MailFile] = []
    for number, part in enumerate(message.walk()):
        if number >= _MAX_PARTS or len(found) >= MAX_FILES:
            raise Unreadable
        if part.is_multipart():
            continue
        name = " ".join((part.get_filename() or "").split())[:_NAME_LENGTH]
        if part.get_content_type() not in _TYPES and not name.lower().endswith(_ENDINGS):
            continue
        content = part.get_payload(decode=True)
        if isinstance(content, bytes) and _may_be_invoice(content):
            found.append(MailFile(name or f"anhang-{number}", content))
    return found


def _is_pdf(content: bytes) -> bool:
    return content[:1_024].lstrip().startswith(b"%PDF-")


def _may_be_invoice(content: bytes) -> bool:
    """By how it begins: what calls itself a PDF may be anything."""
    head = content[:1_024].lstrip(b"\xef\xbb\xbf \t\r\n")
    return _is_pdf(content) or head.startswith(b"<") or head[:2] in (b"\xff\xfe", b"\xfe\xff")


def _line(message: Message, name: str) -> str:
    text = str(message.get(name, ""))
    return "".join(sign for sign in " ".join(text.split()) if sign.isprintable())[:_MAX_TEXT]
