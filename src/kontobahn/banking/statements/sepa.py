"""PLACEHOLDER until the statements work is brought in."""

NAME_LENGTH, REMITTANCE_LENGTH, ID_LENGTH = 70, 140, 35


def problem(text: str, longest: int) -> str | None:
    return "is longer than" if len(text) > longest else None
