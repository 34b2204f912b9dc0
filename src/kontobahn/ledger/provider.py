"""The port: what an accounting provider must offer. The built-in books are one adapter of it; an external one is another.

It speaks the contract's resources, which live with their nouns: `opos.py`, `kassenbuch.py`,
`personenkonto.py`, `buchungen.py`, `wire.py` and others.
A provider translates; it does not charge, serve or emit. It refuses by raising ProviderError with the status it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import BinaryIO, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from kontobahn.api.tasks import Work
from kontobahn.db import Database, Tx
from kontobahn.formats.document_package import Document
from kontobahn.ledger import buchungen, kassenbuch, wire
from kontobahn.ledger.buchungen import Buchung, DocumentBookings, GebuchteBuchungen, NeueBuchung
from kontobahn.ledger.errors import Area
from kontobahn.ledger.faelligkeiten import Faelligkeiten
from kontobahn.ledger.opos import Belegbewegung, JoinedOpos, Opos, OposSelection
from kontobahn.ledger.personenkonto import Geschaeftspartner, Partner, PartnerOrder, Personenkonto, PersonenkontoAntwort
from kontobahn.ledger.wire import (
    AccountSheet,
    Import,
    ImportMitProtokoll,
    SentFile,
    SheetSelection,
    TaxedBooking,
    TaxSelection,
)

T = TypeVar("T")

# The writes that remain when the provider has done its part: run in the one transaction that also confirms the charge and
# stores the answer for repeats. For the built-in books it is the whole effect.
Effect = Callable[[Tx], T]


# Signed cents by person account and document.
OpenAmounts = dict[tuple[str, str], int]


class ConnectionRef(NamedTuple):
    """A connection in the caller's scope."""

    organization_id: str
    id: str
    provider: str
    status: str


class Author(NamedTuple):
    """The author of a write, for the provider's log."""

    request_id: str
    quelle: str
    # By the name in the audit log.
    actor: str = ""


class LedgerClient(NamedTuple):
    """A client of a connection, as people choose it."""

    connection_id: str
    client_id: str
    name: str
    kontenrahmen: str
    konto_laenge: int
    # None if the provider does not count them.
    bookings: int | None
    is_default: bool


# --- Writes that a provider carries out in its own time, before or after our transaction

# As the contract's providers call the states of their tasks. OPEN: nothing that could take effect was asked of the provider yet.
# UNKNOWN: nobody can tell any more whether it took effect.
TransmissionState = Literal["OPEN", "IN_PROGRESS", "SUCCESS", "PARTIAL_SUCCESS", "FAILED", "UNKNOWN"]
TransmissionKind = Literal["KASSENBUCH", "PERSONENKONTO", "BUCHUNGSSTAPEL"]


class Transmission(NamedTuple):
    """A write on its way to the provider, as it is kept: first what is to be sent, in the end what became of it."""

    organization_id: str
    id: str
    connection_id: str
    client_id: str
    kind: TransmissionKind
    # For people.
    title: str
    state: TransmissionState
    # JSON: the thing to be sent, and how far that is, as the provider writes it; the messages about it as a list of `Meldung`.
    content: str
    progress: str
    messages: str
    # The payer, and the reservation, if it is paid for by itself.
    payer_organization_id: str
    hold_id: str | None
    idempotency_key: str | None
    idempotency_fingerprint: str | None
    request_id: str
    quelle: str
    # Counts those who have worked on it: what an earlier one still writes is refused.
    attempt: int
    polls: int
    next_step_at: int
    created_at: int
    updated_at: int
    lease_until: int
    # Of one that failed: that which was sent in its place, or FOLLOWED_BY_FILE if somebody handed its file over.
    followed_by: str | None


FOLLOWED_BY_FILE = "file"


class Outgoing(NamedTuple):
    """A write that is to become a transmission."""

    connection: ConnectionRef
    client_id: str
    kind: TransmissionKind
    title: str
    content: str
    files: tuple[kassenbuch.ReceiptImage, ...] = ()


class StoredFile(NamedTuple):
    """A file that is kept with a transmission."""

    position: int
    id: str
    dateiname: str
    mime_typ: str
    sha256: str
    groesse: int


class Progress(NamedTuple):
    """The state of a transmission after a step. `pause_seconds`: not to be looked at again before."""

    state: TransmissionState
    messages: list[wire.Meldung]
    pause_seconds: int = 0


class Notebook(Protocol):
    """The place where a provider writes how far it is while it carries out a transmission."""

    async def keep(self, progress: str, *, is_released: bool = False) -> None:
        """Stores it at once. Raises LeaseLost if another process has taken over: nothing more may be sent then.

        `is_released` before whatever may take effect: from then on it is asked after, and never sent a second time.
        """

    async def files(self) -> list[StoredFile]: ...

    async def content(self, file: StoredFile) -> bytes: ...


@runtime_checkable
class Transmitter(Protocol):
    """A provider that carries out transmissions."""

    async def transmit(self, connection: ConnectionRef, sent: Transmission, notebook: Notebook) -> Progress:
        """Takes it a step further, from wherever it is. Raises ProviderError or Refusal if it cannot."""


@runtime_checkable
class TransmittingBooks(Protocol):
    """Books whose entries are sent and carried out later: their calls are paid for when the outcome is known."""

    async def outgoing_cash_entry(self, entry: kassenbuch.CashEntry) -> Outgoing: ...

    async def outgoing_person(self, konto: Personenkonto) -> Outgoing: ...

    async def outgoing_bookings(self, buchungen: list[NeueBuchung], document: str = "") -> Outgoing: ...

    def outgoing_file(self, name: str, content: bytes, documents: Sequence[str] = ()) -> Outgoing | None:
        """Returns a DATEV-format file of bookings that refer to these documents, by their GUIDs.

        None if the client has not booked what that takes: a person hands it over.
        """

    def person_answer(self, sent: Transmission) -> tuple[PersonenkontoAntwort, bool]: ...

    def bookings_answer(self, sent: Transmission) -> GebuchteBuchungen: ...

    def cash_entry_answer(
        self, sent: Transmission, images: list[kassenbuch.Belegbild]
    ) -> kassenbuch.Kassenbucheintrag: ...


class ClientBooks(Protocol):
    """The books of one client, open."""

    client_id: str
    # As of when the last answer was, in microseconds; None if it was as of now.
    as_of: int | None

    async def geschaeftsjahre(self) -> list[wire.Geschaeftsjahr]: ...

    async def konten(self, jahr: date, from_id: str | None, limit: int | None) -> list[wire.Kontozeile]: ...

    async def buchungen(
        self, jahr: date, from_id: str | None, limit: int | None, periode: int | None = None
    ) -> list[buchungen.Buchung]:
        """Returns the bookings of a fiscal year, or of one period of it, by id."""

    async def susa(self, jahr: date, kontonummer: str | None) -> list[wire.SusaZeile]: ...

    async def umsatzsteuer(self, jahr: date, von: date | None, bis: date | None) -> wire.Umsatzsteuer:
        """Returns the VAT figures of a fiscal year, or of days of it."""

    async def steuerbuchungen(self, selection: TaxSelection) -> list[TaxedBooking]:
        """Returns the bookings that a line of the VAT figures sums up, by number, each with its share of the sums."""

    async def bwa(self, jahr: date, bis_periode: int) -> wire.Bwa:
        """Returns the profit and loss of a fiscal year up to a period."""

    async def zahlungsbedingungen(self, jahr: date) -> list[wire.Zahlungsbedingung]: ...

    async def offene_posten(self, selection: OposSelection) -> Opos | JoinedOpos: ...

    async def faelligkeiten(self, selection: OposSelection) -> Faelligkeiten: ...

    async def belegbewegungen(self, seit: date, limit: int) -> list[Belegbewegung]:
        """Returns the movements of person accounts' documents since a day, the latest `limit`, without those taken back."""

    async def offene_betraege(self, konten: Collection[str]) -> Effect[OpenAmounts]:
        """Returns the open amounts of today of these person accounts' documents, for a decision that must not be outdated.

        The effect reads it in the transaction that decides, where the books are in the same database.
        """

    async def kassenbuecher(self) -> list[kassenbuch.Kassenbuch]: ...

    async def rechnungsordner(self, ordnertyp: kassenbuch.Ordnertyp | None) -> list[kassenbuch.Rechnungsordner]: ...

    async def belegtypen(self) -> list[kassenbuch.Belegtyp]: ...

    async def create_kassenbucheintrag(
        self, entry: kassenbuch.CashEntry, author: Author
    ) -> Effect[kassenbuch.Kassenbucheintrag]: ...

    async def kassenbuchzeilen(self, selection: kassenbuch.KassenbuchSelection) -> kassenbuch.CashReport: ...

    async def reverse_kassenbucheintrag(
        self, nummer: int, storno: kassenbuch.Storno, author: Author
    ) -> Effect[kassenbuch.Kassenbuchzeile]:
        """The effect returns the reversal."""

    async def belegbild(self, image_id: str) -> kassenbuch.ReceiptImage | None:
        """Returns a receipt image that an entry came with."""

    async def geschaeftspartner(self) -> list[Geschaeftspartner]:
        """Returns business partners with their names and bank accounts, in the order of their numbers."""

    async def partners(
        self, search: str, after: str, limit: int, order: PartnerOrder = "konto", *, descending: bool = False
    ) -> list[Partner]:
        """Returns person accounts in an order, after this one. Every word of the search is in the number or the name."""

    async def partner(self, konto: str) -> Partner | None: ...

    async def account_sheet(self, selection: SheetSelection) -> AccountSheet:
        """Returns a page of the sheet of an account: every leg on it, by period, day and booking."""

    async def bookings_of_document(self, konto: str, beleg: str, after: str, limit: int) -> DocumentBookings:
        """Returns what moved a document of a person account, over all years, by day and id; not what was undone.

        `after` is day and id of the last one before the page, as `2026-01-15 4711`; "" for the first page.
        """

    async def save_personenkonto(
        self, konto: Personenkonto, author: Author
    ) -> Effect[tuple[PersonenkontoAntwort, bool]]:
        """The effect returns the answer, and whether the account was created (otherwise updated)."""

    async def book(
        self, buchungen: list[NeueBuchung], author: Author, *, another: bool, document: str = ""
    ) -> Effect[GebuchteBuchungen]:
        """Books all of them or none. With `another`, those that look booked already are other bookings.

        `document` is the GUID of the document that all of them are of, if others keep it (`DocumentSource`).
        """

    async def import_file(self, file: SentFile, author: Author) -> Work[ImportMitProtokoll]:
        """Reads the header of the file; the work, which takes the id that the import is to have, imports it."""

    async def export(self, jahr: date, target: BinaryIO, *, receipts_up_to: int) -> None:
        """Writes a fiscal year as a zip of files; with receipts if they have at most so many bytes, 0 for none."""

    async def imports(self, before: str | None, limit: int) -> list[Import]:
        """Returns the imports, the latest first."""

    async def find_import(self, import_id: str) -> ImportMitProtokoll | None: ...

    async def bookings_of_import(self, import_id: str, after: str, limit: int) -> list[Buchung]:
        """Returns what was booked by an import, in the order of the numbers, after this one."""

    async def undo_import(self, import_id: str, author: Author) -> Work[ImportMitProtokoll | None]:
        """The work, which takes the id that the undoing import is to have, returns that import; None if there is none to undo."""

    async def active_subscriptions(self) -> list[str]: ...

    def needed_subscription(self, area: Area) -> str:
        """Returns the service that this area belongs to, by the provider's name for it."""

    async def probe(self, area: Area, jahr: date | None) -> None:
        """Touches the area without effect. Raises ProviderError if it is closed."""


class LedgerProvider(Protocol):
    name: str

    async def clients(self, connections: Sequence[ConnectionRef]) -> list[LedgerClient]:
        """Returns the clients of these connections, the default ones first. Leaves out those whose provider names no clients."""

    async def open(self, connection: ConnectionRef, client_id: str | None) -> ClientBooks:
        """Opens this client, or the connection's default one. Raises BadRequest if there is no such client."""


# --- Providers that a person signs in to


class SignIn(NamedTuple):
    """A person's sign-in at a provider, which lives from then on; a refresh of its tokens prolongs nothing."""

    person: str
    signed_in_at: int
    expires_at: int


class BookedClient(NamedTuple):
    """A client that a sign-in can see, and the services that it has booked."""

    client_id: str
    name: str
    services: list[str]
    is_default: bool


class SentRequest(NamedTuple):
    """A request to the provider, as its support asks for it: without tokens, codes and secrets."""

    id: str
    sent_at: int
    method: str
    url: str
    headers: str
    # None if there was no answer.
    status: int | None
    transaction_id: str
    request_id: str
    body: str


@runtime_checkable
class OnlineProvider(Protocol):
    """A provider whose connections begin with a person's sign-in in the browser, and end with it."""

    name: str
    # As people call it; and where they see and revoke what they granted.
    title: str
    grants_url: str
    # The service without which nothing can be read.
    needed_service: str

    async def begin_sign_in(self, connection: ConnectionRef, session_id: str) -> str:
        """Returns the address to lead the browser to. Raises SetupError if nobody could come back from it."""

    async def finish_sign_in(self, organization_id: str, session_id: str, query: dict[str, str]) -> ConnectionRef:
        """Takes what the browser came back with, once. Raises Refusal or Unavailable if it leads to nothing."""

    async def sign_in_of(self, connection: ConnectionRef) -> SignIn | None: ...

    async def booked_clients(self, connection: ConnectionRef) -> list[BookedClient]: ...

    async def look_again(self, connection: ConnectionRef) -> bool:
        """Asks for the clients and their services again. Returns whether the default one can be read."""

    async def choose(self, connection: ConnectionRef, client_id: str) -> None:
        """Makes this client the default one. Raises NotFound if the sign-in does not see it."""

    async def disconnect(self, connection: ConnectionRef) -> bool:
        """Revokes the tokens at the provider, then forgets them. Raises ProviderError, and forgets nothing, if it cannot.

        Returns False if the provider offers no way to revoke them: a person does that there.
        """

    async def sent_requests(self, connection: ConnectionRef, before: str | None, limit: int) -> list[SentRequest]:
        """Returns the requests of this connection, the latest first."""

    async def close(self) -> None: ...


class DocumentSource(Protocol):
    """Documents that bookings refer to and that others than the books keep, for the package beside an export."""

    def __call__(self, db: Database, organization_id: str, guids: Sequence[str]) -> list[Document]:
        """Returns those of these documents that there are."""


class Ledger(NamedTuple):
    """The ledger area's part of the application: its providers by name."""

    providers: dict[str, LedgerProvider]

    def online(self, name: str) -> OnlineProvider | None:
        """The provider of this name, if people sign in to it."""
        found = self.providers.get(name)
        return found if isinstance(found, OnlineProvider) else None

    def transmitter(self, name: str) -> Transmitter | None:
        """The provider of this name, if it carries out transmissions."""
        found = self.providers.get(name)
        return found if isinstance(found, Transmitter) else None

    @property
    def all_online(self) -> list[OnlineProvider]:
        return [found for name in self.providers if (found := self.online(name)) is not None]

    async def close(self) -> None:
        for provider in self.all_online:
            await provider.close()


# Books that this installation keeps itself: the port through which pages create and name clients, so that they need not
# know which adapter keeps them.


# The moment at which sales are taxed: when they are invoiced, when they are paid, or not at all (§ 19 UStG).
Versteuerung = Literal["soll", "ist", "kleinunternehmer"]
# Numbers for whoever has none from an adviser yet. The smallest that the format knows.
NO_ADVISER = "1001-1"


class NewClient(NamedTuple):
    name: str
    kontenrahmen: str
    konto_laenge: int
    # The adviser's number and the client's.
    client_id: str
    year_start: date
    versteuerung: Versteuerung = "soll"


class OwnBooks(NamedTuple):
    # The name of the provider.
    provider: str
    # Creates a client in a connection, or in a new one, and returns the connection's id.
    create: Callable[[Tx, str, str | None, NewClient], str]
    # Gives a client another name.
    rename: Callable[[Tx, ConnectionRef, str, str], object]
    # The taxation of a connection's clients, by their ids.
    versteuerungen: Callable[[Tx, ConnectionRef], dict[str, Versteuerung]]
