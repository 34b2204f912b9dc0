"""The line to the bank: HTTP on loopback, with the misbehaviour that is due."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from simulators.ebics_bank.bank import EbicsBank
from simulators.ebics_bank.breaks import Break, spoilt


class Line:
    """A bank that is listened to at `url`, until it is hung up."""

    def __init__(self, bank: EbicsBank, port: int = 0) -> None:
        self._server = _server_for(bank, port)
        self._bank = bank
        self.url = bank.url = f"http://127.0.0.1:{self._server.server_address[1]}/ebics"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def hang_up(self) -> None:
        self._bank.go_on.set()
        self._server.shutdown()
        self._server.server_close()


def _due(bank: EbicsBank, body: bytes) -> Break | None:
    if not bank.breaks:
        return None
    described = bank.describe(body)
    found = next((each for each in bank.breaks if each.fits(*described)), None)
    if found:
        bank.breaks.remove(found)
    return found


def _answer(bank: EbicsBank, body: bytes, due: Break | None) -> bytes:
    how = due.how if due else ""
    if due and how == "code":
        root, is_signed = bank.refused(body, due.code)
    else:
        root, is_signed = bank.answer(body)
    return spoilt(root, how, bank.authentication if is_signed else None)


def _server_for(bank: EbicsBank, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # An answer leaves as a whole, without waiting for more to send.
        wbufsize, disable_nagle_algorithm = -1, True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            with bank.lock:
                due = _due(bank, body)
            how = due.how if due else ""
            if how == "late_request":
                bank.reached.set()
                bank.go_on.wait()
            status, content = 200, b""
            if how in ("500", "503"):
                status = int(how)
            elif how != "unheard":
                with bank.lock:
                    content = _answer(bank, body, due)
            if how == "late":
                bank.reached.set()
                bank.go_on.wait()
            if how in ("unheard", "lost"):
                self.close_connection = True
                self.connection.close()
                return
            if how == "nonsense":
                content = b"<html>Wartungsarbeiten"
            self.send_response(status)
            self.send_header("Content-Type", "text/xml; charset=UTF-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is no fault of the bank's."""

    return Server(("127.0.0.1", port), Handler)
