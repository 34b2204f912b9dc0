"""Texts of the pages of an order that is uploaded as a file, in German and English."""

from __future__ import annotations

from kontobahn.banking.interaction import Words

ORDER_TITLE = Words("Auftrag an Ihre Bank", "Order for your bank")
TITLES = {
    "settled": Words("Bezahlt", "Paid"),
    "failed": Words("Auftrag beendet", "Order ended"),
    "rejected": Words("Von der Bank abgelehnt", "Rejected by the bank"),
}
AT_BANK_TITLE = Words("Der Auftrag ist bei der Bank", "The order is at the bank")
FILE_TITLE = Words("Sammelauftrag an Ihre Bank", "Batch order for your bank")
FILE_AT_BANK_TITLE = Words("Der Sammelauftrag ist bei der Bank", "The batch order is at the bank")
VOID_TITLE = Words("Datei nicht mehr gültig", "File no longer valid")

AMOUNT, SUM = Words("Betrag", "Amount"), Words("Summe", "Sum")
PAYEE, PURPOSE, REFERENCE = (
    Words("Empfänger", "Payee"),
    Words("Verwendungszweck", "Purpose"),
    Words("Referenz", "Reference"),
)
DEBTOR, KIND, STATE = Words("Von", "From"), Words("Art", "Kind"), Words("Stand", "State")
ORDERS, ORDERS_IN_FILE = Words("Aufträge", "Orders"), Words("Aufträge in der Datei", "Orders in the file")
INSTANT, TRANSFER = Words("Echtzeitüberweisung", "Instant credit transfer"), Words("Überweisung", "Credit transfer")
ON_DAY = Words("am %(day)s", "on %(day)s")
TAKEN = Words(
    "Datei heruntergeladen am %(time)s Uhr, noch keine Nachricht der Bank", "File downloaded on %(time)s, no word from the bank yet"
)  # fmt: skip
NOT_TAKEN = Words("noch nicht heruntergeladen", "not downloaded yet")

IN_BATCH = Words(
    "Dieser Auftrag ist in einer Sammeldatei enthalten und wird mit ihr hochgeladen.",
    "This order is part of a batch file and is uploaded with it.",
)
ONLY_ONCE = Words(
    "Laden Sie die Datei nur einmal bei der Bank hoch: zweimal hochgeladen kann sie zweimal bezahlt werden.",
    "Upload the file at the bank only once: uploaded twice, it may be paid twice.",
)
DAY_PASSED = Words(
    "Der Ausführungstag der heruntergeladenen Datei ist vorbei, die Bank nimmt sie nicht mehr an. Laden Sie die Datei neu herunter: Sie "
    "gilt dann ab heute und trägt dieselben Kennungen. Reichen Sie sie nur ein, wenn die erste nicht bei der Bank ist.",
    "The execution day of the file that was downloaded has passed, and the bank no longer takes it. Download the file again: it then "
    "holds from today and has the same references. Submit it only if the first one is not at the bank.",
)
ONE_PAYMENT = Words(
    "Manche Banken lehnen eine Datei mit nur einer Zahlung ab, weil bei Einzelaufträgen der Empfänger geprüft werden muss. Reichen Sie "
    "mehrere Aufträge in einer Sammeldatei ein, oder erfassen Sie diesen im Online-Banking.",
    "Some banks refuse a file with a single payment, because the payee of a single order must be verified. Submit several orders in a "
    "batch file, or enter this one in online banking.",
)
DOWNLOAD_FIRST = Words(
    "Laden Sie die Auftragsdatei herunter. Das Geld bewegt sich dadurch noch nicht.", "Download the order file. This moves no money yet."
)  # fmt: skip
UPLOAD_ORDER = Words(
    "Melden Sie sich im Online-Banking der %(bank)s oder in Ihrem Zahlungsprogramm an, laden Sie die Datei dort hoch (oft unter "
    "„Datei-Upload“, „Sammelauftrag“ oder „SEPA-Datei einreichen“), prüfen Sie Empfänger und Betrag und geben Sie den Auftrag frei.",
    "Sign in to the online banking of %(bank)s or to your payment program, upload the file there (often under “Datei-Upload”, "
    "“Sammelauftrag” or “SEPA-Datei einreichen”), check payee and amount, and authorise the order.",
)
UPLOAD_FILE = Words(
    "Laden Sie die Datei im Online-Banking der %(bank)s oder in Ihrem Zahlungsprogramm hoch, und zwar nur einmal. Prüfen Sie Anzahl und "
    "Summe und geben Sie die Aufträge frei.",
    "Upload the file in the online banking of %(bank)s or in your payment program, and only once. Check number and sum, and authorise "
    "the orders.",
)
THEN_PAID = Words(
    "Mehr ist nicht zu tun. Als bezahlt gilt der Auftrag, sobald die Buchung im nächsten Kontoauszug eingelesen ist.",
    "That is all. The order counts as paid as soon as its booking was read from the next bank statement.",
)
THEN_ALL_PAID = Words(
    "Mehr ist nicht zu tun. Als bezahlt gelten die Aufträge, sobald ihre Buchungen im nächsten Kontoauszug eingelesen sind.",
    "That is all. The orders count as paid as soon as their bookings were read from the next bank statement.",
)
DOWNLOAD = Words("Auftragsdatei herunterladen", "Download the order file")
FORMAT = Words(
    "Eine XML-Datei im Format pain.001, das jede Bank im SEPA-Raum liest.",
    "An XML file in the format pain.001, which every bank of the SEPA area reads.",
)
EXPIRES = Words("Diese Seite gilt bis %(day)s.", "This page is valid until %(day)s.")
LAPSES = Words(
    "Ein Auftrag, der bis dahin nicht heruntergeladen wurde, verfällt.", "An order that was not downloaded by then lapses."
)  # fmt: skip
CANCEL_ORDER = Words("Auftrag abbrechen", "Cancel the order")
CANCEL_HINT = Words(
    "Nur wenn die Datei nicht bei der Bank ist. Haben Sie sie schon hochgeladen, brechen Sie den Auftrag zuerst dort ab.",
    "Only if the file is not at the bank. If you have uploaded it already, cancel the order there first.",
)

DEBITED = Words("Die Bank hat den Betrag abgebucht.", "The bank has debited the amount.")
CANCELLED = Words("Der Auftrag wurde abgebrochen.", "The order was cancelled.")
NOT_FETCHED = Words("Der Auftrag wurde nicht rechtzeitig heruntergeladen.", "The order was not downloaded in time.")
NOT_EXECUTED = Words("Dieser Auftrag wird nicht ausgeführt", "This order will not be executed")
UPLOAD_NO_MORE = Words("Laden Sie seine Datei nicht mehr hoch.", "Do not upload its file any more.")
ACCEPTED = Words(
    "Die Bank hat den Auftrag angenommen. Laden Sie die Datei nicht noch einmal hoch.",
    "The bank has accepted the order. Do not upload the file again.",
)
VOID = Words(
    "Ein Auftrag dieser Datei wurde abgebrochen oder abgelehnt, oder die Datei wurde verworfen. Laden Sie sie nicht mehr hoch.",
    "An order of this file was cancelled or rejected, or the file was discarded. Do not upload it any more.",
)
HEARD = Words(
    "Die Bank hat sich zu dieser Datei gemeldet. Laden Sie sie nicht noch einmal hoch.",
    "The bank has answered about this file. Do not upload it again.",
)
