"""Texts of the hosted pages for a person, in German and English."""

from __future__ import annotations

from kontobahn.banking.interaction import Words

BANK_TITLE = Words("Bank auswählen", "Choose your bank")
BANK_LEGEND = Words("Bei welcher Bank ist das Konto?", "Which bank is the account with?")
SEARCH = Words("Name, Ort oder Bankleitzahl", "Name, place or bank code")
FIND = Words("Suchen", "Search")
NONE_FOUND = Words(
    "Keine Bank gefunden. Versuchen Sie es mit einem Teil des Namens.", "No bank found. Try a part of its name."
)
CHOOSE = Words("Bitte wählen Sie eine Bank aus.", "Please choose a bank.")
BANK_SAYS = Words("Ihre Bank schreibt", "Your bank says")
CANCEL = Words("Abbrechen", "Cancel")
AGAIN = Words("Noch einmal versuchen", "Try again")
BACK = Words("Zurück zur Anwendung", "Back to the application")
CLOSE = Words("Sie können diese Seite jetzt schließen.", "You can close this page now.")
DONE_TITLE = Words("Konto verbunden", "Account connected")
DONE = Words("Das Konto ist verbunden.", "The account is connected.")
FAILED_TITLE = Words("Nicht verbunden", "Not connected")
BUSY = Words(
    "Die Anfrage bei der Bank läuft noch. Bitte laden Sie die Seite gleich noch einmal.",
    "The bank has not answered yet. Please reload this page in a moment.",
)
WAITING_TITLE = Words("Wir warten auf Ihre Bank", "Waiting for your bank")
WAITING = Words(
    "Das kann einige Minuten dauern. Lassen Sie diese Seite offen: Sie geht von selbst weiter.",
    "This may take some minutes. Keep this page open: it continues by itself.",
)
DOWN = Words(
    "Die Bank antwortet gerade nicht. Es ist nichts verloren gegangen: Bitte versuchen Sie es gleich noch einmal.",
    "The bank does not answer at the moment. Nothing was lost: please try again in a moment.",
)
REDIRECT_TITLE = Words("Weiter zu Ihrer Bank", "On to your bank")
REDIRECT = Words("Sie werden zur Seite Ihrer Bank weitergeleitet.", "You are being taken to the page of your bank.")
APP = Words(
    "Öffnen Sie die App Ihrer Bank und bestätigen Sie dort. Danach geht es hier von selbst weiter.",
    "Open your bank's app and confirm there. This page then continues by itself.",
)
CONFIRMED = Words("Ich habe bestätigt", "I have confirmed")
FLICKER = Words(
    "Halten Sie den TAN-Generator an die flackernde Grafik. Passt die Größe nicht, ändern Sie den Zoom des Browsers.",
    "Hold the TAN generator against the flickering image. If the size does not fit, change the zoom of your browser.",
)
IMAGE = Words(
    "Scannen Sie das Bild mit der App oder dem Lesegerät Ihrer Bank.", "Scan the image with your bank's app or reader."
)
PAID_TITLE = Words("Zurück von der Bank", "Back from the bank")
PAID = Words(
    "Was aus der Zahlung wird, meldet die Bank. Die Anwendung, von der Sie kommen, zeigt es an.",
    "What becomes of the payment is reported by the bank. The application that you come from shows it.",
)
CODE = Words("Code der Bank", "Code of the bank")
OTHER_LANGUAGE = Words("English", "Deutsch")

# Shown to a person about an error; the bank's own words are shown beside it.
_ERRORS = {
    "InvalidCredentials": Words(
        "Die Bank nimmt Anmeldename oder PIN nicht an.", "The bank does not accept the login or the PIN."
    ),
    "InvalidInteractiveCredentials": Words("Die TAN war falsch.", "The TAN was wrong."),
    "InteractiveTimeout": Words("Es wurde nicht rechtzeitig bestätigt.", "It was not confirmed in time."),
    "LockedAtBank": Words(
        "Die Bank hat diesen Zugang gesperrt. Bitte lassen Sie ihn zuerst bei der Bank entsperren.",
        "The bank has locked this access. Please have it unlocked at the bank first.",
    ),
    "InteractionRequired": Words("Die Bank verlangt eine Bestätigung.", "The bank needs a confirmation."),
    "ProviderError": Words(
        "Die Bank hat eine technische Störung. Bitte versuchen Sie es später noch einmal.",
        "The bank has a technical problem. Please try again later.",
    ),
    "Cancelled": Words("Sie haben den Vorgang abgebrochen.", "You have cancelled."),
}


def error_text(error_class: str | None, message: str | None) -> Words:
    said = message or error_class or ""
    return _ERRORS.get(error_class or "", Words(said, said))


NO_FILE = Words("Bitte wählen Sie eine Datei aus.", "Please choose a file.")
READ_FILE = Words("Datei einlesen", "Read the file")
FILLS_IN = Words(
    "Das Formular wird daraus ausgefüllt, gesendet wird noch nichts.",
    "The form is filled in from it, and nothing is sent yet.",
)
PRINT_DE = Words("Brief auf Deutsch (PDF)", "Letter in German (PDF)")
PRINT_EN = Words("Brief auf Englisch (PDF)", "Letter in English (PDF)")
