"""Receives files into temporary ones: bounded in size, time and number, and never held in memory whole."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from email.utils import collapse_rfc2231_value
from pathlib import Path
from typing import BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from kontobahn.api.bodies import Pace, Receive, body_chunks
from kontobahn.api.exchange import Exchange
from kontobahn.api.wire import Upload
from kontobahn.errors import BadRequest, TooLarge, TooManyRequests, WrongMediaType
from kontobahn.sentences import said
from kontobahn.settings import Settings
from kontobahn.threads import Pool

AT_ONCE = 4
# Writing to disk may block: beside the event loop, and beside the threads that calculate.
THREADS, WAITING = 4, 256
MAX_NAME_LENGTH = 255
# Of a form: as many as a page has fields, and a file. Empty parts are small, and would cost the parser its time all the same.
MAX_PARTS = 600
_BLOCK_BYTES = 1024 * 1024
# The bytes of a form beside its file: boundaries and headers.
_FORM_BYTES = 16 * 1024
_HEADER_LENGTH = 2000
_FORM, _JSON = "multipart/form-data", "application/json"
_DISPOSITION = "Content-Disposition"


class NoFile(BadRequest):
    """A form whose file was left out."""


class Uploads:
    """The files that are arriving in this process."""

    def __init__(self, settings: Settings, pace: Pace) -> None:
        self._pace = pace
        self._pool = Pool("uploads", threads=THREADS, waiting=WAITING)
        self._limit = settings.upload_limit_bytes
        self._directory = settings.data_dir
        self._arriving: dict[str, int] = {}

    async def receive(
        self,
        exchange: Exchange,
        receive: Receive,
        fields: dict[str, list[str]] | None = None,
        *,
        limit: int | None = None,
    ) -> Upload:
        """Returns the file, and leaves its checksum as the exchange's body.

        `limit` is the most bytes it may have, if that is less than the setting allows.
        With `fields`, a form may have others beside its file; they are put there.
        """
        assert exchange.principal is not None, "a call that takes a file must know its caller"
        with self._place_for(exchange.principal.organization_id):
            upload = exchange.upload = await self._receive(exchange, receive, limit or self._limit, fields)
        exchange.body = bytes.fromhex(upload.sha256)
        return upload

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def _place_for(self, organization_id: str) -> Iterator[None]:
        arriving = self._arriving.get(organization_id, 0)
        if arriving >= AT_ONCE:
            raise TooManyRequests(
                said("{count} files are already arriving. Send them one after the other.", count=AT_ONCE),
                retry_after_seconds=5,
            )
        self._arriving[organization_id] = arriving + 1
        try:
            yield
        finally:
            self._arriving[organization_id] -= 1
            if not self._arriving[organization_id]:
                del self._arriving[organization_id]

    async def _receive(
        self, exchange: Exchange, receive: Receive, limit: int, fields: dict[str, list[str]] | None
    ) -> Upload:
        sink = _Sink(self._directory, limit)
        try:
            reader = _reader_of(exchange, sink, fields)
            allowed = limit + (_FORM_BYTES if isinstance(reader, _Form) else 0)
            waiting, size = [], 0
            async for chunk in body_chunks(receive, exchange.headers, allowed, self._pace):
                waiting.append(chunk)
                size += len(chunk)
                if size >= _BLOCK_BYTES:
                    await self._pool.run(reader.feed, b"".join(waiting))
                    waiting, size = [], 0
            await self._pool.run(reader.feed, b"".join(waiting))
            return sink.finish(reader.finish())
        except BaseException:
            sink.file.close()
            raise


class _Sink:
    """The temporary file, with the checksum of what it holds."""

    def __init__(self, directory: Path, limit: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # Beside the database: the system's own directory for temporary files may be in memory.
        self.file: BinaryIO = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        self._limit = limit
        self._size = 0
        self._digest = hashlib.sha256()

    def write(self, content: bytes) -> None:
        self._size += len(content)
        if self._size > self._limit:
            raise TooLarge(said("The file is larger than {most} bytes.", most=self._limit))
        self._digest.update(content)
        self.file.write(content)

    def finish(self, name: str) -> Upload:
        if not self._size:
            # A browser sends a file that nobody chose as an empty one without a name.
            raise BadRequest("The file is empty.") if name else NoFile("There is no file, or it is empty.")
        self.file.seek(0)
        return Upload(self.file, name[:MAX_NAME_LENGTH], self._size, self._digest.hexdigest())


def _reader_of(exchange: Exchange, sink: _Sink, fields: dict[str, list[str]] | None) -> _Plain | _Form:
    content_type = exchange.header(b"content-type") or "application/octet-stream"
    kind = content_type.partition(";")[0].strip().lower()
    if kind == _FORM:
        boundary = _parameter("Content-Type", content_type, "boundary")
        if not boundary or not boundary.isascii():
            raise BadRequest("The header `Content-Type` of a form must name its boundary.", field="Content-Type")
        return _Form(sink, boundary, fields)
    if kind == _JSON:
        raise WrongMediaType(
            said("Send the file itself as the request body, or as the one file of a {form}.", form=_FORM)
        )
    return _Plain(sink, _file_name(exchange.header(b"content-disposition") or ""))


def _parameter(header: str, value: str, name: str) -> str:
    """Returns a parameter of a header, empty if it has none. Raises BadRequest if it is in a character set that is none."""
    message = Message()
    message[header] = value[:_HEADER_LENGTH]
    try:
        return collapse_rfc2231_value(message.get_param(name, "", header))
    except ValueError:
        raise BadRequest(
            said("The header `{header}` has a `{name}` that cannot be read.", header=header, name=name), field=header
        ) from None


def _file_name(disposition: str) -> str:
    """The last part of the file name in a Content-Disposition, without control characters."""
    name = _parameter(_DISPOSITION, disposition, "filename").replace("\\", "/").rpartition("/")[2]
    try:
        # Browsers and curl send UTF-8, and a header is read as Latin-1.
        name = name.encode("latin-1").decode("utf-8")
    except UnicodeError:
        pass
    return "".join(character for character in name if character.isprintable())


class _Plain:
    """A body that is the file."""

    def __init__(self, sink: _Sink, name: str) -> None:
        self.feed = sink.write
        self._name = name

    def finish(self) -> str:
        return self._name


@contextmanager
def _readable() -> Iterator[None]:
    """Raises BadRequest for what the parser of forms does not take."""
    try:
        yield
    except FormParserError as error:
        raise BadRequest(said("The form cannot be read: {why}", why=error)) from None


class _Form:
    """A body that is a form with one file in it, and nothing else; or with small fields, where those are taken."""

    def __init__(self, sink: _Sink, boundary: str, fields: dict[str, list[str]] | None = None) -> None:
        self._sink = sink
        self._fields = fields
        self._field: bytearray | None = None
        self._field_bytes = 0
        self._name: str | None = None
        self._header = ["", ""]
        self._disposition = ""
        self._is_whole = False
        self._parts = 0
        with _readable():
            self._parser = MultipartParser(
                boundary,
                {
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
            )

    def feed(self, content: bytes) -> None:
        with _readable():
            self._parser.write(content)

    def finish(self) -> str:
        if self._name is None:
            raise NoFile("The form holds no file.")
        if not self._is_whole:
            raise BadRequest("The form ends before its last boundary.")
        return self._name

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._add_to_header(0, data[start:end])

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._add_to_header(1, data[start:end])

    def _add_to_header(self, part: int, text: bytes) -> None:
        if len(self._header[part]) + len(text) > _HEADER_LENGTH:
            raise BadRequest("The form has a header that is too long.")
        self._header[part] += text.decode("latin-1")

    def _on_header_end(self) -> None:
        name, value = self._header
        if name.lower() == "content-disposition":
            self._disposition = value
        self._header = ["", ""]

    def _on_headers_finished(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise BadRequest(said("The form has more than {most} parts.", most=MAX_PARTS))
        if self._fields is not None and "filename" not in self._disposition.lower():
            self._field = bytearray()
            return
        if self._name is not None:
            raise BadRequest("The form holds more than one part. Send one file; everything else is a query parameter.")
        if "filename" not in self._disposition.lower():
            raise BadRequest("The form holds a field. Send one file; everything else is a query parameter.")
        self._name = _file_name(self._disposition)

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._sink.write(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > _FORM_BYTES:
            raise TooLarge(said("The form's fields are larger than {most} bytes.", most=_FORM_BYTES))
        self._field += data[start:end]

    def _on_part_end(self) -> None:
        if self._field is None or self._fields is None:
            return
        name = _parameter(_DISPOSITION, self._disposition, "name")
        self._fields.setdefault(name, []).append(self._field.decode("utf-8", "replace"))
        self._field = None

    def _on_end(self) -> None:
        self._is_whole = True
