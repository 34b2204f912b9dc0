"""Steps that a bank wants from its person on the way, as data: every provider says it in these terms, and the hosted pages show it.

What the bank says is passed on in its own words. What we say ourselves is there in German and English.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Language = Literal["de", "en"]
# form: something to type; choice: one of several methods, devices, accounts; image and flicker: a code to scan, and something to type;
# decoupled: a confirmation elsewhere, which is asked for again and again; redirect: a page of the bank.
StepKind = Literal["form", "choice", "image", "flicker", "decoupled", "redirect"]
# A long one is seen as a whole, in several lines.
FieldKind = Literal["text", "long", "digits", "secret", "check"]
MAX_FIELD_LENGTH = 200
# Pages of banks and providers send a person back to this path; the provider's name follows.
RETURN_PATH = "/banking/return"
# Entered by the person: by the name of a field, or of the choice.
Given = Mapping[str, tuple[str, ...]]


class Words(NamedTuple):
    """A text of ours for people."""

    de: str
    en: str

    def in_language(self, language: Language) -> str:
        return self.de if language == "de" else self.en


FILE = "file"
CONTINUE, CONFIRM = Words("Weiter", "Continue"), Words("Bestätigen", "Confirm")


class Field(NamedTuple):
    name: str
    label: Words
    kind: FieldKind = "text"
    hint: Words | None = None
    is_required: bool = True
    max_length: int = MAX_FIELD_LENGTH
    # Its content at first. A secret is never sent back to the browser.
    value: str = ""
    # For the browser's own help: `username`, `one-time-code`.
    autocomplete: str = "off"


class Option(NamedTuple):
    value: str
    label: str
    hint: str = ""
    picture_url: str = ""
    is_chosen: bool = False


class Picture(NamedTuple):
    media_type: str
    content: bytes


class Document(NamedTuple):
    """A paper for the person to print or keep."""

    file_name: str
    media_type: str
    content: bytes
    language: Language


class Polling(NamedTuple):
    """The times at which a confirmation elsewhere is asked for: when first, how often, how many times at most."""

    first_seconds: int
    next_seconds: int
    max_polls: int
    # True if the page may ask by itself, and if the person may say “I have confirmed”.
    by_itself: bool = True
    by_hand: bool = True


class Step(NamedTuple):
    kind: StepKind
    title: Words
    # The bank's own words.
    said: str = ""
    hint: Words | None = None
    fields: tuple[Field, ...] = ()
    # The name of the choice, its heading, and what there is to choose from.
    choice: str = ""
    legend: Words | None = None
    options: tuple[Option, ...] = ()
    takes_several: bool = False
    picture: Picture | None = None
    # The code of an optical TAN generator, in hexadecimal.
    flicker: str | None = None
    polling: Polling | None = None
    url: str | None = None
    button: Words = CONTINUE
    documents: tuple[Document, ...] = ()
    # The name of a file from which the fields can be filled in: it comes back alone, as FILE, in base64.
    upload: Words | None = None


class Interaction(NamedTuple):
    """The next step, and what the provider needs to go on from it.

    The state is kept sealed, only until the step expires, and comes back once: with what the person entered.
    """

    step: Step
    state: bytes
    expires_at: int


def missing(step: Step, given: Given) -> Words | None:
    """Returns what is wrong with what was entered, before the bank sees it."""
    for field in step.fields:
        text = "".join(given.get(field.name, ()))
        if field.kind == "check":
            continue
        if field.is_required and not text.strip():
            return Words(f"Bitte füllen Sie „{field.label.de}“ aus.", f"Please fill in “{field.label.en}”.")
        if len(text) > field.max_length:
            return Words(f"„{field.label.de}“ ist zu lang.", f"“{field.label.en}” is too long.")
        if field.kind == "digits" and text.strip() and not (text.strip().isascii() and text.strip().isdigit()):
            return Words(f"„{field.label.de}“ besteht aus Ziffern.", f"“{field.label.en}” consists of digits.")
    chosen = given.get(step.choice, ())
    values = {option.value for option in step.options}
    if step.options and not (chosen and set(chosen) <= values and (step.takes_several or len(chosen) == 1)):
        return Words("Bitte wählen Sie etwas aus.", "Please choose.")
    return None


def entered(step: Step, fields: Mapping[str, list[str]]) -> Given:
    """Returns what a form sent of what this step asks for, and nothing else."""
    names = [field.name for field in step.fields] + ([step.choice] if step.choice else [])
    return {name: tuple(fields[name][:100]) for name in names if name in fields}
