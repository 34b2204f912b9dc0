"""What a person is asked on the way to a FinTS bank, in the words of the hosted pages."""

from __future__ import annotations

from kontobahn.banking.interaction import CONFIRM, Field, Option, Picture, Polling, Step, StepKind, Words
from kontobahn.banking.providers.fints.model import Challenge, Method

OTHER = Words(
    "Die Angaben stehen in den Unterlagen Ihrer Bank unter „FinTS“ oder „HBCI mit PIN/TAN“.",
    "Your bank's documents have these under “FinTS” or “HBCI with PIN/TAN”.",
)
PIN_STAYS = Words(
    "Anmeldename und PIN gehen von dieser Installation direkt an Ihre Bank.",
    "Login and PIN go from this installation directly to your bank.",
)


def sign_in(user: str, *, is_other: bool, is_kept: bool) -> Step:
    bank = (
        Field("blz", Words("Bankleitzahl", "Bank code (BLZ)"), "digits", max_length=8),
        Field("url", Words("FinTS-Adresse", "FinTS address"), hint=OTHER, max_length=500),
    )
    fields = (
        *(bank if is_other else ()),
        Field("user", Words("Anmeldename oder Legitimations-ID", "Login"), value=user, max_length=100, autocomplete="username"),
        Field(
            "customer", Words("Kunden-ID", "Customer id"), is_required=False, max_length=100,
            hint=Words("Nur wenn Ihre Bank eine eigene verlangt.", "Only if your bank wants one."),
        ),
        Field("pin", Words("PIN", "PIN"), "secret", max_length=99),
        Field(
            "keep", Words("PIN verschlüsselt aufbewahren", "Keep the PIN, encrypted"), "check", value="yes" if is_kept else "",
            hint=Words(
                "Dann kommen neue Umsätze von selbst. Sonst geben Sie die PIN bei jedem Abruf ein.",
                "New transactions then come by themselves. Otherwise you enter the PIN each time.",
            ),
        ),
        Field(
            "more", Words("Auch ältere Umsätze", "Older transactions too"), "check",
            hint=Words(
                "So weit zurück, wie die Bank sie hat. Dafür verlangt sie meistens eine TAN.",
                "As far back as the bank has them. It usually wants a TAN for that.",
            ),
        ),
    )  # fmt: skip
    return Step("form", Words("Bei der Bank anmelden", "Sign in at your bank"), hint=PIN_STAYS, fields=fields)


def choose_method(methods: list[Method]) -> Step:
    options = tuple(Option(method.code, method.name) for method in methods)
    legend = Words("Womit bestätigen Sie?", "How do you confirm?")
    return Step(
        "choice", Words("TAN-Verfahren wählen", "Choose a TAN method"), choice="method", legend=legend, options=options
    )


def choose_device(names: list[str]) -> Step:
    options = tuple(Option(name, name) for name in names)
    legend = Words("Mit welchem Gerät?", "With which device?")
    return Step("choice", Words("Gerät wählen", "Choose a device"), choice="device", legend=legend, options=options)


def confirm(challenge: Challenge) -> Step:
    if challenge.is_decoupled:
        polling = Polling(
            challenge.first_seconds, challenge.next_seconds, challenge.max_polls, challenge.by_itself, challenge.by_hand
        )
        return Step(
            "decoupled", Words("In der App bestätigen", "Confirm in the app"), said=challenge.text, polling=polling
        )
    field = Field("tan", Words("TAN", "TAN"), max_length=99, autocomplete="one-time-code")
    kind: StepKind = "form"
    picture = None
    if challenge.image is not None and challenge.image_type is not None:
        kind, picture = "image", Picture(challenge.image_type, challenge.image)
    elif challenge.flicker is not None:
        kind = "flicker"
    return Step(
        kind, Words("TAN eingeben", "Enter the TAN"), said=challenge.text, fields=(field,), picture=picture,
        flicker=challenge.flicker if kind == "flicker" else None, button=CONFIRM,
    )  # fmt: skip
